import contextlib
import dataclasses
import functools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fake_configs import tiny_config, tiny_tables
from fake_runs import alter_data, alter_split, comparable, counted

from gump.datasets.dataset import Dataset
from gump.experiment import preprocess, workshop
from gump.experiment.checkpoint import write_checkpoint
from gump.experiment.config import make_configs
from gump.experiment.precision import PRECISIONS
from gump.experiment.run import Runner, run_all
from gump.record import Record, load_records
from gump.report.table import table


def test_a_run_leaves_a_record_of_everything_and_no_checkpoint(tmp_path: Path) -> None:
    config = dataclasses.replace(tiny_config(), published={"value": 86.7, "interval": 1.5})
    [record] = Runner(tmp_path / "r", save_every_s=0).run(config, [1])
    assert [path.relative_to(tmp_path / "r").as_posix() for path in (tmp_path / "r").rglob("*") if path.is_file()] == [
        "test/tiny/001.json"
    ]
    assert Record.load(tmp_path / "r/test/tiny/001.json") == record
    assert (record.name, record.variant, record.index, record.status) == ("test/tiny", "", 1, "finished")
    assert record.settings == json.loads(json.dumps(config.settings))
    assert {"dataset", "transform", "protocol", "model", "head", "embedding", "train"} <= set(record.settings)
    assert (record.metric, record.higher_is_better, record.published) == ("accuracy", True, {"value": 86.7, "interval": 1.5})
    assert set(record.results) == {"loss", "metric", "last"}
    assert set(record.results["last"]) == {"epoch", "train_loss", "val_loss", "val", "test_loss", "test"}
    assert {key: len(values) for key, values in record.history.items()} == {"train_loss": 3, "val_loss": 3, "val": 3}
    assert len(record.test_index) == 4
    assert {len(values) for values in record.predictions.values()} == {4}
    right = [a == b for a, b in zip(record.predictions["last"], record.predictions["target"], strict=True)]
    assert record.results["last"]["test"] == pytest.approx(sum(right) / 4)
    assert record.cost["num_parameters"] > 0
    assert record.cost["time_s"] >= 2 * record.cost["epoch_time_s"] > 0
    assert record.cost["peak_memory_bytes"] > 2**20


def test_what_replaces_a_run_that_diverged_removes_what_that_left(tmp_path: Path) -> None:
    for lr, status in ((1e30, "diverged"), (1e-3, "finished")):
        (record,) = Runner(tmp_path, overwrite=True).run(tiny_config(train={"lr": lr}), [0])
        assert record.status == status
        assert bool(list(tmp_path.rglob("*.diverged.ckpt"))) is (status == "diverged")


@pytest.mark.parametrize(("kind", "precision", "num_replicas"), [("MPNN", "bf16-mixed", 2), ("GUMP", "64-true", None)])
def test_other_precision_is_refused_where_it_would_not_be_kept(
    kind: str, precision: str, num_replicas: int | None, tmp_path: Path
) -> None:
    config = tiny_config(train={"precision": precision}, model={"kind": kind})
    with pytest.raises(ValueError, match=rf"'train\.precision' must be '32-true' .* \(got '{precision}'\)"):
        list(Runner(tmp_path, num_replicas=num_replicas).run(config))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_models_on_vertices_train_in_every_precision(precision: str, tmp_path: Path) -> None:
    [record] = Runner(tmp_path).run(tiny_config(train={"precision": precision, "epochs": 5}, model={"kind": "MPNN"}), [0])
    assert (record.status, record.provenance["precision"]) == ("finished", precision)
    assert record.history["train_loss"][-1] < record.history["train_loss"][0]


def test_models_on_arcs_train_in_mixed_precision(tmp_path: Path) -> None:
    plain, mixed = (
        next(iter(Runner(tmp_path / precision).run(tiny_config(train={"precision": precision}), [0])))
        for precision in ("32-true", "bf16-mixed")
    )
    assert mixed.provenance["precision"] == "bf16-mixed"
    assert mixed.history["train_loss"] != plain.history["train_loss"]
    assert mixed.history["train_loss"] == pytest.approx(plain.history["train_loss"], abs=0.1)


def test_runs_on_other_data_are_not_put_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner(tmp_path, save_every_s=0)
    [first] = runner.run(tiny_config(), [0])
    assert len(first.provenance["data"]) == 16
    alter_data(monkeypatch)
    assert list(runner.run(tiny_config(), [0])) == [first], "nothing is trained beside it"
    with pytest.raises(
        ValueError,
        match=r"000\.json was made on other data than fake has now, .*; pass --overwrite to replace it, or another --records",
    ):
        list(runner.run(tiny_config(), [1]))
    runner.folder.path(tiny_config(), 0).unlink()
    [second] = runner.run(tiny_config(), [0])
    assert second.provenance["data"] != first.provenance["data"]


@pytest.mark.parametrize("num_jobs", [1, 2])
@pytest.mark.parametrize("change", [alter_data, alter_split])
def test_records_of_other_data_or_of_another_split_are_replaced_if_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, num_jobs: int
) -> None:
    inside = SimpleNamespace(map=map)  # of this process, where what is patched holds
    monkeypatch.setattr("gump.experiment.run.process_pool", lambda *_: contextlib.nullcontext(inside))
    monkeypatch.setattr("gump.experiment.run._LAST", {})
    config = tiny_config()
    old = list(Runner(tmp_path).run(config))
    again = Runner(tmp_path, overwrite=True)
    assert list(run_all(again, [config], num_jobs=num_jobs)) == old, "on the same data nothing is trained"
    change(monkeypatch)
    monkeypatch.setattr("gump.experiment.run._LAST", {})
    fresh = list(Runner(tmp_path / "fresh").run(config))
    assert [comparable(record) for record in fresh] != [comparable(record) for record in old]
    new = list(run_all(again, [config], num_jobs=num_jobs))
    assert [comparable(record) for record in new] == [comparable(record) for record in fresh]
    assert load_records(tmp_path / "test") == new


@pytest.mark.parametrize("num_replicas", [None, 2])
def test_a_run_does_not_go_on_under_another_split_nor_beside_runs_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_replicas: int | None
) -> None:
    config, epochs = tiny_config(), []

    def stop(_: Any, __: int, epoch: int, ___: Any) -> None:
        epochs.append(epoch)
        if len(epochs) == 2:
            raise KeyboardInterrupt

    runner = Runner(tmp_path, watches=[stop], save_every_s=0, num_replicas=num_replicas)
    with pytest.raises(KeyboardInterrupt):
        list(runner.run(config))
    alter_split(monkeypatch)
    list(runner.run(config))
    assert epochs[:3] == [1, 2, 1], "it starts anew"
    monkeypatch.undo()
    runner.folder.path(config, 0).unlink()
    with pytest.raises(ValueError, match=r"001\.json was made on other data than fake has now, or on another split of them"):
        list(runner.run(config))


def test_records_of_other_data_that_were_not_asked_for_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny_config(protocol={"num_runs": 3})
    list(Runner(tmp_path).run(config))
    alter_data(monkeypatch)
    with pytest.warns(UserWarning, match=r"001\.json and 1 more was made on other data than there are now; ask for all runs"):
        list(Runner(tmp_path, overwrite=True).run(config, [0]))
    [row] = table(load_records(tmp_path)).to_dict("records")
    assert "The runs were not all made on the same data, or not on the same split of them." in row["notes"]


def test_an_interrupted_regression_from_before_targets_had_units_starts_anew(tmp_path: Path) -> None:
    config, epochs = tiny_config(dataset={"task": "regression"}, protocol={"kind": "fresh", "num_runs": 1}), []

    def stop(_: Any, __: int, epoch: int, ___: Any) -> None:
        epochs.append(epoch)
        if len(epochs) == 2:
            raise KeyboardInterrupt

    runner = Runner(tmp_path, watches=[stop], save_every_s=0)
    with pytest.raises(KeyboardInterrupt):
        list(runner.run(config))
    [path] = tmp_path.rglob("*.ckpt")
    state = torch.load(path, weights_only=True)
    identity = state.pop("identity")
    write_checkpoint(path, identity.replace(', "units": true', ""), state)
    with pytest.warns(UserWarning, match="is not gone on from"):
        list(runner.run(config))
    assert epochs[2] == 1


def test_where_splits_are_drawn_a_record_has_no_checksum_of_one(tmp_path: Path) -> None:
    [drawn] = Runner(tmp_path).run(tiny_config(protocol={"kind": "fresh", "num_runs": 1}))
    assert "split" not in drawn.provenance


@pytest.mark.parametrize(
    ("num_replicas", "advice"), [(None, "take a smaller 'train.batch_size'"), (2, "take fewer than 2 --replicas")]
)
def test_what_does_not_fit_into_memory_is_said_with_what_would_help(
    num_replicas: int | None, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 448.00 MiB.")

    runner = Runner(tmp_path, num_replicas=num_replicas)
    [first] = runner.run(tiny_config(), [0])
    monkeypatch.setattr(workshop.Trainer, "fit", full)
    monkeypatch.setattr(workshop.ReplicaTrainer, "fit", full)
    with pytest.raises(MemoryError, match=advice):
        list(runner.run(tiny_config(), [0, 1, 2]))
    assert Record.load(tmp_path / "test/tiny/000.json") == first


def test_edge_weights_count_as_one_more_edge_feature_on_arcs(tmp_path: Path) -> None:
    digl = {"transform": [{"kind": "DIGL", "alpha": 0.2, "eps": 0.05, "keep_weights": True}]}
    tables = tiny_tables(model={"base": "gin", "conv": "gin", "edge_dim": 1}, train={"epochs": 1}) | digl
    [record] = Runner(tmp_path).run(make_configs("test/weighted", tables)[0], [0])
    assert record.status == "finished"


@pytest.mark.parametrize(
    ("level", "task"), [("source", "multiclass"), ("node", "multilabel"), ("graph", "regression"), ("link", "binary")]
)
def test_every_level_comes_to_a_record(level: str, task: str, tmp_path: Path) -> None:
    config = tiny_config(
        dataset={"level": level, "task": task, "num_graphs": 40},
        protocol={"kind": "links"} if level == "link" else {},
        train={"epochs": 1},
    )
    [record] = Runner(tmp_path).run(config, [0])
    assert record.metric == {"multiclass": "accuracy", "multilabel": "ap", "regression": "mae", "binary": "auroc"}[task]
    assert record.higher_is_better == (task != "regression")
    assert len(record.predictions["last"]) == len(record.predictions["target"]) == len(record.test_index)


def test_a_run_that_diverges_is_a_record_that_says_so(tmp_path: Path) -> None:
    watched: list[int] = []
    config = tiny_config(
        train={"lr": 1e30, "epochs": 5}, model={"norm": "none", "base_norm": "none"}, dataset={"task": "regression"}
    )
    runner = Runner(tmp_path, watches=[counted(watched)])
    [record] = runner.run(config, [0])
    assert record.status == "diverged"
    assert record.note.startswith("epoch 1, step ")
    assert "the largest gradient" in record.note
    assert json.loads((tmp_path / "test/tiny/000.json").read_text())["status"] == "diverged"
    trained = len(watched)
    assert list(runner.run(config, [0])) == [record]
    assert len(watched) == trained


def test_a_protocol_that_leaves_a_part_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'protocol' must leave something to every part of fake \(got an empty 'val'\)"):
        list(Runner(tmp_path).run(tiny_config(protocol={"kind": "fresh", "val": 0.01}), [0]))


def test_replicas_are_refused_where_graphs_are_transformed_late(tmp_path: Path) -> None:
    late = tiny_tables() | {"transform": [{"kind": "AddRandomWalkPE", "walk_length": 3, "attr_name": "none", "when": "batch"}]}
    with pytest.raises(ValueError, match="'--replicas' must be left out where a transform has when = "):
        list(Runner(tmp_path, num_replicas=2).run(make_configs("test/late", late)[0]))


@pytest.mark.parametrize("kind", ["GUMP", "MPNN"])
def test_transforms_with_each_batch_give_what_transforms_beforehand_give(kind: str, tmp_path: Path) -> None:
    walks = {"kind": "AddRandomWalkPE", "walk_length": 3, "attr_name": "none"}
    signs = {"kind": "AddLaplacianEigenvectorPE", "k": 2, "attr_name": "none"}

    def record(*when: str) -> Record:
        tables = tiny_tables(model={"kind": kind}) | {"transform": [walks | {"when": when[0]}, signs | {"when": when[1]}]}
        [found] = Runner(tmp_path / "_".join(when)).run(make_configs("test/tiny", tables)[0], [0])
        return found

    whole = record("once", "once")
    for when in (("batch", "batch"), ("once", "batch"), ("batch", "once")):
        late = record(*when)
        assert (late.history, late.results, late.predictions) == (whole.history, whole.results, whole.predictions), when


@pytest.mark.parametrize("level", ["link", "source"])
def test_replicas_are_refused_where_answers_are_about_links_or_sources(level: str, tmp_path: Path) -> None:
    asked = (
        {"dataset": {"level": "link", "task": "binary"}, "protocol": {"kind": "links"}}
        if level == "link"
        else {"dataset": {"level": level}}
    )
    config = tiny_config(**asked)
    with pytest.raises(ValueError, match="'--replicas' must be left out"):
        list(Runner(tmp_path, num_replicas=2).run(config))


def test_a_run_that_diverged_leaves_its_last_good_state(tmp_path: Path) -> None:
    (record,) = Runner(tmp_path).run(tiny_config(train={"lr": 1e30}), [0])
    assert record.status == "diverged"
    kept = Runner(tmp_path).folder.path(tiny_config(train={"lr": 1e30}), 0).with_suffix(".diverged.ckpt")
    weights = torch.load(kept, weights_only=True)["model"]
    assert all(bool(value.isfinite().all()) for value in weights.values())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"coin": "fair"}}, r"test/tiny: \[model\]: 'coin' must be one of bounded, "),
        ({"head": {"pool": "median"}}, r"test/tiny: \[head\]: 'pool' must be one of 'mean'"),
    ],
)
def test_an_error_about_a_setting_says_where_it_stands(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(Runner(tmp_path).run(tiny_config(**changes), [0]))


def test_numbers_that_are_missing_count_for_nothing_alone_and_side_by_side(tmp_path: Path) -> None:
    dataset = {"task": "regression", "num_targets": 2, "missing": 0.4}
    config = tiny_config(dataset=dataset, model={"norm": "layer"})  # biases before a batch norm follow rounding
    alone, together = ([*Runner(tmp_path / str(n), num_replicas=n).run(config)] for n in (None, 2))
    for record, other in zip(alone, together, strict=True):
        targets = record.predictions["target"]
        assert {None} < {number for row in targets for number in row}
        errors = [
            abs(number - answer)
            for row, answers in zip(targets, record.predictions["last"], strict=True)
            for number, answer in zip(row, answers, strict=True)
            if number is not None
        ]
        assert record.results["last"]["test"] == pytest.approx(sum(errors) / len(errors), rel=1e-3)
        assert other.predictions["target"] == targets
        for series, values in record.history.items():
            assert other.history[series] == pytest.approx(values, rel=1e-5)


@pytest.mark.parametrize(
    ("part", "column", "message"),
    [
        (
            "train",
            1,
            r"^test/tiny: 'mass' must have a value in the training set of every run, to be learned \(got none among 12 in that",
        ),
        (
            "val",
            slice(None),
            r"'protocol' must leave something that is known to every part of fake \(got no value in 'val' of run 0\)",
        ),
    ],
)
@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_what_nothing_is_known_of_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, part: str, column: int | slice, message: str
) -> None:
    fake = preprocess.DATASETS["fake"]

    @functools.wraps(fake)
    def unknown(**settings: Any) -> Dataset:
        dataset = dataclasses.replace(fake(**settings), target_names=("size", "mass", "charge"))
        for number in dataset.split[part].tolist():
            dataset[number].y[:, column] = torch.nan
        return dataset

    monkeypatch.setitem(preprocess.DATASETS, "fake", unknown)
    with pytest.raises(ValueError, match=message):
        list(Runner(tmp_path).run(tiny_config(dataset={"task": task})))


@pytest.mark.parametrize("num_replicas", [None, 2])
def test_a_rate_of_what_a_model_has_not_is_refused_before_it_is_trained(num_replicas: int | None, tmp_path: Path) -> None:
    config = tiny_config(model={"kind": "MPNN"}, train={"coin_lr": 0.1})
    with pytest.raises(ValueError, match=r"'train\.coin_lr' must be left out where a model has no coin parameters"):
        list(Runner(tmp_path, num_replicas=num_replicas).run(config))
    assert not list(tmp_path.rglob("*.json"))
