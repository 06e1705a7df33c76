import dataclasses
import json
import os
import subprocess
from pathlib import Path

import pytest
from fake_configs import tiny_config, tiny_tables
from fake_runs import counted

from gump.experiment.config import load_config, make_configs
from gump.experiment.record_folder import RecordFolder, Run, configs_of, runs_of
from gump.experiment.run import Runner, run_all
from gump.record import Record


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


def test_a_checkpoint_of_a_group_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    """It may be of another version of torch, which can."""
    config = tiny_config(train={"epochs": 1})
    path = RecordFolder(tmp_path).path(config, 0).with_name("000-001.ckpt")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"from another torch")
    with pytest.warns(UserWarning, match="000-001.ckpt cannot be read"):
        list(Runner(tmp_path).run(config, [0]))
    assert path.read_bytes() == b"from another torch"


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


def test_more_runs_than_before_leave_those_that_are_there(tmp_path: Path) -> None:
    watched: list[int] = []
    runner = Runner(tmp_path, watches=[counted(watched)])
    few, more = (make_configs("test/tiny", tiny_tables(protocol={"num_runs": number}))[0] for number in (1, 2))
    [first] = runner.run(few)
    found = list(runner.run(more))
    assert (len(watched), [record.settings["protocol"]["num_runs"] for record in found]) == (6, [2, 2])
    assert (found[0].results, found[0].provenance, found[0].cost) == (first.results, first.provenance, first.cost)
    assert Record.load(runner.folder.path(more, 0)) == found[0]


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


def test_a_number_of_many_digits_in_a_transform_is_that_of_the_record(tmp_path: Path) -> None:
    tables = tiny_tables() | {"transform": [{"kind": "DIGL", "alpha": 0.123456789, "eps": 0.05}]}
    [first] = Runner(tmp_path).run(make_configs("test/many", tables)[0], [0])
    assert list(Runner(tmp_path).run(make_configs("test/many", tables)[0], [0])) == [first]
    tables["transform"] = [{"kind": "DIGL", "alpha": 0.13, "eps": 0.05}]
    with pytest.raises(ValueError, match=r"other settings \(transform\.0\.alpha was 0\.1234568, is 0\.13\)"):
        list(Runner(tmp_path).run(make_configs("test/many", tables)[0], [0]))


def test_variants_have_records_of_their_own(tmp_path: Path) -> None:
    configs = [tiny_config(train={"epochs": 1}), dataclasses.replace(tiny_config(train={"epochs": 2}), variant="train.epochs=2")]
    records = list(run_all(Runner(tmp_path), configs, [0]))
    assert [len(record.history["val"]) for record in records] == [1, 2]
    assert (tmp_path / "test/tiny/train.epochs=2/000.json").is_file()


def test_the_runs_of_configurations_are_those_of_their_protocols_or_those_asked_for() -> None:
    two, three = (tiny_config(protocol={"num_runs": number}) for number in (2, 3))
    assert runs_of([two, three]) == [Run(two, 0), Run(two, 1), Run(three, 0), Run(three, 1), Run(three, 2)]
    assert runs_of([two, three], iter([1, 0])) == [Run(two, 1), Run(two, 0), Run(three, 1), Run(three, 0)]
    assert runs_of([two], []) == []
    assert configs_of(runs_of([two])) == [two]
