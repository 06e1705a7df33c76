import dataclasses
import functools
import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_configs import tiny_config, tiny_tables

import gump
from gump.datasets.dataset import Dataset
from gump.experiment import preprocess, progress, provenance, run, workshop
from gump.experiment.checkpoint import write_checkpoint
from gump.experiment.config import Config, load_config, make_configs
from gump.experiment.device import peak_memory
from gump.experiment.run import Runner, run_all
from gump.record import Record

VARYING = ("time_s", "epoch_time_s", "peak_memory_bytes")


def comparable(record: Record) -> dict[str, Any]:
    """A record without times, memory and host."""
    content = dataclasses.asdict(record)
    content["cost"] = {key: value for key, value in record.cost.items() if key not in VARYING}
    content["provenance"] = {key: value for key, value in record.provenance.items() if key != "host"}
    return content


def counted(watched: list[int]) -> Any:
    return lambda config, index, epoch, results: watched.append(index)


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


def test_a_record_says_where_it_was_made(tmp_path: Path) -> None:
    [record] = Runner(tmp_path).run(tiny_config(), [0])
    made = record.provenance
    assert set(made) == {
        "config",
        "data",
        "num_devices",
        "commit",
        "clean",
        "versions",
        "device",
        "num_threads",
        "path",
        "precision",
        "host",
        "side_by_side_with",
        "program",
    }
    assert made["versions"]["torch"] == torch.__version__.split("+")[0] or made["versions"]["torch"] == torch.__version__
    assert made["versions"]["gump"] == gump.__version__
    assert made["device"].startswith("cpu: ")
    assert (made["path"], made["precision"]) == ("plain", "32-true")
    if (Path(gump.__file__).parents[1] / ".git").exists():
        assert len(made["commit"]) == 40
        assert made["clean"] in (True, False)


def test_what_is_installed_in_the_repository_of_another_project_has_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "gump").mkdir()
    monkeypatch.setattr(gump, "__file__", str(tmp_path / "gump" / "__init__.py"))
    monkeypatch.setattr(provenance, "source", provenance.source.__wrapped__)  # which is asked once in a process
    [record] = Runner(tmp_path / "r").run(tiny_config(), [0])
    assert (record.provenance["commit"], record.provenance["clean"]) == (None, None)


def test_what_is_finished_is_not_trained_again(tmp_path: Path) -> None:
    watched: list[int] = []
    runner = Runner(tmp_path, watches=[counted(watched)])
    config = tiny_config()
    first = list(runner.run(config, [0]))
    assert watched == [0] * 3
    both = list(runner.run(config))
    assert watched == [0] * 3 + [1] * 3
    assert both[0] == first[0]
    assert [record.index for record in both] == [0, 1]
    assert list(runner.run(config)) == both
    assert len(watched) == 6
    assert both[0].history != both[1].history


def test_what_a_killed_process_left_beside_a_finished_run_is_removed(tmp_path: Path) -> None:
    config, folder = tiny_config(train={"epochs": 1}), tmp_path / "test/tiny"
    list(Runner(tmp_path).run(config))
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    mine, living = f".000.ckpt.{os.getpid()}-a1", f".000.ckpt.{os.getppid()}-a1"
    for name in ("000.ckpt", ".000.ckpt.a1", f".000.json.{ended.pid}-a1", mine, living, ".001.json.b2"):
        (folder / name).write_bytes(b"half")
    list(Runner(tmp_path).run(config, [0]))
    assert {path.name for path in folder.iterdir()} == {"000.json", "001.json", ".001.json.b2", living}, "which is being written"


def test_what_replaces_a_run_that_diverged_removes_what_that_left(tmp_path: Path) -> None:
    for lr, status in ((1e30, "diverged"), (1e-3, "finished")):
        (record,) = Runner(tmp_path, overwrite=True).run(tiny_config(train={"lr": lr}), [0])
        assert record.status == status
        assert bool(list(tmp_path.rglob("*.diverged.ckpt"))) is (status == "diverged")


def test_runs_that_replace_others_keep_the_checkpoint_of_an_interrupted_group(tmp_path: Path) -> None:
    old, new = tiny_config(protocol={"num_runs": 4}, train={"epochs": 2}), tiny_config(protocol={"num_runs": 4}, train={"lr": 0.5})
    list(Runner(tmp_path, num_replicas=2).run(old))

    def interrupt(config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
        if epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, num_replicas=2, overwrite=True, watches=[interrupt], save_every_s=0).run(new, [0, 1]))
    assert [path.name for path in tmp_path.rglob("*.ckpt")] == ["000-001.ckpt"]
    list(Runner(tmp_path, num_replicas=2, overwrite=True).run(new, [2, 3]))
    assert [path.name for path in tmp_path.rglob("*.ckpt")] == ["000-001.ckpt"]
    seen: list[int] = []
    watch = [lambda config, index, epoch, results: seen.append(epoch)]
    list(Runner(tmp_path, num_replicas=2, overwrite=True, watches=watch).run(new))
    assert seen == [2, 3]
    assert not list(tmp_path.rglob("*.ckpt"))


@pytest.mark.parametrize(("kind", "num_replicas"), [("MPNN", 2), ("GUMP", None)])
def test_other_precision_is_refused_where_it_would_not_be_kept(kind: str, num_replicas: int | None, tmp_path: Path) -> None:
    config = tiny_config(train={"precision": "bf16-mixed"}, model={"kind": kind})
    with pytest.raises(ValueError, match=r"'train\.precision' must be '32-true' .* \(got 'bf16-mixed'\)"):
        list(Runner(tmp_path, num_replicas=num_replicas).run(config))


def test_settings_with_many_digits_are_those_of_the_record(tmp_path: Path) -> None:
    config = tiny_config(train={"lr": 0.01 / 3, "epochs": 1})
    first = list(Runner(tmp_path).run(config, [0]))
    assert list(Runner(tmp_path).run(config, [0])) == first


def test_records_of_other_settings_are_refused_until_they_may_be_replaced(tmp_path: Path) -> None:
    old, new = tiny_config(train={"epochs": 1}), tiny_config(train={"epochs": 2, "lr": 0.5})
    list(Runner(tmp_path).run(old, [0]))
    with pytest.raises(
        ValueError,
        match=r"000\.json was made with other settings \(train.epochs was 1, is 2, train.lr was 0.01, is 0.5\); pass --ov",
    ):
        list(Runner(tmp_path).run(new, [0]))
    assert Record.load(tmp_path / "test/tiny/000.json").settings["train"]["epochs"] == 1
    [replaced] = Runner(tmp_path, overwrite=True).run(new, [0])
    assert len(replaced.history["val"]) == 2
    assert list(Runner(tmp_path, overwrite=True).run(new, [0])) == [replaced]


def without(path: Path, *keys: str) -> bytes:
    """Takes settings out of a record, as if it had been written before there were such."""
    content = json.loads(path.read_text())
    for key in keys:
        table, _, name = key.partition(".")
        del content["settings"][table][name]
    path.write_text(json.dumps(content))
    return path.read_bytes()


def test_a_record_older_than_a_setting_was_made_with_its_default(tmp_path: Path) -> None:
    walks = {"transform": [{"kind": "AddRandomWalkPE", "walk_length": 3, "attr_name": "none"}]}
    config, other = (make_configs("test/tiny", tiny_tables(train={"epochs": 1, "clip": clip}) | walks)[0] for clip in ("none", 0.5))
    list(Runner(tmp_path).run(config, [0]))
    old = without(
        path := Runner(tmp_path).folder.path(config, 0), "train.clip", "train.select", "model.coin", "protocol.seed", "head.pool"
    )
    watched: list[int] = []
    [record] = Runner(tmp_path, watches=[counted(watched)]).run(config, [0])
    assert (record.select, watched, path.read_bytes()) == ("loss", [], old), "it is taken as it is"
    content = json.loads(old)
    del content["settings"]["transform"][0]["when"]
    path.write_text(json.dumps(content))
    assert Runner(tmp_path).folder.finished(config, 0)
    with pytest.raises(ValueError, match=r"made with other settings \(train.clip was None, is 0.5\)"):
        Runner(tmp_path).folder.finished(other, 0)


def test_a_record_with_a_setting_that_is_none_any_more_is_another(tmp_path: Path) -> None:
    config = tiny_config(train={"epochs": 1})
    [record] = Runner(tmp_path).run(config, [0])
    record.settings["model"]["flavor"] = 3
    record.save(tmp_path)
    with pytest.raises(ValueError, match=r"made with other settings \(model.flavor was 3, is None\)"):
        Runner(tmp_path).folder.finished(config, 0)


def test_the_records_that_are_shipped_are_those_of_the_configurations() -> None:
    root = Path(__file__).parents[2]
    runner, found = Runner(root / "records"), 0
    for path in sorted((root / "configs/transfer").glob("*.toml")):
        for config in load_config(path):
            found += sum(runner.folder.finished(config, index) is not None for index in range(config.protocol.num_runs))
    assert found == len(list((root / "records/transfer").rglob("*.json"))) > 0


def test_another_rule_of_selection_trains_nothing_and_is_that_of_the_record_from_then_on(tmp_path: Path) -> None:
    watched: list[int] = []
    runner = Runner(tmp_path, watches=[counted(watched)])
    [first] = runner.run(tiny_config(), [0])
    [again] = runner.run(tiny_config(train={"select": "metric"}), [0])
    assert (first.select, again.select, len(watched)) == ("loss", "metric", 3)
    assert Record.load(runner.folder.path(tiny_config(), 0)) == again
    again.settings["train"]["select"] = "loss"
    assert first == again


@pytest.mark.parametrize("title", ["another", ""])
def test_title_and_published_number_are_as_the_configuration_has_them_now(title: str, tmp_path: Path) -> None:
    watched: list[int] = []
    runner = Runner(tmp_path, watches=[counted(watched)])
    tables = tiny_tables(published={"value": 50.0}) | {"title": "first"}
    [first] = runner.run(make_configs("test/tiny", tables)[0], [0])
    tables = tiny_tables(published={"value": 99.123456789}) | ({"title": title} if title else {})
    [again] = runner.run(make_configs("test/tiny", tables)[0], [0])
    assert (first.published, first.settings["title"], len(watched)) == ({"value": 50.0}, "first", 3)
    assert again.published["value"] == pytest.approx(99.123456789)
    assert again.settings.get("title", "") == title
    changed = runner.folder.path(tiny_config(), 0).stat().st_mtime_ns
    list(runner.run(make_configs("test/tiny", tables)[0], [0]))
    assert runner.folder.path(tiny_config(), 0).stat().st_mtime_ns == changed, "what has not changed is not written"
    assert Record.load(runner.folder.path(tiny_config(), 0)) == again


def test_to_ask_whether_a_run_is_finished_changes_nothing(tmp_path: Path) -> None:
    runner, renamed = Runner(tmp_path), make_configs("test/tiny", tiny_tables(published={"value": 50.0}) | {"title": "another"})[0]
    [record] = runner.run(tiny_config(), [0])
    (checkpoint := runner.folder.path(renamed, 0).with_suffix(".ckpt")).write_bytes(b"half")
    before = runner.folder.path(renamed, 0).read_bytes()
    assert runner.folder.finished(renamed, 0) == record
    assert (runner.folder.path(renamed, 0).read_bytes(), checkpoint.is_file()) == (before, True)
    assert runner.folder.settle(renamed, 0, record).settings["title"] == "another"
    assert record.settings.get("title") is None
    assert not checkpoint.is_file()


@pytest.mark.parametrize("num_jobs", [1, 2])
def test_a_record_that_is_there_is_read_once(num_jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, read, load = list(run_all(Runner(tmp_path), grid(train={"epochs": 1}))), [], Record.load
    monkeypatch.setattr(Record, "load", lambda path: read.append(path) or load(path))
    assert list(run_all(Runner(tmp_path), grid(train={"epochs": 1}), num_jobs=num_jobs)) == made
    assert sorted(read) == sorted(tmp_path.rglob("*.json"))


def alter_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the fake dataset has another number in it."""
    fake = preprocess.DATASETS["fake"]

    @functools.wraps(fake)
    def altered(**settings: Any) -> Dataset:
        dataset = fake(**settings)
        dataset.graphs[0].x[0, 0] += 1
        return dataset

    monkeypatch.setitem(preprocess.DATASETS, "fake", altered)


def test_runs_on_other_data_are_not_put_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner(tmp_path, save_every_s=0)
    [first] = runner.run(tiny_config(), [0])
    assert len(first.provenance["data"]) == 16
    alter_data(monkeypatch)
    assert list(runner.run(tiny_config(), [0])) == [first], "nothing is trained beside it"
    with pytest.raises(
        ValueError, match=r"000\.json was made on other data than fake has now; name another --records, or remove it"
    ):
        list(runner.run(tiny_config(), [1]))
    runner.folder.path(tiny_config(), 0).unlink()
    [second] = runner.run(tiny_config(), [0])
    assert second.provenance["data"] != first.provenance["data"]


def test_a_process_that_has_its_data_ready_asks_what_the_records_of_another_configuration_were_made_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_LAST", {})
    first, second = grid()
    list(Runner(tmp_path).run(second, [0]))
    alter_data(monkeypatch)
    run._run_one(Runner(tmp_path), first, 0)
    with pytest.raises(ValueError, match=r"train\.lr=0\.05/000\.json was made on other data than fake has now"):
        run._run_one(Runner(tmp_path), second, 1)


def test_one_run_of_very_many_starts_at_once(tmp_path: Path) -> None:
    config = tiny_config(protocol={"kind": "fresh", "num_runs": 10**12})
    [record] = Runner(tmp_path).run(config, [10**12 - 1])
    assert record.path(tmp_path).name == "999999999999.json"


def test_a_checkpoint_of_other_data_is_not_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
        if epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, save_every_s=0, watches=[stop]).run(tiny_config(), [0]))
    alter_data(monkeypatch)
    [resumed], [whole] = Runner(tmp_path).run(tiny_config(), [0]), Runner(tmp_path / "whole").run(tiny_config(), [0])
    assert resumed.history == whole.history


def test_a_number_of_many_digits_in_a_transform_is_that_of_the_record(tmp_path: Path) -> None:
    tables = tiny_tables() | {"transform": [{"kind": "DIGL", "alpha": 0.123456789, "eps": 0.05}]}
    [first] = Runner(tmp_path).run(make_configs("test/many", tables)[0], [0])
    assert list(Runner(tmp_path).run(make_configs("test/many", tables)[0], [0])) == [first]
    tables["transform"] = [{"kind": "DIGL", "alpha": 0.13, "eps": 0.05}]
    with pytest.raises(ValueError, match=r"other settings \(transform\.0\.alpha was 0\.1234568, is 0\.13\)"):
        list(Runner(tmp_path).run(make_configs("test/many", tables)[0], [0]))


def test_a_process_that_is_ended_from_outside_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise BrokenProcessPool("A process in the process pool was terminated abruptly")

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor.map", broken)
    with pytest.raises(
        ChildProcessError, match="a process was ended from outside, perhaps for want of memory; finished runs are kept"
    ):
        list(run_all(Runner(tmp_path), [tiny_config()], num_jobs=2))


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


def test_what_is_wrong_is_said_before_anything_is_trained(tmp_path: Path) -> None:
    list(Runner(tmp_path).run(tiny_config(train={"epochs": 1}), [1]))
    watched: list[int] = []
    runner = Runner(tmp_path, watches=[counted(watched)])
    with pytest.raises(ValueError, match=r"001\.json was made with other settings"):
        list(run_all(runner, [tiny_config()], [0, 1]))
    assert not watched


def test_variants_have_records_of_their_own(tmp_path: Path) -> None:
    configs = [tiny_config(train={"epochs": 1}), dataclasses.replace(tiny_config(train={"epochs": 2}), variant="train.epochs=2")]
    records = list(run_all(Runner(tmp_path), configs, [0]))
    assert [len(record.history["val"]) for record in records] == [1, 2]
    assert (tmp_path / "test/tiny/train.epochs=2/000.json").is_file()


def test_an_interrupted_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    watched: list[int] = []

    def interrupt(config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
        watched.append(epoch)
        if len(watched) == 3:
            raise KeyboardInterrupt

    config = tiny_config(train={"epochs": 4}, model={"dropout": 0.2})
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path / "a", watches=[interrupt], save_every_s=0).run(config, [0]))
    assert (tmp_path / "a/test/tiny/000.ckpt").is_file()
    (tmp_path / "a/test/tiny/.000.ckpt.x1y2").write_bytes(b"half a file")
    [resumed] = Runner(tmp_path / "a", watches=[interrupt]).run(config, [0])
    assert watched == [1, 2, 3, 3, 4]
    [whole] = Runner(tmp_path / "b").run(config, [0])
    assert comparable(resumed) == comparable(whole)
    assert [path.name for path in (tmp_path / "a/test/tiny").iterdir()] == ["000.json"]


@pytest.mark.parametrize("num_replicas", [None, 2])
def test_a_run_that_two_commits_have_made_names_both(
    num_replicas: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
        if epoch == 3:
            raise KeyboardInterrupt

    config, common = tiny_config(train={"epochs": 4}), {"num_replicas": num_replicas, "save_every_s": 0}
    monkeypatch.setattr(progress, "source", lambda: {"commit": "a" * 40})
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, watches=[interrupt], **common).run(config, [0, 1]))
    monkeypatch.setattr(progress, "source", lambda: {"commit": "b" * 40})
    one, other = Runner(tmp_path, **common).run(config, [0, 1])
    assert one.provenance["commits"] == {"a" * 40: 1, "b" * 40: 3}
    assert ("commits" in other.provenance) == (num_replicas is not None), "the second one began with the second commit, if alone"


def test_a_checkpoint_of_other_settings_is_not_used(tmp_path: Path) -> None:
    def interrupt(config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
        if epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path / "a", watches=[interrupt], save_every_s=0).run(tiny_config(), [0]))
    other = tiny_config(train={"lr": 0.5})
    with pytest.warns(
        UserWarning, match="000.ckpt is not gone on from, so the run starts anew: .*settings.train.lr was 0.01, is 0.5"
    ):
        pair = [next(iter(Runner(tmp_path / folder).run(other, [0]))) for folder in ("a", "b")]
    assert comparable(pair[0]) == comparable(pair[1])


@pytest.mark.parametrize("num_replicas", [None, 2])
def test_a_checkpoint_older_than_a_setting_was_made_with_its_default(num_replicas: int | None, tmp_path: Path) -> None:
    epochs: list[int] = []

    def interrupt(config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
        epochs.append(epoch)
        if len(epochs) == 2:
            raise KeyboardInterrupt

    config, common = tiny_config(protocol={"kind": "fresh", "num_runs": 2}), {"save_every_s": 0, "num_replicas": num_replicas}
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, watches=[interrupt], **common).run(config))
    [path] = tmp_path.rglob("*.ckpt")
    state = torch.load(path, weights_only=True)
    identity = state.pop("identity")
    write_checkpoint(path, old := identity.replace(', "stratify": false', ""), state)
    assert old != identity
    list(Runner(tmp_path, watches=[interrupt], **common).run(config))
    assert epochs[:4] == [1, 2, 2, 3], "it went on"


@pytest.mark.parametrize("change", ["torch", "device"])
def test_a_checkpoint_of_another_torch_or_device_is_not_used(change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs: list[int] = []

    def interrupt(config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
        epochs.append(epoch)
        if len(epochs) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, watches=[interrupt], save_every_s=0).run(tiny_config(), [0]))
    if change == "torch":
        monkeypatch.setattr(torch, "__version__", "0.1")
    else:
        real = torch.load(tmp_path / "test/tiny/000.ckpt", weights_only=True)
        write_checkpoint(tmp_path / "test/tiny/000.ckpt", real.pop("identity").replace('"cpu: ', '"cuda: '), real)
    with pytest.warns(UserWarning, match=f"000.ckpt is not gone on from, so the run starts anew: {change} was "):
        list(Runner(tmp_path, watches=[interrupt]).run(tiny_config(), [0]))
    assert epochs == [1, 2, 1, 2, 3]


def test_peak_memory_is_that_of_the_run(tmp_path: Path) -> None:
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("needs Linux, which can forget the largest size so far")
    list(Runner(tmp_path).run(tiny_config(), [0]))  # what every run needs is there
    large = torch.ones(2**27)  # 512 MiB
    with_it = peak_memory(torch.device("cpu"))
    del large
    [record] = Runner(tmp_path).run(tiny_config(), [1])
    assert record.cost["peak_memory_bytes"] < with_it - 2**28


@pytest.mark.parametrize(
    "start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)]
)  # a spawned process imports torch for seconds
def test_several_jobs_leave_the_same_records_as_one(tmp_path: Path, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gump.experiment.run.get_context", lambda _: get_context(start))
    configs = [
        tiny_config(),
        dataclasses.replace(tiny_config(dataset={"level": "link"}, protocol={"kind": "links"}), name="test/links"),
    ]
    one = list(run_all(Runner(tmp_path / "one"), configs, [0, 1], 1))
    two = list(run_all(Runner(tmp_path / "two"), configs, [0, 1], 2))
    assert [(record.name, record.index) for record in two] == [
        ("test/tiny", 0),
        ("test/tiny", 1),
        ("test/links", 0),
        ("test/links", 1),
    ]
    assert list(map(comparable, one)) == list(map(comparable, two))
    assert list(run_all(Runner(tmp_path / "two"), configs, [], 2)) == []


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


def test_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"'device' must be one that this machine has \(got 'cuda'\)"):
            list(Runner(tmp_path, device="cuda").run(tiny_config(), [0]))
    with pytest.raises(
        ValueError, match=r"'device' must be one that this machine has \(got 'abacus'\): .*invalid accelerator name"
    ):
        list(Runner(tmp_path, device="abacus").run(tiny_config(), [0]))


def test_runs_side_by_side_leave_the_records_that_each_would_leave_alone(tmp_path: Path) -> None:
    config = tiny_config(protocol={"num_runs": 5})
    alone = list(Runner(tmp_path / "alone").run(config))
    several = Runner(tmp_path / "several", num_replicas=3)
    assert [record.index for record in several.run(config)] == [0, 1, 2, 3, 4]
    for one, other in zip(alone, several.run(config), strict=True):
        assert one.settings == other.settings
        assert one.test_index == other.test_index
        assert one.predictions["target"] == other.predictions["target"]
        (first, *later), (first_of_other, *later_of_other) = one.history["val_loss"], other.history["val_loss"]
        assert first == pytest.approx(first_of_other, abs=1e-2), "up to single precision"
        assert later == pytest.approx(later_of_other, abs=5e-2), "which grows with every step"
    assert not list(tmp_path.rglob("*.ckpt"))


def test_a_single_run_can_be_trained_by_the_program_of_replicas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, used = tiny_config(protocol={"num_runs": 1}), []
    [plain] = Runner(tmp_path / "plain").run(config)
    real = workshop.ReplicaTrainer.fit
    monkeypatch.setattr(workshop.ReplicaTrainer, "fit", lambda self, *args: used.append(len(self.indices)) or real(self, *args))
    [one] = Runner(tmp_path / "one", num_replicas=1).run(config)
    assert used == [1]
    assert one.history["val_loss"] == pytest.approx(plain.history["val_loss"], abs=2e-2), "up to single precision"


def test_only_missing_runs_are_trained_side_by_side(tmp_path: Path) -> None:
    config = tiny_config(protocol={"num_runs": 3})
    list(Runner(tmp_path).run(config, [1]))
    before = Runner(tmp_path).folder.path(config, 1).read_bytes()
    records = list(Runner(tmp_path, num_replicas=10).run(config))
    assert [record.index for record in records] == [0, 1, 2]
    assert Runner(tmp_path).folder.path(config, 1).read_bytes() == before


class Killed(BaseException):
    """What happens to a process between two instructions."""


@contextmanager
def killed_after(num_saved: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ends what runs inside as soon as it would save one more record than this."""
    real, saved = Record.save, []

    def save(record: Record, root: Path) -> Path:
        if len(saved) == num_saved:
            raise Killed
        saved.append(record.index)
        return real(record, root)

    with monkeypatch.context() as patch:
        patch.setattr(Record, "save", save)
        with pytest.raises(Killed):
            yield


@pytest.mark.parametrize(("num_saved", "num_epochs_left"), [(0, 3), (1, 3), (3, 3), (5, 0)])
def test_a_group_killed_between_its_records_ends_as_if_it_never_was(
    num_saved: int, num_epochs_left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_config(protocol={"num_runs": 6}, model={"dropout": 0.3})
    whole = list(Runner(tmp_path / "whole", num_replicas=4).run(config))
    watched: list[int] = []
    runner = Runner(tmp_path / "killed", num_replicas=4, watches=[counted(watched)])
    with killed_after(num_saved, monkeypatch):
        list(runner.run(config))
    before = {path: path.read_bytes() for path in (tmp_path / "killed").rglob("*.json")}
    assert len(before) == num_saved
    [checkpoint] = (tmp_path / "killed").rglob("*.ckpt")
    checkpoint.with_name(f".{checkpoint.name}.x1y2").write_bytes(b"half a file")
    trained = len(watched)
    records = list(runner.run(config))
    assert len(watched) - trained == num_epochs_left, "a group that was at its end is not trained again"
    assert list(map(comparable, records)) == list(map(comparable, whole))
    assert all(path.read_bytes() == content for path, content in before.items())
    assert sorted(path.name for path in (tmp_path / "killed/test/tiny").iterdir()) == [f"{i:03d}.json" for i in range(6)]


def test_folds_of_unequal_sizes_are_groups_of_their_own(tmp_path: Path) -> None:
    config = tiny_config(protocol={"kind": "folds", "num_folds": 3, "num_runs": 6}, train={"epochs": 1})
    records = list(Runner(tmp_path, num_replicas=6).run(config))
    assert [record.index for record in records] == list(range(6))
    assert [len(record.test_index) for record in records] == [7, 7, 6, 7, 7, 6]
    assert [record.provenance["side_by_side_with"] for record in records][:3] == [[1, 3, 4], [0, 3, 4], [5]]
    for first in (0, 3):
        assert sorted(i for record in records[first : first + 3] for i in record.test_index) == list(range(20))


def test_a_group_killed_after_its_last_record_leaves_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny_config()
    with monkeypatch.context() as patch:
        patch.setattr("gump.experiment.workshop.tidy", lambda _: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            list(Runner(tmp_path, num_replicas=2).run(config))
    assert (tmp_path / "test/tiny/000-001.ckpt").is_file()
    list(Runner(tmp_path).run(config))
    assert sorted(path.name for path in (tmp_path / "test/tiny").iterdir()) == ["000.json", "001.json"]


def test_a_group_goes_on_only_where_all_that_is_left_of_it_is_asked_for(tmp_path: Path) -> None:
    def kill(config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
        if epoch == 2:
            raise Killed

    config, watched = tiny_config(protocol={"num_runs": 3}), []
    with pytest.raises(Killed):
        list(Runner(tmp_path, num_replicas=3, watches=[kill], save_every_s=0).run(config))
    counting = [lambda config, index, epoch, results: watched.append((index, epoch))]
    [alone] = Runner(tmp_path, num_replicas=3, watches=counting).run(config, [0])
    assert (alone.provenance["side_by_side_with"], watched) == ([], [(0, 1), (0, 2), (0, 3)])
    rest = list(Runner(tmp_path, num_replicas=3, watches=counting).run(config))
    assert watched[3:] == [(0, 2), (0, 3)], "from the checkpoint, in which the first run still is"
    assert rest[0] == alone
    assert [record.provenance["side_by_side_with"] for record in rest[1:]] == [[0, 2], [0, 1]]
    assert not list(tmp_path.rglob("*.ckpt"))


def test_a_group_that_is_larger_than_what_is_asked_for_starts_anew_with_a_warning(tmp_path: Path) -> None:
    def kill(config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
        if epoch == 2:
            raise Killed

    config = tiny_config(protocol={"num_runs": 3})
    with pytest.raises(Killed):
        list(Runner(tmp_path, num_replicas=3, watches=[kill], save_every_s=0).run(config))
    with pytest.warns(UserWarning, match="000-002.ckpt is not gone on from, so its 3 runs start anew: ask for all of them"):
        assert len(list(Runner(tmp_path, num_replicas=2).run(config))) == 3


RATES = [0.01, 0.05]


def grid(**changes: Any) -> list[Config]:
    """Two configurations that differ in their rate, with three runs each."""
    changes = {"protocol": {"num_runs": 3}, "grid": {"train.lr": RATES}} | changes
    return make_configs("test/tiny", tiny_tables(**changes))


def grouped(groups: list[list[tuple[float, int]]]) -> Any:
    """What to put in the place of the fit of replicas, so that the groups are written down: the rate and the number of every run."""
    real = workshop.ReplicaTrainer.fit

    def fit(self: Any, *args: Any) -> Any:
        groups.append([(training.lr, index) for training, index in zip(self.trainings, self.indices, strict=True)])
        return real(self, *args)

    return fit


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_grid_of_rates_side_by_side_leaves_the_records_that_each_run_would_leave_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = list(run_all(Runner(tmp_path / "alone"), grid()))
    groups: list[list[tuple[float, int]]] = []
    monkeypatch.setattr(workshop.ReplicaTrainer, "fit", grouped(groups))
    together = list(run_all(Runner(tmp_path / "together", num_replicas=10), grid()))
    assert groups == [[(rate, index) for rate in RATES for index in range(3)]]
    assert names(tmp_path / "together") == names(tmp_path / "alone")
    assert list(run_all(Runner(tmp_path / "together"), grid())) == together, "whoever asks"
    for one, other in zip(alone, together, strict=True):
        for key in ("name", "variant", "index", "settings", "test_index", "metric"):
            assert getattr(one, key) == getattr(other, key)
        (first, *later), (first_of_other, *later_of_other) = one.history["val_loss"], other.history["val_loss"]
        assert first == pytest.approx(first_of_other, abs=1e-2), "up to single precision"
        assert later == pytest.approx(later_of_other, abs=5e-2), "which grows with every step"
    assert together[0].history["val_loss"] != pytest.approx(together[3].history["val_loss"], abs=2e-2), "two rates"
    made = together[4].provenance
    assert (made["side_by_side_with"], made["and_with"]) == ([0, 2], {"test/tiny [train.lr=0.01]": "0-2"})
    assert "and_with" not in alone[0].provenance


def test_groups_are_cut_from_all_runs_of_configurations_that_share_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[list[tuple[float, int]]] = []
    monkeypatch.setattr(workshop.ReplicaTrainer, "fit", grouped(groups))
    first, second = grid(train={"epochs": 1})
    between = dataclasses.replace(tiny_config(protocol={"num_runs": 3}, train={"epochs": 1, "clip": 1.0}), name="test/clipped")
    records = list(run_all(Runner(tmp_path, num_replicas=4), [first, between, second]))
    assert groups == [[(0.01, 0), (0.01, 1), (0.01, 2), (0.05, 0)], [(0.05, 1), (0.05, 2)], [(0.01, 0), (0.01, 1), (0.01, 2)]]
    assert [(r.name, r.variant, r.index) for r in records] == [
        (config.name, config.variant, index) for config in (first, second, between) for index in range(3)
    ]
    assert [record.provenance.get("and_with") for record in records[3:5]] == [{first.title: "0-2"}, None]


def test_files_of_several_names_and_rules_are_one_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[list[tuple[float, int]]] = []
    monkeypatch.setattr(workshop.ReplicaTrainer, "fit", grouped(groups))
    first = dataclasses.replace(tiny_config(), name="test/first", published={"value": 1.0})
    second = dataclasses.replace(tiny_config(train={"patience": 0, "select": "last"}), name="test/second")
    third = make_configs("test/third", tiny_tables() | {"title": "Third"})[0]
    records = list(run_all(Runner(tmp_path, num_replicas=9), [first, second, third], [1]))
    assert groups == [[(0.01, 1)] * 3]
    assert [(record.name, record.select) for record in records] == [
        ("test/first", "loss"),
        ("test/second", "last"),
        ("test/third", "loss"),
    ]
    assert [record.published for record in records] == [{"value": 1.0}, {}, {}]
    assert records[2].settings["title"] == "Third"
    assert records[0].history == records[2].history


def test_a_mixed_group_is_watched_under_the_name_of_its_first_run_and_the_number_of_others(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    watch = [lambda config, index, epoch, results: seen.append((config.title, index, epoch))]
    list(run_all(Runner(tmp_path, num_replicas=3, watches=watch), grid(train={"epochs": 1}, protocol={"num_runs": 2})))
    assert seen == [("test/tiny [train.lr=0.01 and 1 more]", 0, 1), ("test/tiny [train.lr=0.05]", 1, 1)]


@pytest.mark.parametrize(("num_saved", "num_epochs_left"), [(0, 3), (4, 3), (5, 0)])
def test_a_mixed_group_killed_between_its_records_ends_as_if_it_never_was(
    num_saved: int, num_epochs_left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = grid(model={"dropout": 0.3})
    whole = list(run_all(Runner(tmp_path / "whole", num_replicas=5), configs))
    watched: list[int] = []
    runner = Runner(tmp_path / "killed", num_replicas=5, watches=[counted(watched)])
    with killed_after(num_saved, monkeypatch):
        list(run_all(runner, configs))
    before = {path: path.read_bytes() for path in (tmp_path / "killed").rglob("*.json")}
    assert len(before) == num_saved
    [checkpoint] = (tmp_path / "killed").rglob("*.ckpt")
    expected = "test/tiny/train.lr=0.05/002.ckpt" if num_saved == 5 else "test/tiny/train.lr=0.01/000+4.ckpt"
    assert checkpoint.relative_to(tmp_path / "killed").as_posix() == expected
    checkpoint.with_name(f".{checkpoint.name}.x1y2").write_bytes(b"half a file")
    trained = len(watched)
    records = list(run_all(runner, configs))
    assert len(watched) - trained == num_epochs_left, "a group that was at its end is not trained again"
    assert list(map(comparable, records)) == list(map(comparable, whole))
    assert all(path.read_bytes() == content for path, content in before.items())
    assert names(tmp_path / "killed") == names(tmp_path / "whole")


def killed_grid(folder: Path) -> None:
    """Six runs of two rates, killed after their second epoch."""

    def kill(config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
        if epoch == 3:
            raise Killed

    with pytest.raises(Killed):
        list(run_all(Runner(folder, num_replicas=6, watches=[kill], save_every_s=0), grid()))
    assert [path.relative_to(folder).as_posix() for path in folder.rglob("*.ckpt")] == ["test/tiny/train.lr=0.01/000+5.ckpt"]


def test_a_mixed_group_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    killed_grid(tmp_path / "r")
    epochs: list[int] = []
    watch = [lambda config, index, epoch, results: epochs.append(epoch)]
    records = list(run_all(Runner(tmp_path / "r", num_replicas=6, watches=watch), grid()))
    assert epochs == [3]
    whole = list(run_all(Runner(tmp_path / "whole", num_replicas=6), grid()))
    assert list(map(comparable, records)) == list(map(comparable, whole))
    assert names(tmp_path / "r") == names(tmp_path / "whole")


def test_a_mixed_group_goes_on_only_where_all_its_configurations_are_asked_for_as_they_were(tmp_path: Path) -> None:
    killed_grid(tmp_path)
    epochs: list[int] = []
    runner = Runner(tmp_path, num_replicas=6, watches=[lambda config, index, epoch, results: epochs.append(epoch)])
    list(run_all(runner, grid()[:1], [0]))
    assert epochs == [1, 2, 3], "one of them alone begins anew"
    list(run_all(runner, make_configs("test/tiny", tiny_tables(protocol={"num_runs": 3}, train={"lr": 0.05}))))
    assert epochs[3:] == [1, 2, 3], "another configuration, with the settings of the second"
    list(run_all(runner, grid()))
    assert epochs[6:] == [3], "from the checkpoint, in which the first run still is"
    assert not list(tmp_path.rglob("*.ckpt"))


def test_a_checkpoint_of_a_mixed_group_with_other_settings_is_not_used(tmp_path: Path) -> None:
    killed_grid(tmp_path)
    epochs: list[int] = []
    watch = [lambda config, index, epoch, results: epochs.append(epoch)]
    list(run_all(Runner(tmp_path, num_replicas=6, watches=watch), grid(train={"epochs": 2})))
    assert epochs == [1, 2]


def test_runs_of_a_mixed_group_that_are_made_otherwise_leave_no_checkpoint(tmp_path: Path) -> None:
    killed_grid(tmp_path)
    list(run_all(Runner(tmp_path), grid()))
    assert not list(tmp_path.rglob("*.ckpt"))
    assert len(list(tmp_path.rglob("*.json"))) == 6


def test_a_group_of_one_configuration_goes_on_within_a_grid(tmp_path: Path) -> None:
    def kill(config: Config, index: int, epoch: int, results: dict[str, float]) -> None:
        if epoch == 3:
            raise Killed

    with pytest.raises(Killed):
        list(Runner(tmp_path, num_replicas=3, watches=[kill], save_every_s=0).run(grid()[1]))
    assert [path.parent.name + "/" + path.name for path in tmp_path.rglob("*.ckpt")] == ["train.lr=0.05/000-002.ckpt"]
    seen: list[tuple[str, int]] = []
    watch = [lambda config, index, epoch, results: seen.append((config.variant, epoch))]
    list(run_all(Runner(tmp_path, num_replicas=3, watches=watch), grid()))
    assert seen == [("train.lr=0.01", 1), ("train.lr=0.01", 2), ("train.lr=0.01", 3), ("train.lr=0.05", 3)]
    assert not list(tmp_path.rglob("*.ckpt"))


@pytest.mark.parametrize("num_replicas", [None, 4])
def test_a_configuration_that_is_named_twice_is_trained_once_and_one_name_for_two_is_refused(
    num_replicas: int | None, tmp_path: Path
) -> None:
    watched: list[int] = []
    runner = Runner(tmp_path, num_replicas=num_replicas, watches=[counted(watched)])
    with pytest.raises(ValueError, match=r"'configs' must have names of their own, .* \(got test/tiny with different settings\)"):
        list(run_all(runner, [tiny_config(), tiny_config(train={"lr": 0.5})]))
    records = list(run_all(runner, [tiny_config(), tiny_config()], [0]))
    assert (len(records), watched) == (2, [0] * 3)
    assert records[0] == records[1]


def test_a_checkpoint_of_a_group_that_cannot_be_read_is_removed(tmp_path: Path) -> None:
    (tmp_path / "test/tiny").mkdir(parents=True)
    (tmp_path / "test/tiny/000-001.ckpt").write_bytes(b"nothing")
    with pytest.warns(UserWarning, match="cannot be read, so the run starts anew"):
        list(Runner(tmp_path, num_replicas=2).run(tiny_config()))
    assert not list(tmp_path.rglob("*.ckpt"))


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"kind": "GPS"}}, r"'model.kind' must be one whose forward takes a mask, to be trained as replicas \(got GPS\)"),
        (
            {"train": {"precision": "64-true"}, "model": {"kind": "MPNN"}},
            r"'train.precision' must be '32-true' with '--replicas' \(got '64-true'\)",
        ),
        ({"head": {"pool": "max"}}, r"'head.pool' must be 'mean' or 'sum' with '--replicas' \(got 'max'\)"),
        ({"model": {"checkpoint": True}}, "'model.checkpoint' must be false with '--replicas'"),
    ],
)
def test_what_cannot_be_trained_side_by_side_is_refused_before_anything_is_trained(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    other = make_configs("test/other", tiny_tables(**changes))[0]
    with pytest.raises(ValueError, match=f"{message}.*, for test/other"):
        list(run_all(Runner(tmp_path, num_replicas=2), [tiny_config(), other]))
    assert not list(tmp_path.rglob("*.json"))
    made = list(run_all(Runner(tmp_path), [other]))
    assert len(list(run_all(Runner(tmp_path, num_replicas=2), [tiny_config(), other]))) == 2 + len(made), (
        "what is finished needs no training"
    )


def test_runs_beyond_the_protocol_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'--splits' must be below the protocol's number of runs, 2 \(got 5 for test/tiny\)"):
        list(run_all(Runner(tmp_path), [tiny_config()], [0, 5]))
    assert not list(tmp_path.rglob("*.json"))


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
    config = tiny_config(dataset={"task": "regression", "num_targets": 2, "missing": 0.4})
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
            assert other.history[series] == pytest.approx(values, rel=1e-3)


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
