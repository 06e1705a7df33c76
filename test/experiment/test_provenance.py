import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_configs import tiny_config

import gump
from gump.experiment import progress, provenance
from gump.experiment.run import Runner


def test_a_record_says_where_it_was_made(tmp_path: Path) -> None:
    [record] = Runner(tmp_path).run(tiny_config(), [0])
    made = record.provenance
    assert set(made) == {
        "config",
        "data",
        "split",
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


@pytest.mark.parametrize("num_replicas", [None, 2])
def test_a_run_that_two_commits_have_made_names_both(
    num_replicas: int | None, tmp_path: Path, interrupting: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, common = tiny_config(train={"epochs": 4}), {"num_replicas": num_replicas, "save_every_s": 0}
    monkeypatch.setattr(progress, "source", lambda: {"commit": "a" * 40})
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, watches=[interrupting(3)], **common).run(config, [0, 1]))
    monkeypatch.setattr(progress, "source", lambda: {"commit": "b" * 40})
    one, other = Runner(tmp_path, **common).run(config, [0, 1])
    assert one.provenance["commits"] == {"a" * 40: 1, "b" * 40: 3}
    assert ("commits" in other.provenance) == (num_replicas is not None), "the second one began with the second commit, if alone"
