import dataclasses
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

import gump.experiment.replica_trainer
import gump.experiment.replicas
import gump.experiment.summed_in_parts
from gump.datasets import fake_dataset
from gump.experiment.config import make_configs
from gump.experiment.feed import GraphFeed
from gump.experiment.model import build_model, predict
from gump.experiment.padded import PaddedStore
from gump.experiment.preprocess import prepare
from gump.experiment.protocol import run_seed
from gump.experiment.recorded_steps import can_be_recorded
from gump.experiment.replica_trainer import ReplicaTrainer
from gump.experiment.replicas import Replicas
from gump.experiment.store import GraphStore
from gump.experiment.summed_in_parts import SummedInParts
from gump.experiment.task import TASKS
from gump.experiment.trainer import Trainer
from gump.experiment.training import PER_REPLICA
from gump.kernels import LAUNCHED

MODELS: dict[str, dict[str, Any]] = {
    "GIN-GUMP": {"kind": "GUMP", "conv": "gin", "base": "gin", "num_base_layers": 2},
    "GCN-GUMP": {"kind": "GUMP", "conv": "gcn", "base": "gcn"},
    "GraphConv-GUMP, polar, residual": {"kind": "GUMP", "conv": "graph", "base": "none", "coin": "polar", "residual": True},
    "GCN-GUMP, Newton-Schulz": {"kind": "GUMP", "base": "none", "coin": "newton_schulz", "num_steps": 3},
    "GUMP with edge attributes": {"kind": "GUMP", "edge_dim": 2, "norm": "layer"},
    "GIN-GUMP on categories": {"kind": "GUMP", "conv": "gin", "base": "gin", "edge_dim": 3},
    "GCNII-GUMP": {"kind": "GUMP", "conv": "gcnii"},
    "GCNII-GUMP, linear without weights": {"kind": "GUMP", "conv": "gcnii", "linear": True, "theta": 0.0, "norm": "none"},
    "GCN": {"kind": "MPNN", "norm": "batch"},
    "GIN": {"kind": "MPNN", "conv": "gin"},
    "GCNII": {"kind": "GCNII"},
    "A-DGN": {"kind": "ADGN"},
    "A-DGN with sums and weights of their own": {"kind": "ADGN", "aggregation": "sum", "shared": False},
    "GRAND": {"kind": "GRAND", "heads": 2},
    "GRAND, nonlinear with a source": {"kind": "GRAND", "heads": 2, "linear": False, "method": "rk4", "source": True},
    "separable unitary GCN": {"kind": "UnitaryGCN", "norm": "batch", "num_terms": 3},
    "separable unitary GCN, real with unitary weights": {"kind": "UnitaryGCN", "real": True, "unitary": True, "num_terms": 3},
    "unitary GCN": {"kind": "UnitaryGCN", "lie": True, "norm": "batch", "num_layers": 1},
    "unitary GCN, real": {"kind": "UnitaryGCN", "lie": True, "real": True, "num_layers": 1},
    "Ortho-GConv": {"kind": "OrthoGCN", "norm": "batch", "num_iters": 4},
    "NBA-GCN": {"kind": "NBAGNN", "norm": "batch"},
    "NBA-GIN with edge attributes": {"kind": "NBAGNN", "conv": "gin", "edge_dim": 2, "norm": "batch", "residual": False},
}
DATA = {"kind": "fake", "num_graphs": 40, "edge_features": True}


def config(name: str, **train: Any) -> Any:
    model = {"hidden_channels": 6, "num_layers": 3, **MODELS[name]}
    data = DATA | {"categorical": "categories" in name}
    tables = {"dataset": data, "protocol": {"kind": "fresh"}, "model": model, "train": {"batch_size": 8, "epochs": 4, **train}}
    return make_configs("test", tables)[0]


def setting(name: str, num_replicas: int, **train: Any) -> tuple[Any, Any, list[torch.nn.Module]]:
    chosen = config(name, **train)
    dataset = prepare(chosen.settings, line_graph="GUMP" in name)
    for graph in dataset.graphs:
        graph.x, graph.edge_attr = graph.x.double(), graph.edge_attr.double()
    models = []
    for index in range(num_replicas):
        torch.manual_seed(run_seed(0, index))
        models.append(build_model(chosen.settings, dataset).double())
    return chosen, dataset, models


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUMP_CACHE", str(tmp_path))


@pytest.mark.parametrize("name", MODELS)
def test_twenty_steps_side_by_side_equal_twenty_steps_alone(name: str) -> None:
    _, dataset, models = setting(name, 3)
    store, padded, task = GraphStore(dataset.graphs), PaddedStore(dataset.graphs), TASKS[dataset.task]
    replicas = Replicas(models)
    together = torch.optim.Adam(replicas.parameters.values(), 1e-2)
    alone = [torch.optim.Adam(model.parameters(), 1e-2) for model in models]
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        index = torch.stack([torch.randperm(len(dataset), generator=generator)[:6] for _ in models])
        batch = padded.batch(index, padded.layout(index))
        together.zero_grad()
        losses = torch.vmap(task.loss)(replicas(batch), batch.y)
        losses.sum().backward()
        together.step()
        for r, (model, optimizer) in enumerate(zip(models, alone, strict=True)):
            own = store.batch(index[r])
            optimizer.zero_grad()
            loss = task.loss(predict(model, own), own.y)
            loss.backward()
            optimizer.step()
            assert abs(float(losses[r].detach()) - float(loss.detach())) < 1e-9
    replicas.model.eval()
    answers = replicas(batch)
    for r, model in enumerate(models):
        assert (answers[r] - predict(model.eval(), store.batch(index[r]))).abs().max() < 1e-6
        torch.testing.assert_close(replicas.state_dict(r), dict(model.state_dict()), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["GCN", "GIN", "GraphConv", "GIN-GUMP on categories"])
def test_replicas_that_sum_over_neighbors_by_a_kernel_are_those_that_go_by_edges(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton", reason="needs Triton, to run kernels on a GPU or in its interpreter")
    monkeypatch.setitem(MODELS, "GraphConv", {"kind": "MPNN", "conv": "graph"})
    device = "cuda" if torch.cuda.is_available() else "cpu"
    _, dataset, models = setting(name, 3)
    for graph in dataset.graphs:
        graph.x, graph.edge_attr = graph.x.float(), graph.edge_attr.float()
    first = dataset.graphs[0]  # with a self-loop, and one vertex more that has no edge
    first.x, first.num_nodes = torch.cat([first.x, first.x[:1]]), None
    first.edge_index = torch.cat([first.edge_index, torch.zeros(2, 1, dtype=torch.long)], dim=1)
    first.edge_attr = torch.cat([first.edge_attr, first.edge_attr[:1]])
    padded, index = PaddedStore(dataset.graphs, device), torch.arange(12).view(3, -1)
    batch, stacked = padded.batch(index.to(device), padded.layout(index)), Replicas([model.float().to(device) for model in models])
    stacked.model.train()

    def answers_and_gradients(kernel: bool) -> tuple[torch.Tensor, ...]:
        monkeypatch.setattr("gump.nn.neighbors.runs_kernels", lambda *_: kernel)
        LAUNCHED.clear()
        out = stacked(batch)
        assert ("neighbor_sum" in LAUNCHED) is kernel
        return out, *torch.autograd.grad(out.square().sum(), list(stacked.parameters.values()), allow_unused=True)

    torch.testing.assert_close(answers_and_gradients(True), answers_and_gradients(False), atol=1e-3, rtol=1e-3)


TRAININGS: list[dict[str, Any]] = [
    {"lr": 1e-2, "base_lr": 3e-3, "base_weight_decay": 1e-2, "coin_lr": 1e-3, "coin_weight_decay": 1e-3},
    {"schedule": "cosine", "warmup": 1, "optimizer": "adamw", "weight_decay": 0.1, "clip": 0.5},
    {"schedule": "plateau", "plateau_patience": 0, "plateau_factor": 0.5, "lr": 0.05},
    {"patience": 0, "epochs": 8, "lr": 0.1},
    {"stop_at": 0.3, "stop_after": 2, "repeats": 2},
    {"average": 0.8, "lr": 3e-2},
]


@pytest.mark.parametrize("training", TRAININGS, ids=[next(iter(t)) for t in TRAININGS])
def test_a_fit_side_by_side_is_what_each_run_would_be_alone(training: dict[str, Any]) -> None:
    chosen, dataset, models = setting("GIN-GUMP", 3, **training)
    splits = [chosen.protocol.split(dataset, index) for index in range(3)]
    task, store = TASKS[dataset.task], GraphStore(dataset.graphs)
    fresh = setting("GIN-GUMP", 3, **training)[2]
    many = ReplicaTrainer(models, PaddedStore(dataset.graphs), splits, task, chosen.training, 0, range(3)).fit()
    for r in range(3):
        feed = GraphFeed(store, splits[r], chosen.training.batch_size, repeats=chosen.training.repeats)
        alone = Trainer(fresh[r], feed, task, chosen.training, 0, r).fit()
        assert many[r].epoch == alone.epoch
        assert many[r].predictions == alone.predictions
        for key, values in alone.history.items():
            assert many[r].history[key] == pytest.approx(values, abs=1e-5)
        for rule, best in alone.best.items():
            assert many[r].best[rule] == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("penalty", [0.0, 0.1])
def test_a_penalty_of_the_models_own_counts_side_by_side_as_it_does_alone(monkeypatch: pytest.MonkeyPatch, penalty: float) -> None:
    monkeypatch.setitem(MODELS, "Ortho-GConv", {**MODELS["Ortho-GConv"], "num_iters": 1, "penalty": penalty})
    chosen, dataset, models = setting("Ortho-GConv", 2)
    fresh = setting("Ortho-GConv", 2)[2]
    splits = [chosen.protocol.split(dataset, index) for index in range(2)]
    task, store = TASKS[dataset.task], GraphStore(dataset.graphs)
    together = ReplicaTrainer(models, PaddedStore(dataset.graphs), splits, task, chosen.training, 0, range(2))
    for r, progress in enumerate(together.fit()):
        alone = Trainer(fresh[r], GraphFeed(store, splits[r], chosen.training.batch_size), task, chosen.training, 0, r)
        for key, values in alone.fit().history.items():
            assert progress.history[key] == pytest.approx(values, abs=1e-5)
        torch.testing.assert_close(together.replicas.state_dict(r), dict(fresh[r].state_dict()), atol=1e-5, rtol=1e-5)


GRIDS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "rates and decays": (
        {},
        [{"lr": 1e-2, "base_lr": 1e-3}, {"lr": 3e-3, "coin_lr": 1e-4, "weight_decay": 0.1, "base_weight_decay": 0.01}],
    ),
    "AdamW with clipped gradients": ({"optimizer": "adamw", "clip": 0.5}, [{"lr": 1e-2, "weight_decay": 0.1}, {"lr": 1e-3}]),
}


@pytest.mark.parametrize("name", GRIDS)
def test_twenty_steps_of_a_grid_of_rates_equal_twenty_steps_of_plain_runs(name: str) -> None:
    common, points = GRIDS[name]
    chosen, dataset, models = setting("GIN-GUMP", 3, repeats=5, **common)
    trainings = [dataclasses.replace(chosen.training, **point) for point in points for _ in range(3)]
    indices = [0, 1, 2] * 2
    splits = [chosen.protocol.split(dataset, index) for index in indices]
    task, store = TASKS[dataset.task], GraphStore(dataset.graphs)
    models += setting("GIN-GUMP", 3)[2]
    many = ReplicaTrainer(models, PaddedStore(dataset.graphs), splits, task, trainings, 0, indices)
    chunks = many._chunks(0)
    assert len(chunks) == 20
    many.steps.make_room("train", chunks)
    together = torch.stack([many.steps("train", chunk) for chunk in chunks], dim=1)
    fresh = setting("GIN-GUMP", 3)[2] + setting("GIN-GUMP", 3)[2]
    for r, index in enumerate(indices):
        alone: list[float] = []
        feed = GraphFeed(store, splits[r], chosen.training.batch_size, repeats=chosen.training.repeats)
        trainer = Trainer(fresh[r], feed, task, trainings[r], 0, index)
        trainer._train_epoch(lambda _, loss, alone=alone: alone.append(float(loss.detach())))
        assert together[r].tolist() == pytest.approx(alone, abs=1e-9, rel=0)
    assert (together[:3] - together[3:])[:, 1:].abs().min() > 1e-6, "the two rates are two"


OF_ITS_OWN: list[dict[str, Any]] = [
    {"patience": 0},
    {"patience": 1, "monitor": "metric", "threshold": 1.01, "lr": 0.05},
    {"stop_at": 0.3, "stop_after": 2},
    {"plateau_factor": 0.1, "plateau_patience": 1, "lr": 0.1},
    {"plateau_factor": 0.5, "plateau_patience": 0, "weight_decay": 0.01},
]


def test_every_replica_stops_and_slows_by_settings_of_its_own() -> None:
    chosen, dataset, models = setting("GCN", 2, schedule="plateau", plateau_patience=0, optimizer="adamw", epochs=8, lr=0.02)
    trainings = [dataclasses.replace(chosen.training, **own) for own in OF_ITS_OWN]
    models = [setting("GCN", 2)[2][1] for _ in trainings]
    split, task, store = chosen.protocol.split(dataset, 1), TASKS[dataset.task], GraphStore(dataset.graphs)
    many = ReplicaTrainer(models, PaddedStore(dataset.graphs), [split] * 5, task, trainings, 0, [1] * 5).fit()
    for training, progress in zip(trainings, many, strict=True):
        alone = Trainer(setting("GCN", 2)[2][1], GraphFeed(store, split, training.batch_size), task, training, 0, 1).fit()
        assert progress.epoch == alone.epoch
        for key, values in alone.history.items():
            assert progress.history[key] == pytest.approx(values, abs=1e-5)
    assert len({progress.epoch for progress in many}) > 2


def test_settings_that_all_replicas_share_must_be_equal() -> None:
    chosen, dataset, models = setting("GCN", 2)
    splits = [chosen.protocol.split(dataset, index) for index in range(2)]
    others = {"epochs": 5, "batch_size": 3, "optimizer": "adamw", "schedule": "cosine", "warmup": 1, "clip": 1.0, "average": 0.9}
    others |= {"repeats": 2, "precision": "64-true", "deterministic": False}
    assert {*others, *PER_REPLICA} == {field.name for field in dataclasses.fields(chosen.training)}
    for key, value in others.items():
        trainings = [chosen.training, dataclasses.replace(chosen.training, **{key: value})]
        with pytest.raises(
            ValueError, match=r"'training' must differ in lr, .*, select alone, for runs to be trained side by side"
        ):
            ReplicaTrainer(models, PaddedStore(dataset.graphs), splits, TASKS[dataset.task], trainings, 0, range(2))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_recorded_steps_of_a_grid_are_those_that_run_as_they_are() -> None:
    def fit(record_steps: bool) -> list[list[float]]:
        chosen, dataset, models = setting("GIN-GUMP", 3, optimizer="adamw", average=0.8)
        trainings = [dataclasses.replace(chosen.training, lr=lr, weight_decay=decay) for lr, decay in ((1e-2, 0.1), (1e-3, 0.0))]
        device = torch.device("cuda")
        models = [model.float().to(device) for model in models[:2] * 2]
        for graph in dataset.graphs:
            graph.x, graph.edge_attr = graph.x.float(), graph.edge_attr.float()
        splits = [chosen.protocol.split(dataset, index) for index in (0, 1)] * 2
        each = [trainings[0]] * 2 + [trainings[1]] * 2
        store, task = PaddedStore(dataset.graphs, device), TASKS[dataset.task]
        progress = ReplicaTrainer(models, store, splits, task, each, 0, [0, 1] * 2, record_steps=record_steps).fit()
        return [p.history["train_loss"] + p.history["val_loss"] for p in progress]

    for recorded, plain in zip(fit(True), fit(False), strict=True):
        assert recorded == pytest.approx(plain, abs=1e-2), "up to single precision"


WAITING = {"GraphConv-GUMP, polar, residual", "separable unitary GCN, real with unitary weights"}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_can_be_recorded_unless_it_looks_at_numbers_to_decide_what_to_do(name: str) -> None:
    assert can_be_recorded(setting(name, 1)[2][0]) is (name not in WAITING)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", MODELS)
def test_steps_of_every_kind_that_are_recorded_where_they_can_be_are_those_that_run_as_they_are(name: str) -> None:
    def fit(record_steps: bool | None) -> tuple[list[float], list[dict[str, torch.Tensor]]]:
        chosen, dataset, models = setting(name, 2, epochs=3, lr=1e-2)
        for graph in dataset.graphs:
            graph.x, graph.edge_attr = graph.x.float(), graph.edge_attr.float()
        splits = [chosen.protocol.split(dataset, index) for index in range(2)]
        models, store = [model.float().cuda() for model in models], PaddedStore(dataset.graphs, "cuda")
        task = TASKS[dataset.task]
        trainer = ReplicaTrainer(models, store, splits, task, chosen.training, 0, range(2), record_steps=record_steps)
        assert trainer.steps.record is (record_steps is None and name not in WAITING)
        history = [loss for p in trainer.fit() for loss in p.history["train_loss"]]
        return history, [trainer.replicas.state_dict(r) for r in range(2)]

    (recorded, ours), (plain, theirs) = fit(None), fit(False)
    assert recorded == pytest.approx(plain, rel=2e-3), "up to single precision"
    start = setting(name, 1)[2][0].float().state_dict()
    # a bias before a batch norm has no gradient but rounding, of which Adam makes whole steps: the answers in training do not see it
    weights = [key for key, value in start.items() if value.is_floating_point() and value.dim() > 1]
    moved = max(float((theirs[0][key].cpu() - start[key]).abs().max()) for key in weights)
    for own, other in zip(ours, theirs, strict=True):
        assert float(torch.cat([(own[key] - other[key]).abs().flatten() for key in weights]).mean()) < 0.05 * moved


@pytest.mark.parametrize("name", ["GIN-GUMP", "GCN", "GRAND"])
def test_equal_replicas_answer_the_same_in_evaluation_and_drop_other_entries_in_training(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, name, {**MODELS[name], "dropout": 0.5})
    _, dataset, models = setting(name, 1)
    replicas, padded = Replicas(models * 2), PaddedStore(dataset.graphs)
    index = torch.arange(6).expand(2, -1)
    batch = padded.batch(index, padded.layout(index))
    replicas.model.eval()
    one, other = replicas(batch)
    assert torch.equal(one, other)
    replicas.model.train()
    one, other = replicas(batch)
    assert (one - other).abs().max() > 1e-3


def test_some_of_the_replicas_answer_as_they_do_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "Ortho-GConv", {**MODELS["Ortho-GConv"], "penalty": 0.1})
    _, dataset, models = setting("Ortho-GConv", 3)
    every, rows, padded = Replicas(models), torch.tensor([0, 2]), PaddedStore(dataset.graphs)
    some, index = every.only(rows), torch.arange(12).view(3, 4)
    layout = padded.layout(index)
    torch.testing.assert_close(some(padded.batch(index[rows], layout)), every(padded.batch(index, layout))[rows])
    torch.testing.assert_close(some.penalties(), every.penalties()[rows])
    torch.testing.assert_close(some.state_dict(1), every.state_dict(2))
    assert (some.num_replicas, every.num_replicas) == (2, 3)
    for weights in some.parameters.values():
        assert weights.is_leaf
        assert weights.requires_grad
        weights.data.zero_()
    assert any(bool(weights.any()) for weights in every.parameters.values()), "they are copies"


@pytest.mark.parametrize("name", MODELS)
def test_gradients_that_are_summed_in_parts_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, dataset, models = setting(name, 2)
    padded, index = PaddedStore(dataset.graphs), torch.arange(12).view(2, -1)
    batch, stacked = padded.batch(index, padded.layout(index)), Replicas(models)
    stacked.model.eval()

    def gradients() -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(stacked(batch).square().sum(), list(stacked.parameters.values()), allow_unused=True)

    expected, sums = gradients(), []
    whole = gump.experiment.summed_in_parts._sum_of_products
    monkeypatch.setattr(gump.experiment.summed_in_parts, "_sum_of_products", lambda *given: sums.append(given) or whole(*given))
    monkeypatch.setattr(gump.experiment.summed_in_parts, "ROWS", 8)
    monkeypatch.setattr(gump.experiment.replicas, "parts_for", lambda *_: SummedInParts())
    torch.testing.assert_close(gradients(), expected)
    assert sums


def test_a_turn_that_is_too_long_side_by_side_is_named_where_the_run_diverged() -> None:
    chosen, dataset, models = setting("unitary GCN", 2)
    splits = [chosen.protocol.split(dataset, index) for index in range(2)]
    with torch.no_grad():
        models[1].encoder.convs[0].weight.mul_(100)
    trainer = ReplicaTrainer(models, PaddedStore(dataset.graphs), splits, TASKS[dataset.task], chosen.training, 0, range(2))
    fine, failed = trainer.fit()
    assert not fine.diverged
    assert failed.diverged == "epoch 1: the loss is not finite (side by side, turns longer than 32 are no numbers)"


def test_runs_of_a_group_do_not_depend_on_who_else_is_in_it() -> None:
    chosen, dataset, models = setting("GCN", 3)
    splits = [chosen.protocol.split(dataset, index) for index in range(3)]
    store, task = PaddedStore(dataset.graphs), TASKS[dataset.task]
    all_three = ReplicaTrainer(models, store, splits, task, chosen.training, 0, range(3)).fit()
    models = setting("GCN", 3)[2]
    last = ReplicaTrainer(models[2:], store, splits[2:], task, chosen.training, 0, [2]).fit()
    assert last[0].history["val_loss"] == pytest.approx(all_three[2].history["val_loss"], abs=1e-9)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_stopped_fit_goes_on_from_its_checkpoint_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dropout: float
) -> None:
    monkeypatch.setitem(MODELS, "GIN-GUMP", {**MODELS["GIN-GUMP"], "dropout": dropout})
    monkeypatch.setitem(DATA, "num_nodes", 40)  # so that batches differ, and what is dropped with the room that was made for them
    monkeypatch.setattr(gump.experiment.replica_trainer, "AHEAD", 1)

    def trainer() -> ReplicaTrainer:
        chosen, dataset, models = setting("GIN-GUMP", 2, schedule="plateau", plateau_patience=0, average=0.8)
        splits = [chosen.protocol.split(dataset, index) for index in range(2)]
        store = PaddedStore(dataset.graphs)
        return ReplicaTrainer(models, store, splits, TASKS[dataset.task], chosen.training, 0, range(2), save_every_s=0)

    class Stop(Exception):
        pass

    def stop(epoch: int, _: dict[str, float]) -> None:
        if epoch == 3:
            raise Stop

    whole = trainer().fit()
    with pytest.raises(Stop):
        trainer().fit(tmp_path / "c.ckpt", "me", stop)
    resumed = trainer()
    seen: list[int] = []
    progress = resumed.fit(tmp_path / "c.ckpt", "me", lambda epoch, _: seen.append(epoch))
    assert seen == [3, 4], "the checkpoint was that of the second epoch"
    assert [p.history for p in progress] == [p.history for p in whole]
    assert [p.predictions for p in progress] == [p.predictions for p in whole]
    other = trainer()
    other.fit(tmp_path / "c.ckpt", "someone else", lambda epoch, _: seen.append(epoch))
    assert seen[2:] == [1, 2, 3, 4]


def test_a_trainer_that_nobody_needs_any_more_is_gone_at_once() -> None:
    chosen, dataset, models = setting("GCN", 1, epochs=1)
    split, store = chosen.protocol.split(dataset, 0), PaddedStore(dataset.graphs)
    trainer = ReplicaTrainer(models, store, [split], TASKS[dataset.task], chosen.training, 0, [0])
    trainer.fit()
    left = weakref.ref(trainer)
    gc.disable()  # which would come too late for the next group, that needs the memory
    try:
        del trainer
        assert left() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["GCN", "GIN-GUMP", "GraphConv-GUMP, polar, residual", "GCN-GUMP, Newton-Schulz"])
def test_one_replica_that_diverges_leaves_the_others_alone(name: str) -> None:
    chosen, dataset, models = setting(name, 2)
    splits = [chosen.protocol.split(dataset, index) for index in range(2)]
    with torch.no_grad():
        next(models[0].parameters()).fill_(torch.nan)
    progress = ReplicaTrainer(models, PaddedStore(dataset.graphs), splits, TASKS[dataset.task], chosen.training, 0, range(2)).fit()
    assert progress[0].diverged == "epoch 1: the loss is not finite"
    assert progress[1].epoch == 4
    assert not progress[1].diverged


def test_models_without_a_mask_and_splits_of_different_sizes_are_refused() -> None:
    dataset = fake_dataset()
    tables = {"dataset": DATA, "protocol": {"kind": "fresh"}, "model": {"kind": "GPS", "hidden_channels": 8, "num_layers": 1}}
    model = build_model(make_configs("test", tables)[0].settings, dataset)
    with pytest.raises(ValueError, match="must be one whose forward takes a mask"):
        Replicas([model])
    chosen, dataset, models = setting("GCN", 2)
    splits = [chosen.protocol.split(dataset, index) for index in range(2)]
    splits[1] = splits[1]._replace(val=splits[1].val[1:])
    with pytest.raises(ValueError, match="parts of equal sizes"):
        ReplicaTrainer(models, PaddedStore(dataset.graphs), splits, TASKS[dataset.task], chosen.training, 0, range(2))
