"""Runs that are trained side by side: what they leave, and how they go on."""

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_configs import tiny_config, tiny_tables
from fake_runs import RATES, comparable, counted, grid, names

from gump.experiment import replica_trainer, workshop
from gump.experiment.config import make_configs
from gump.experiment.run import Runner, run_all
from gump.record import Record


def test_runs_that_replace_others_keep_the_checkpoint_of_an_interrupted_group(
    tmp_path: Path, interrupting: Callable[[int], Any]
) -> None:
    old, new = tiny_config(protocol={"num_runs": 4}, train={"epochs": 2}), tiny_config(protocol={"num_runs": 4}, train={"lr": 0.5})
    list(Runner(tmp_path, num_replicas=2).run(old))
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, num_replicas=2, overwrite=True, watches=[interrupting(2)], save_every_s=0).run(new, [0, 1]))
    assert [path.name for path in tmp_path.rglob("*.ckpt")] == ["000-001.ckpt"]
    list(Runner(tmp_path, num_replicas=2, overwrite=True).run(new, [2, 3]))
    assert [path.name for path in tmp_path.rglob("*.ckpt")] == ["000-001.ckpt"]
    seen: list[int] = []
    watch = [lambda config, index, epoch, results: seen.append(epoch)]
    list(Runner(tmp_path, num_replicas=2, overwrite=True, watches=watch).run(new))
    assert seen == [2, 3]
    assert not list(tmp_path.rglob("*.ckpt"))


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


def test_a_group_goes_on_only_where_all_that_is_left_of_it_is_asked_for(tmp_path: Path, interrupting: Callable[[int], Any]) -> None:
    config, watched = tiny_config(protocol={"num_runs": 3}), []
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, num_replicas=3, watches=[interrupting(2)], save_every_s=0).run(config))
    counting = [lambda config, index, epoch, results: watched.append((index, epoch))]
    [alone] = Runner(tmp_path, num_replicas=3, watches=counting).run(config, [0])
    assert (alone.provenance["side_by_side_with"], watched) == ([], [(0, 1), (0, 2), (0, 3)])
    rest = list(Runner(tmp_path, num_replicas=3, watches=counting).run(config))
    assert watched[3:] == [(0, 2), (0, 3)], "from the checkpoint, in which the first run still is"
    assert rest[0] == alone
    assert [record.provenance["side_by_side_with"] for record in rest[1:]] == [[0, 2], [0, 1]]
    assert not list(tmp_path.rglob("*.ckpt"))


def test_a_group_that_is_larger_than_what_is_asked_for_starts_anew_with_a_warning(
    tmp_path: Path, interrupting: Callable[[int], Any]
) -> None:
    config = tiny_config(protocol={"num_runs": 3})
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, num_replicas=3, watches=[interrupting(2)], save_every_s=0).run(config))
    with pytest.warns(UserWarning, match="000-002.ckpt is not gone on from, so 3 of its 3 runs start anew: ask for all of them"):
        assert len(list(Runner(tmp_path, num_replicas=2).run(config))) == 3


def test_a_group_of_which_not_all_is_asked_for_starts_anew_with_a_warning(
    tmp_path: Path, interrupting: Callable[[int], Any]
) -> None:
    config = tiny_config(protocol={"num_runs": 3})
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, num_replicas=2, watches=[interrupting(2)], save_every_s=0).run(config, [0, 1]))
    with pytest.warns(UserWarning, match=r"000-001\.ckpt is not gone on from, so 1 of its 2 runs start anew: ask for all of them"):
        assert len(list(Runner(tmp_path, num_replicas=2).run(config, [1, 2]))) == 2


def test_a_group_of_which_the_program_has_changed_starts_anew_with_a_warning_that_says_what(
    tmp_path: Path, interrupting: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_config(protocol={"num_runs": 3})
    told = r"000-001\.ckpt is not gone on from, so the run starts anew: format was \d+, is 0"
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, num_replicas=2, watches=[interrupting(2)], save_every_s=0).run(config))
    monkeypatch.setattr(workshop, "FORMAT", 0)
    with pytest.warns(UserWarning, match=told), pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, num_replicas=3, watches=[interrupting(2)], save_every_s=0).run(config))
    assert [path.name for path in sorted(tmp_path.rglob("*.ckpt"))] == ["000-001.ckpt", "000-002.ckpt"]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*is not gone on from.*")  # the larger group does go on
        assert len(list(Runner(tmp_path, num_replicas=3).run(config))) == 3
    assert not list(tmp_path.rglob("*.ckpt"))


def grouped(groups: list[list[tuple[float, int]]]) -> Any:
    """What to put in the place of the fit of replicas, so that the groups are written down: the rate and the number of every run."""
    real = workshop.ReplicaTrainer.fit

    def fit(self: Any, *args: Any) -> Any:
        groups.append([(training.lr, index) for training, index in zip(self.trainings, self.indices, strict=True)])
        return real(self, *args)

    return fit


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


@pytest.mark.parametrize("call", [3, 4, 5])
def test_a_group_that_goes_on_without_its_finished_runs_leaves_the_same_records_if_it_is_interrupted(
    call: int, tmp_path: Path, interrupting: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_trainer, "NARROWEST", 1)
    train, patience = (
        {"epochs": 6, "threshold": 1e9},
        {"train.patience": [1, 5]},
    )  # nothing is progress: after three epochs, or at the end
    configs = grid(train=train, model={"dropout": 0.3}, grid=patience)
    whole = list(run_all(Runner(tmp_path / "whole", num_replicas=6, keep_weights=True), configs))
    assert [len(record.history["val"]) for record in whole] == [3] * 3 + [6] * 3
    interrupt = interrupting(call)
    runner = Runner(tmp_path / "r", num_replicas=6, keep_weights=True, watches=[interrupt], save_every_s=0)
    with pytest.raises(KeyboardInterrupt):
        list(run_all(runner, configs))
    records = list(run_all(runner, configs))
    assert interrupt.epochs == [*range(1, call + 1), *range(call, 7)]
    assert list(map(comparable, records)) == list(map(comparable, whole))
    assert names(tmp_path / "r") == names(tmp_path / "whole")
    for path in (tmp_path / "whole").rglob("*.pt"):
        weights, expected = (
            torch.load(tmp_path / folder / path.relative_to(tmp_path / "whole"))["weights"] for folder in ("r", "whole")
        )
        torch.testing.assert_close(weights, expected, atol=0, rtol=0)


def killed_grid(folder: Path, interrupting: Callable[[int], Any]) -> None:
    """Six runs of two rates, interrupted in their third epoch."""
    with pytest.raises(KeyboardInterrupt):
        list(run_all(Runner(folder, num_replicas=6, watches=[interrupting(3)], save_every_s=0), grid()))
    assert [path.relative_to(folder).as_posix() for path in folder.rglob("*.ckpt")] == ["test/tiny/train.lr=0.01/000+5.ckpt"]


def test_a_mixed_group_goes_on_from_its_checkpoint(tmp_path: Path, interrupting: Callable[[int], Any]) -> None:
    killed_grid(tmp_path / "r", interrupting)
    epochs: list[int] = []
    watch = [lambda config, index, epoch, results: epochs.append(epoch)]
    records = list(run_all(Runner(tmp_path / "r", num_replicas=6, watches=watch), grid()))
    assert epochs == [3]
    whole = list(run_all(Runner(tmp_path / "whole", num_replicas=6), grid()))
    assert list(map(comparable, records)) == list(map(comparable, whole))
    assert names(tmp_path / "r") == names(tmp_path / "whole")


def test_a_mixed_group_goes_on_only_where_all_its_configurations_are_asked_for_as_they_were(
    tmp_path: Path, interrupting: Callable[[int], Any]
) -> None:
    killed_grid(tmp_path, interrupting)
    epochs: list[int] = []
    runner = Runner(tmp_path, num_replicas=6, watches=[lambda config, index, epoch, results: epochs.append(epoch)])
    list(run_all(runner, grid()[:1], [0]))
    assert epochs == [1, 2, 3], "one of them alone begins anew"
    list(run_all(runner, make_configs("test/tiny", tiny_tables(protocol={"num_runs": 3}, train={"lr": 0.05}))))
    assert epochs[3:] == [1, 2, 3], "another configuration, with the settings of the second"
    list(run_all(runner, grid()))
    assert epochs[6:] == [3], "from the checkpoint, in which the first run still is"
    assert not list(tmp_path.rglob("*.ckpt"))


def test_a_checkpoint_of_a_mixed_group_with_other_settings_is_not_used(tmp_path: Path, interrupting: Callable[[int], Any]) -> None:
    killed_grid(tmp_path, interrupting)
    epochs: list[int] = []
    watch = [lambda config, index, epoch, results: epochs.append(epoch)]
    list(run_all(Runner(tmp_path, num_replicas=6, watches=watch), grid(train={"epochs": 2})))
    assert epochs == [1, 2]


def test_runs_of_a_mixed_group_that_are_made_otherwise_leave_no_checkpoint(
    tmp_path: Path, interrupting: Callable[[int], Any]
) -> None:
    killed_grid(tmp_path, interrupting)
    list(run_all(Runner(tmp_path), grid()))
    assert not list(tmp_path.rglob("*.ckpt"))
    assert len(list(tmp_path.rglob("*.json"))) == 6


def test_a_group_of_one_configuration_goes_on_within_a_grid(tmp_path: Path, interrupting: Callable[[int], Any]) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, num_replicas=3, watches=[interrupting(3)], save_every_s=0).run(grid()[1]))
    assert [path.parent.name + "/" + path.name for path in tmp_path.rglob("*.ckpt")] == ["train.lr=0.05/000-002.ckpt"]
    seen: list[tuple[str, int]] = []
    watch = [lambda config, index, epoch, results: seen.append((config.variant, epoch))]
    list(run_all(Runner(tmp_path, num_replicas=3, watches=watch), grid()))
    assert seen == [("train.lr=0.01", 1), ("train.lr=0.01", 2), ("train.lr=0.01", 3), ("train.lr=0.05", 3)]
    assert not list(tmp_path.rglob("*.ckpt"))


def test_a_checkpoint_of_a_group_that_cannot_be_read_is_removed(tmp_path: Path) -> None:
    (tmp_path / "test/tiny").mkdir(parents=True)
    (tmp_path / "test/tiny/000-001.ckpt").write_bytes(b"nothing")
    with pytest.warns(UserWarning, match="cannot be read, so the run starts anew"):
        list(Runner(tmp_path, num_replicas=2).run(tiny_config()))
    assert not list(tmp_path.rglob("*.ckpt"))
