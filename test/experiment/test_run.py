import dataclasses
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from fake_configs import tiny_config, tiny_tables
from fake_runs import alter_data, comparable, counted, grid

from gump.experiment import run
from gump.experiment.config import make_configs
from gump.experiment.run import Runner, run_all
from gump.record import Record


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


@pytest.mark.parametrize("num_jobs", [1, 2])
def test_a_record_that_is_there_is_read_once(num_jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, read, load = list(run_all(Runner(tmp_path), grid(train={"epochs": 1}))), [], Record.load
    monkeypatch.setattr(Record, "load", lambda path: read.append(path) or load(path))
    assert list(run_all(Runner(tmp_path), grid(train={"epochs": 1}), num_jobs=num_jobs)) == made
    assert sorted(read) == sorted(tmp_path.rglob("*.json"))


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


def test_a_process_that_is_ended_from_outside_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise BrokenProcessPool("A process in the process pool was terminated abruptly")

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor.map", broken)
    with pytest.raises(
        ChildProcessError,
        match="one of 2 processes was ended from outside, perhaps for want of memory; finished runs are kept, and fewer --jobs",
    ):
        list(run_all(Runner(tmp_path), [tiny_config()], num_jobs=2))


def test_what_is_wrong_is_said_before_anything_is_trained(tmp_path: Path) -> None:
    list(Runner(tmp_path).run(tiny_config(train={"epochs": 1}), [1]))
    watched: list[int] = []
    runner = Runner(tmp_path, watches=[counted(watched)])
    with pytest.raises(ValueError, match=r"001\.json was made with other settings"):
        list(run_all(runner, [tiny_config()], [0, 1]))
    assert not watched


@pytest.mark.parametrize(
    "start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)]
)  # a spawned process imports torch for seconds
def test_several_jobs_leave_the_same_records_as_one(tmp_path: Path, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gump.datasets.workers.get_context", lambda _: get_context(start))
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"kind": "GPS"}}, r"'model.kind' must be one whose forward takes a mask, to be trained as replicas \(got GPS\)"),
        (
            {"train": {"precision": "64-true"}, "model": {"kind": "MPNN"}},
            r"'train.precision' must be '32-true' with '--replicas' \(got '64-true'\)",
        ),
        ({"head": {"pool": "max"}}, r"'head.pool' must be one of 'mean', 'sum', 'log_sum' with '--replicas' \(got 'max'\)"),
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
