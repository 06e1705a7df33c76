import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_configs import tiny_config
from torch import Tensor
from torch_geometric.data import Data

from gump.datasets import fake_dataset
from gump.experiment.feed import Feed, GraphFeed, LinkFeed, NodeFeed
from gump.experiment.model import build_model, parts_with_rates, penalty
from gump.experiment.progress import Evaluation, Progress
from gump.experiment.protocol import Links, Official
from gump.experiment.store import GraphStore
from gump.experiment.task import TASKS
from gump.experiment.trainer import Trainer, evaluate
from gump.experiment.training import Training
from gump.nn import GUMP


def trainer(
    model: dict[str, Any] | None = None, weights: int = 0, level: str = "graph", task: str = "multiclass", **train: Any
) -> Trainer:
    """A trainer on fake data, with the first weights of a seed."""
    config = tiny_config(dataset={"level": level, "task": task}, model={"base_norm": "batch"} | (model or {}), train=train)
    data = fake_dataset(level, task, num_graphs=20, num_nodes=6)
    if level == "link":
        feed: Feed = LinkFeed(data, Links().split(data, 0), 0, True, torch.device("cpu"))
    elif level == "node":
        feed = NodeFeed(data[0], Official().split(data, 0), torch.device("cpu"))
    else:
        feed = GraphFeed(GraphStore(data.graphs), Official().split(data, 0), config.training.batch_size, level)
    torch.manual_seed(weights)
    return Trainer(build_model(config.settings, data), feed, TASKS[data.task], config.training, save_every_s=0)


def reached(trainer: Trainer) -> dict[str, Any]:
    return dataclasses.asdict(trainer.progress) | {"times_s": None}


def assert_equal(a: Trainer, b: Trainer) -> None:
    """Bit for bit: what was reached, and what a next epoch would start from."""
    assert reached(a) == reached(b)
    for key in ("model", "optimizer", "average", "schedule"):
        assert flat(a.state_dict()[key]) == flat(b.state_dict()[key])


def flat(state: Any) -> Any:
    """A tree of tensors as one of numbers."""
    if isinstance(state, dict):
        return {key: flat(value) for key, value in state.items()}
    return (
        [flat(value) for value in state]
        if isinstance(state, list | tuple)
        else state.tolist()
        if isinstance(state, Tensor)
        else state
    )


class Stopped(Exception):
    pass


def stop_in(epoch: int) -> Callable[[int, dict[str, float]], None]:
    def watch(now: int, results: dict[str, float]) -> None:
        if now == epoch:
            raise Stopped

    return watch


@pytest.mark.parametrize(
    ("level", "task"),
    [("graph", "multiclass"), ("graph", "regression"), ("source", "binary"), ("node", "multilabel"), ("link", "binary")],
)
def test_the_loss_falls(level: str, task: str) -> None:
    run = trainer(level=level, task=task, epochs=40 if level in ("node", "link") else 15, batch_size=8)
    history = run.fit().history
    assert history["train_loss"][-1] < 0.8 * history["train_loss"][0]


@pytest.mark.parametrize("level", ["graph", "link"])
def test_the_same_seed_gives_the_same_run_bit_for_bit_and_another_does_not(level: str) -> None:
    runs = [trainer({"dropout": 0.3}, level=level, task="binary") for _ in range(3)]
    runs[2].seed = 1  # of batches, dropout and negatives; its first weights are the same
    for run in runs:
        run.fit()
    assert_equal(runs[0], runs[1])
    assert runs[0].progress.history != runs[2].progress.history


def test_a_penalty_of_the_models_own_is_part_of_the_training_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = trainer()
    plain.fit()
    monkeypatch.setattr(GUMP, "regularization", lambda self: torch.tensor(2.5), raising=False)
    constant = trainer()
    constant.fit()
    assert constant.progress.history["train_loss"] == pytest.approx([loss + 2.5 for loss in plain.progress.history["train_loss"]])
    for key in ("val_loss", "val"):
        assert constant.progress.history[key] == plain.progress.history[key], "nothing hangs on a constant"
    monkeypatch.setattr(GUMP, "regularization", lambda self: sum(p.square().sum() for p in self.parameters()))
    shrunk = trainer()
    shrunk.fit()
    norms = [sum(float(p.detach().square().sum()) for p in run.module.module.encoder.parameters()) for run in (plain, shrunk)]
    assert norms[1] < norms[0]


def test_the_penalty_is_that_of_the_model_behind_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    data = fake_dataset(num_graphs=20, num_nodes=6, categorical=True)
    model = build_model(tiny_config(dataset={"categorical": True}).settings, data)
    assert penalty(model) is None
    monkeypatch.setattr(GUMP, "regularization", lambda self: torch.tensor(2.5), raising=False)
    assert float(penalty(model)) == 2.5


SCHEDULES: dict[str, dict[str, Any]] = {
    "none": {"weight_decay": 0.1, "clip": 0.5},
    "cosine": {"schedule": "cosine", "warmup": 2, "optimizer": "adamw", "base_lr": 0.1, "weight_decay": 0.1},
    "plateau": {"schedule": "plateau", "plateau_patience": 0, "plateau_factor": 0.5, "lr": 0.1, "epochs": 4},
    "average": {"average": 0.6, "lr": 0.1, "clip": 1.0},
    "plateau_train": {"schedule": "plateau_train", "plateau_patience": 0, "lr": 0.1, "patience": 2, "monitor": "metric"},
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_run_stopped_in_any_epoch_goes_on_as_if_it_had_not(name: str, tmp_path: Path) -> None:
    settings = {"epochs": 5} | SCHEDULES[name]
    whole = trainer({"dropout": 0.3}, **settings)
    whole.fit()
    for epoch in range(1, whole.progress.epoch + 1):
        checkpoint = tmp_path / f"{epoch}.ckpt"
        with pytest.raises(Stopped):
            trainer({"dropout": 0.3}, **settings).fit(checkpoint, "run", stop_in(epoch))
        assert checkpoint.exists() == (epoch > 1)
        resumed = trainer({"dropout": 0.3}, weights=0 if epoch == 1 else 99, **settings)
        seen: list[int] = []
        resumed.fit(checkpoint, "run", lambda now, _, seen=seen: seen.append(now))  # type: ignore[misc]
        assert seen == list(range(epoch, whole.progress.epoch + 1))  # what a checkpoint has is not trained again
        assert_equal(resumed, whole)


def test_an_average_of_weights_is_judged_and_kept_and_changes_no_step() -> None:
    plain, averaged = trainer(epochs=3, lr=0.1), trainer(epochs=3, lr=0.1, average=0.9, select="last")
    averaged.keep_weights = True
    plain.fit()
    averaged.fit()
    assert averaged.progress.history["train_loss"] == plain.progress.history["train_loss"]
    assert flat(averaged.module.state_dict()) == flat(plain.module.state_dict()), "the weights of the last step"
    for (name, _), value in zip(averaged.module.module.named_parameters(), averaged.average.values, strict=False):
        assert torch.equal(averaged.kept[name], value)
    averaged.module.load_state_dict(averaged.kept)
    assert evaluate(averaged.module, averaged.feed, "val", averaged.task).loss == averaged.progress.history["val_loss"][-1]
    assert averaged.progress.history["val_loss"][-1] != plain.progress.history["val_loss"][-1]


def test_a_checkpoint_from_before_there_were_averages_is_gone_on_from() -> None:
    whole, half = trainer({"dropout": 0.3}, epochs=4), trainer({"dropout": 0.3}, epochs=4)
    whole.fit()
    with pytest.raises(Stopped):
        half.fit(watch=stop_in(2))
    state = half.state_dict()
    del state["average"]
    resumed = trainer({"dropout": 0.3}, weights=99, epochs=4)
    resumed.load_state_dict(state)
    resumed.fit()
    assert reached(resumed)["history"] == reached(whole)["history"]


def test_a_run_stopped_again_and_again_ends_the_same(tmp_path: Path) -> None:
    whole, checkpoint = trainer({"dropout": 0.3}, level="link"), tmp_path / "c"
    whole.fit()
    for epoch in (2, 3):
        with pytest.raises(Stopped):
            trainer({"dropout": 0.3}, level="link").fit(checkpoint, "run", stop_in(epoch))
    last = trainer({"dropout": 0.3}, weights=99, level="link")
    last.fit(checkpoint, "run")
    assert_equal(last, whole)


def test_a_checkpoint_of_the_end_trains_nothing(tmp_path: Path) -> None:
    first, second = trainer(), trainer(weights=99)
    first.fit(tmp_path / "c", "run")
    second.fit(tmp_path / "c", "run", stop_in(1))
    assert_equal(first, second)


def test_checkpoints_load_without_unpickling_code_and_only_for_their_own_run(tmp_path: Path) -> None:
    path = tmp_path / "c"
    trainer(weights=99, schedule="cosine").fit(path, "one")
    state = torch.load(path, weights_only=True)
    assert set(state) == {"identity", "model", "optimizer", "average", "schedule", "progress", "kept"}
    assert (state["identity"], state["progress"]["epoch"]) == ("one", 3)
    other, whole = trainer(schedule="cosine"), trainer(schedule="cosine")
    with pytest.warns(UserWarning, match="the run was 'one', is 'another'"):
        other.fit(path, "another")
    whole.fit()
    assert_equal(other, whole)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 cut off"])
def test_a_checkpoint_that_cannot_be_read_is_a_warning(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c").write_bytes(content)
    run = trainer()
    with pytest.warns(UserWarning, match="cannot be read, so the run starts anew"):
        run.fit(tmp_path / "c", "run")
    assert run.progress.epoch == 3


def test_checkpoints_are_written_only_so_often(tmp_path: Path) -> None:
    run = trainer()
    run.save_every_s = 1e6
    run.fit(tmp_path / "c", "run")
    assert not list(tmp_path.iterdir())


def scripted(monkeypatch: pytest.MonkeyPatch, values: list[tuple[float, float]], **train: Any) -> Progress:
    """Trains while validation gives the loss and the measure of a list."""
    script, parts = iter(values), []

    def answer(module: Any, feed: Any, part: str, task: Any) -> Any:
        parts.append(part)
        loss, measure = next(script) if part == "val" else (10.0 + parts.count("val"), 20.0 + parts.count("val"))
        return Evaluation(loss, measure, torch.zeros(1, 2), torch.zeros(1, 1))

    monkeypatch.setattr("gump.experiment.trainer.evaluate", answer)
    run = trainer(epochs=len(values), **train)
    run.fit()
    run.progress.predictions["parts"] = parts
    return run.progress


def test_the_epochs_that_count_are_chosen_by_loss_by_measure_and_last(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = scripted(monkeypatch, [(0.5, 0.7), (0.4, 0.7), (0.6, 0.9), (0.4, 0.9), (0.7, 0.1)])
    assert {rule: best["epoch"] for rule, best in progress.best.items()} == {"loss": 2, "metric": 4, "last": 5}, (
        "of equals the lower loss"
    )
    loss = progress.best["loss"]
    assert (loss["val_loss"], loss["val"], loss["test_loss"], loss["test"]) == (0.4, 0.7, 12.0, 22.0)
    assert loss["train_loss"] == progress.history["train_loss"][1]
    assert progress.history["val"] == [0.7, 0.7, 0.9, 0.9, 0.1]


def test_where_the_measure_is_not_known_the_lowest_loss_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = [(0.5, math.nan), (0.4, math.nan), (0.6, math.nan)]
    assert scripted(monkeypatch, unknown).best["metric"]["epoch"] == 2
    assert scripted(monkeypatch, [*unknown, (0.7, 0.1), (0.3, math.nan)]).best["metric"]["epoch"] == 4


def test_the_test_set_is_looked_at_only_where_an_epoch_may_count(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = scripted(monkeypatch, [(0.5, 0.7), (0.6, 0.6), (0.6, 0.8), (0.9, 0.1), (0.9, 0.1), (0.9, 0.1)])
    assert progress.predictions["parts"] == ["val", "test", "val", "val", "test", "val", "val", "val", "test"]
    assert set(progress.predictions) == {"target", "loss", "metric", "last", "parts"}


@pytest.mark.parametrize(
    ("losses", "train", "epochs"),
    [
        ([5, 4, 3, 3, 3, 3, 3, 3], {"patience": 2}, 6),  # stops when more than two epochs were idle
        ([5, 4, 5, 5, 3, 5, 5, 5, 5], {"patience": 2}, 8),  # progress starts the count again
        ([5, 5], {"patience": 0}, 2),
        ([100, 99.5, 99, 98, 97.9, 97.8], {"patience": 2, "threshold": 1.01}, 6),  # only the fourth is better by a factor of 1.01
        ([100, 99.9, 99.8, 99.7, 99.6], {"patience": 2, "threshold": 1.01}, 4),
        ([5, 4, 3], {}, 3),
    ],
)
def test_training_stops_when_the_loss_no_longer_falls(
    monkeypatch: pytest.MonkeyPatch, losses: list[float], train: dict[str, Any], epochs: int
) -> None:
    progress = scripted(monkeypatch, [(loss, 0.5) for loss in losses], **train)
    assert (progress.epoch, progress.best["last"]["epoch"]) == (epochs, epochs)


@pytest.mark.parametrize(
    ("values", "train", "epochs"),
    [
        ([0.5, 0.6, 0.6, 0.6, 0.6], {"patience": 1}, 4),
        ([0.5, 0.504, 0.506, 0.507, 0.508, 0.508], {"patience": 1, "threshold": 1.01}, 5),
        ([math.nan, 0.1, math.nan, math.nan, 0.9], {"patience": 1}, 4),
        ([math.nan] * 5, {"patience": 1}, 2),
    ],
)
def test_training_stops_when_the_measure_no_longer_improves(
    monkeypatch: pytest.MonkeyPatch, values: list[float], train: dict[str, Any], epochs: int
) -> None:
    assert scripted(monkeypatch, [(1.0, value) for value in values], monitor="metric", **train).epoch == epochs


def test_training_stops_when_the_measure_was_good_enough_often_enough_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [1.0, 1.0, 0.9, 1.0, math.nan, 1.0, 1.0, 1.0, 1.0]
    progress = scripted(monkeypatch, [(1.0, value) for value in values], stop_at=1.0, stop_after=3)
    assert (progress.epoch, progress.num_good) == (8, 3)
    small = scripted(
        monkeypatch, [(1.0, value) for value in (0.3, 0.1, 0.2, 0.1, 0.0)], task="regression", stop_at=0.2, stop_after=2
    )
    assert small.epoch == 3


def test_cosine_warms_up_and_falls_to_zero() -> None:
    run, rates = trainer(schedule="cosine", warmup=2, epochs=6, lr=1.0, base_lr=0.1, coin_lr=0.2), []
    for _ in range(7):
        rates.append([group["lr"] for group in run.optimizer.param_groups])
        run.optimizer.step()
        run.schedule.step()  # type: ignore[union-attr, call-arg]
    expected = [1 / 3, 2 / 3, *(0.5 * (1 + math.cos(math.pi * k / 4)) for k in range(5))]
    for factor, part in zip((0.1, 0.2, 1.0), zip(*rates, strict=True), strict=True):
        assert part == pytest.approx([factor * rate for rate in expected])


def test_the_rate_falls_on_a_plateau_of_its_own_series(monkeypatch: pytest.MonkeyPatch) -> None:
    for schedule, rate in (("plateau", 0.1 * 0.5**3), ("plateau_train", 0.1)):
        run = trainer(schedule=schedule, plateau_patience=0, plateau_factor=0.5, lr=0.1, epochs=4)
        monkeypatch.setattr(run, "_train_epoch", lambda run=run: 1.0 / (1 + run.progress.epoch))
        monkeypatch.setattr(
            "gump.experiment.trainer.evaluate", lambda *_: Evaluation(1.0, 0.5, torch.zeros(1, 2), torch.zeros(1).long())
        )
        run.fit()
        assert run.optimizer.param_groups[-1]["lr"] == pytest.approx(rate)


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_every_part_of_the_parameters_has_its_rate_and_decay(optimizer: str) -> None:
    rates = {"lr": 0.01, "base_lr": 0.1, "coin_lr": 1e-3, "weight_decay": 0.2, "base_weight_decay": 0.3, "coin_weight_decay": 0.4}
    run = trainer(optimizer=optimizer, **rates)
    assert type(run.optimizer.optimizer).__name__.lower() == optimizer
    assert [(g["lr"], g["weight_decay"]) for g in run.optimizer.param_groups] == [(0.1, 0.3), (1e-3, 0.4), (0.01, 0.2)]
    assert [g["params"] for g in run.optimizer.param_groups] == list(parts_with_rates(run.module.module).values())


def test_parts_take_the_common_rate_by_default_and_may_be_empty() -> None:
    assert {(g["lr"], g["weight_decay"]) for g in trainer(lr=0.01, weight_decay=0.2).optimizer.param_groups} == {(0.01, 0.2)}
    assert len(trainer({"base": "none", "norm": "none"}, lr=0.01).optimizer.param_groups) == 3
    assert len(trainer({"coin": "grover"}, lr=0.01).optimizer.param_groups) == 2
    linear = Trainer(Line(), Points(1.0), TASKS["regression"], Training())
    assert len(linear.optimizer.param_groups) == 1


@pytest.mark.parametrize("part", ["base", "coin"])
def test_a_part_with_rate_zero_stays(part: str) -> None:
    run = trainer(lr=0.01, **{f"{part}_lr": 0.0})
    model = run.module.module
    still = set(parts_with_rates(model)[part])
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    run.fit()
    moved = {name for name, p in model.named_parameters() if not p.equal(before[name])}
    assert not {name for name, p in model.named_parameters() if p in still} & moved
    assert moved


class Line(torch.nn.Module):
    """One weight, from which gradients can be told by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = self.Times()

    class Times(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def forward(self, x: Tensor) -> Tensor:
            return self.weight * x

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x)


class Points:
    """Batches of one number each, the same in every epoch, whose targets are zeros."""

    def __init__(self, *values: float) -> None:
        self.values = values

    def train_batches(self, shuffle: torch.Generator) -> Iterator[Data]:
        yield from (self._batch(value) for value in self.values)

    def batches(self, part: str) -> Iterator[Data]:
        yield self._batch(1.0)

    def _batch(self, value: float) -> Data:
        return Data(x=torch.tensor([[value]]), y=torch.zeros(1, 1))


def square(out: Tensor, y: Tensor, _: Tensor | None = None) -> Tensor:
    return ((out - y) ** 2).mean()


def line_trainer(points: Points, loss: Callable[[Tensor, Tensor], Tensor] = square, **train: Any) -> Trainer:
    return Trainer(Line(), points, TASKS["regression"]._replace(loss=loss), Training(**train))


def test_gradients_are_clipped_to_the_largest_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    norms: list[float] = []
    for clip in (None, 3.0, 1e6):
        run = line_trainer(Points(100.0), clip=clip, epochs=1)
        monkeypatch.setattr(run.optimizer, "step", lambda run=run: norms.append(float(run.module.module.encoder.weight.grad)))
        run.fit()
    assert norms == pytest.approx([2e4, 3.0, 2e4], rel=1e-5)


def test_a_loss_that_is_not_finite_ends_the_run_with_the_last_good_state() -> None:
    def loss(out: Tensor, y: Tensor, _: Tensor | None = None) -> Tensor:
        return square(out, y) / (out.detach() > 0.75).float().mean()  # 1 / 0 as soon as the weight has come down so far

    run = line_trainer(Points(1.0, 1.0), loss, lr=0.1, epochs=5)
    good = line_trainer(Points(1.0, 1.0), loss, lr=0.1, epochs=1)
    progress = run.fit()
    good.fit()
    assert progress.diverged == "epoch 2, step 2: the loss is inf; the largest gradient, inf, is that of 'encoder.weight'"
    assert progress.epoch == 1
    assert run.progress.finished(run.training)
    assert progress.history == good.progress.history
    assert progress.best == {rule: good.progress.best[rule] for rule in ("loss", "metric")}
    assert flat(run.state_dict()["model"]) == flat(good.state_dict()["model"])
    assert flat(run.state_dict()["optimizer"]) == flat(good.state_dict()["optimizer"])


def test_a_gradient_that_is_not_finite_is_found_before_it_is_the_state() -> None:
    def loss(out: Tensor, y: Tensor, _: Tensor | None = None) -> Tensor:
        return square(out, y) + 0 * (out - out.detach()).sqrt().mean()  # finite, with a gradient of 0 * inf

    run = line_trainer(Points(1.0), loss, epochs=3)
    progress = run.fit()
    assert progress.diverged == "epoch 1, step 1: the loss is 1; the largest gradient, nan, is that of 'encoder.weight'"
    assert run.module.module.encoder.weight.tolist() == [1.0]
    assert (progress.epoch, progress.history, progress.best) == (0, {}, {})


def test_the_largest_gradient_is_named_among_several() -> None:
    run, steps = trainer(task="regression"), itertools.count()
    real = run.task.loss

    def loss(out: Tensor, y: Tensor, _: Tensor | None = None) -> Tensor:
        return real(out, y) * (math.inf if next(steps) == 1 else 1)

    run.task = run.task._replace(loss=loss)
    found = run._first_failure()
    assert found.startswith("epoch 1, step 2: the loss is inf; the largest gradient, ")
    assert found.rpartition("is that of ")[2].strip("'") in dict(run.module.module.named_parameters())


def test_evaluation_changes_nothing_and_joins_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    run = trainer({"dropout": 0.5})
    before = {key: value.clone() for key, value in run.module.state_dict().items()}
    whole = evaluate(run.module, run.feed, "val", run.task)
    monkeypatch.setattr(GraphFeed, "EVALUATED_AT_ONCE", 1)
    pieces = evaluate(run.module, run.feed, "val", run.task)
    torch.testing.assert_close(whole.prediction, pieces.prediction)
    assert whole.loss == pytest.approx(pieces.loss)
    assert (whole.measure, whole.target.tolist()) == (pieces.measure, pieces.target.tolist())
    torch.testing.assert_close(before, run.module.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("precision", ["64-true", "bf16-mixed"])
def test_other_precisions_train(precision: str) -> None:
    run = trainer(precision=precision, epochs=2)
    assert math.isfinite(run.fit().best["last"]["test_loss"])
    kinds = {p.dtype for p in run.module.parameters()}
    assert kinds == {torch.float64 if precision == "64-true" else torch.float32}
