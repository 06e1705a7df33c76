"""Groups of runs that go on without those that are finished."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_configs import tiny_config

from gump.experiment import replica_trainer
from gump.experiment.feed import GraphFeed
from gump.experiment.model import build_model
from gump.experiment.padded import PaddedStore
from gump.experiment.preprocess import prepare
from gump.experiment.protocol import run_seed
from gump.experiment.recorded_steps import RecordedSteps
from gump.experiment.replica_trainer import ReplicaTrainer
from gump.experiment.store import GraphStore
from gump.experiment.task import TASKS
from gump.experiment.trainer import Trainer
from gump.experiment.units import units_of
from gump.experiment.vertex_store import VertexStore

ENDS = (3, 12, 4, 6, 4, 3, 9, 4)
"""After how many epochs each of a group's runs stops."""

WIDTHS = [8] * 4 + [3] * 5 + [1] * 3
"""How many are side by side in every epoch: eight until at most half of them are left, which are three, and then one."""

OWN = [{"patience": end - 2, "lr": 1e-3 * (r + 1), "weight_decay": 0.01 * (r == 6)} for r, end in enumerate(ENDS)]
"""The settings of each. Since nothing counts as progress, the patience says where it ends."""

TRAININGS: list[dict[str, Any]] = [
    {"schedule": "plateau", "plateau_patience": 0, "plateau_factor": 0.5},
    {"schedule": "cosine", "warmup": 1, "optimizer": "adamw", "clip": 0.5, "base_lr": 3e-3, "average": 0.9},
]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the rule by which groups narrow: down to a single run, unless it is told otherwise."""

    def set_rule(at: float = 0.5, narrowest: int = 1) -> None:
        monkeypatch.setattr(replica_trainer, "NARROWED_AT", at)
        monkeypatch.setattr(replica_trainer, "NARROWEST", narrowest)

    set_rule()
    return set_rule


def setting(
    level: str = "graph", dropout: float = 0.0, norm: str = "batch", **train: Any
) -> tuple[Any, Any, list[Any], list[torch.nn.Module]]:
    """A configuration, its data, and for every run a split and a model in double precision."""
    config = tiny_config(
        dataset={"level": level, "task": "multiclass" if level == "node" else "regression", "num_graphs": 30},
        protocol={"kind": "fresh", "num_runs": len(ENDS)},
        model={"conv": "gin", "base": "gin", "norm": norm, "base_norm": norm, "dropout": dropout},
        train={"epochs": 14, "threshold": 1e9, "select": "last", **train},
    )
    dataset = prepare(config.settings, line_graph=True)
    for graph in dataset.graphs:
        graph.x, graph.y = graph.x.double(), graph.y.double() if graph.y.is_floating_point() else graph.y
    splits, models = [config.protocol.split(dataset, index) for index in range(len(ENDS))], []
    for index, split in enumerate(splits):
        torch.manual_seed(run_seed(0, index))
        models.append(build_model(config.settings, dataset).double())
        if units := units_of(models[-1]):
            units.fit(torch.cat([dataset.graphs[i].y for i in split.train.tolist()]))
    return config, dataset, splits, models


def group(level: str = "graph", device: str = "cpu", **changes: Any) -> ReplicaTrainer:
    """The trainer of runs that stop one after the other."""
    config, dataset, splits, models = setting(level, **changes)
    if device == "cuda":
        models = [model.float().to(device) for model in models]
        for graph in dataset.graphs:
            graph.x, graph.y = graph.x.float(), graph.y.float()
    store = VertexStore(dataset[0], device) if level == "node" else PaddedStore(dataset.graphs, device)
    trainings = [dataclasses.replace(config.training, **own) for own in OWN]
    task, indices = TASKS[dataset.task], range(len(ENDS))
    return ReplicaTrainer(models, store, splits, task, trainings, 0, indices, save_every_s=0, keep_weights=True)


def assert_alike(trainer: ReplicaTrainer, other: ReplicaTrainer, tolerance: float) -> None:
    """Of every run, what comes out is the same."""
    close = {"abs": tolerance, "rel": tolerance}
    for own, theirs in zip(trainer.progress, other.progress, strict=True):
        assert own.epoch == theirs.epoch
        assert own.history.keys() == theirs.history.keys()
        assert own.best.keys() == theirs.best.keys()
        assert own.predictions.keys() == theirs.predictions.keys()
        for key, values in theirs.history.items():
            assert own.history[key] == pytest.approx(values, **close)
        for rule, best in theirs.best.items():
            assert own.best[rule] == pytest.approx(best, **close)
        for key, answers in theirs.predictions.items():
            torch.testing.assert_close(torch.tensor(own.predictions[key]), torch.tensor(answers), atol=tolerance, rtol=tolerance)
    for weights, expected in zip(trainer.kept, other.kept, strict=True):
        torch.testing.assert_close(weights, expected, atol=tolerance, rtol=tolerance)


def test_nothing_is_recorded_anew_for_what_is_evaluated(narrow: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Test sets that are larger than validation sets find the room that was made for both."""
    narrow(at=0.0)
    trainer = group()
    smallest = min(range(30), key=lambda i: trainer.store.layout(torch.tensor([[i]])).num_arcs)
    trainer.parts["val"] = torch.full_like(trainer.parts["test"], smallest)
    dropped: list[int] = []
    monkeypatch.setattr(RecordedSteps, "forget", lambda _: dropped.append(trainer.epoch))
    trainer.fit()
    assert dropped == []


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("train", TRAININGS, ids=["plateau", "cosine"])
def test_a_group_without_its_finished_runs_is_what_it_is_with_them(
    train: dict[str, Any], level: str, narrow: Callable[..., None]
) -> None:
    narrowed, widths = group(level, **train), list[int]()
    narrowed.fit(watch=lambda *_: widths.append(len(narrowed.carried)))
    assert widths == WIDTHS
    assert narrowed.carried == [1]
    assert [progress.epoch for progress in narrowed.progress] == [len(p.times_s) for p in narrowed.progress] == list(ENDS)
    narrow(at=0.0)
    whole = group(level, **train)
    whole.fit()
    assert whole.carried == list(range(8))
    assert_alike(narrowed, whole, 1e-5)
    assert narrowed.rate.tolist() == whole.rate.tolist()


@pytest.mark.usefixtures("narrow")
def test_runs_that_outlast_their_group_are_what_they_would_be_alone() -> None:
    trainer = group(norm="layer", **TRAININGS[0])
    trainer.fit()
    _, dataset, splits, models = setting(norm="layer", **TRAININGS[0])
    for r in (1, 3, 6):
        training, progress = trainer.trainings[r], trainer.progress[r]
        feed = GraphFeed(GraphStore(dataset.graphs), splits[r], training.batch_size)
        alone = Trainer(models[r], feed, trainer.task, training, 0, r).fit()
        assert progress.epoch == alone.epoch == ENDS[r]
        for key, values in alone.history.items():
            assert progress.history[key] == pytest.approx(values, abs=1e-5)


@pytest.mark.parametrize(("narrowest", "left"), [(8, [*range(8)]), (7, [1, 3, 6]), (3, [1, 3, 6]), (2, [1])])
def test_a_group_that_is_small_enough_stays_together(narrowest: int, left: list[int], narrow: Callable[..., None]) -> None:
    narrow(narrowest=narrowest)
    trainer = group()
    trainer.fit()
    assert trainer.carried == left


@pytest.mark.usefixtures("narrow")
def test_runs_that_diverge_are_left_behind_too() -> None:
    trainer = group()
    for weights in trainer.replicas.parameters.values():
        weights.data[:4] = torch.nan
    widths: list[int] = []
    trainer.fit(watch=lambda *_: widths.append(len(trainer.carried)))
    assert [bool(progress.diverged) for progress in trainer.progress] == [True] * 4 + [False] * 4
    assert [progress.epoch for progress in trainer.progress] == [0] * 4 + list(ENDS[4:])
    assert widths == [8, 4, 4, 4, *[1] * 5]


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("last", [2, 4, 5, 10, 12])  # before the group narrows, as it is about to, and after; and at its end
def test_a_group_stopped_around_its_narrowing_goes_on_to_the_same_end(
    last: int, dropout: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_trainer, "AHEAD", 1)  # so that layouts grow
    whole = group(dropout=dropout, **TRAININGS[0])
    whole.fit()

    def stop(epoch: int, _: dict[str, float]) -> None:
        if epoch == last + 1:
            raise KeyboardInterrupt

    stopped = group(dropout=dropout, **TRAININGS[0])
    if last < max(ENDS):
        with pytest.raises(KeyboardInterrupt):
            stopped.fit(tmp_path / "c.ckpt", "me", stop)
    else:
        stopped.fit(tmp_path / "c.ckpt", "me")
    resumed, widths = group(dropout=dropout, **TRAININGS[0]), list[int]()
    resumed.fit(tmp_path / "c.ckpt", "me", lambda *_: widths.append(len(resumed.carried)))
    assert widths == WIDTHS[last:]
    for key in ("history", "predictions", "best"):
        assert [getattr(p, key) for p in resumed.progress] == [getattr(p, key) for p in whole.progress]
    for weights, expected in zip(resumed.kept, whole.kept, strict=True):
        torch.testing.assert_close(weights, expected, atol=0, rtol=0)


@pytest.mark.usefixtures("narrow")
def test_recordings_are_dropped_when_a_group_narrows_and_layouts_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, dropped, layouts = group(), list[int](), list[Any]()
    forget = trainer.steps.forget

    def forgetting() -> None:
        dropped.append(trainer.epoch)
        layouts.append(dict(trainer.steps.layouts))
        forget()

    monkeypatch.setattr(trainer.steps, "forget", forgetting)
    trainer.fit()
    assert dropped == [4, 9]
    assert layouts == [trainer.steps.layouts] * 2
    assert {tensor.size(0) for tensor in trainer.replicas.buffers.values()} == {1}
    changed = trainer.steps.steps["train"].changes
    assert all(any(tensor is each for each in changed) for tensor in trainer.optimizer.tensors())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_recorded_steps_of_a_group_that_narrows_are_those_of_one_that_does_not(narrow: Callable[..., None]) -> None:
    def fit() -> ReplicaTrainer:
        trainer = group(device="cuda", **TRAININGS[0])
        assert trainer.steps.record
        trainer.fit()
        return trainer

    narrowed = fit()
    assert narrowed.carried == [1]
    narrow(at=0.0)
    whole = fit()
    for own, other in zip(narrowed.progress, whole.progress, strict=True):
        assert own.epoch == other.epoch
        assert own.history["train_loss"] == pytest.approx(other.history["train_loss"], abs=1e-2), "up to single precision"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.usefixtures("narrow")
def test_recordings_of_the_width_before_hold_no_memory() -> None:
    trainer, held = group(device="cuda"), dict[int, int]()

    def watch(epoch: int, _: dict[str, float]) -> None:
        held[epoch] = torch.cuda.memory_reserved()

    trainer.fit(watch=watch)
    assert held[12] <= held[4]
