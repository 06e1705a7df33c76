from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_configs import tiny_config
from fake_runs import alter_data, comparable

from gump.experiment.checkpoint import write_checkpoint
from gump.experiment.run import Runner


def test_a_checkpoint_of_other_data_is_not_gone_on_from(
    tmp_path: Path, interrupting: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, save_every_s=0, watches=[interrupting(2)]).run(tiny_config(), [0]))
    alter_data(monkeypatch)
    [resumed], [whole] = Runner(tmp_path).run(tiny_config(), [0]), Runner(tmp_path / "whole").run(tiny_config(), [0])
    assert resumed.history == whole.history


def test_an_interrupted_run_goes_on_from_its_checkpoint(tmp_path: Path, interrupting: Callable[[int], Any]) -> None:
    interrupt = interrupting(3)
    config = tiny_config(train={"epochs": 4}, model={"dropout": 0.2})
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path / "a", watches=[interrupt], save_every_s=0).run(config, [0]))
    assert (tmp_path / "a/test/tiny/000.ckpt").is_file()
    (tmp_path / "a/test/tiny/.000.ckpt.x1y2").write_bytes(b"half a file")
    [resumed] = Runner(tmp_path / "a", watches=[interrupt]).run(config, [0])
    assert interrupt.epochs == [1, 2, 3, 3, 4]
    [whole] = Runner(tmp_path / "b").run(config, [0])
    assert comparable(resumed) == comparable(whole)
    assert [path.name for path in (tmp_path / "a/test/tiny").iterdir()] == ["000.json"]


def test_a_checkpoint_of_other_settings_is_not_used(tmp_path: Path, interrupting: Callable[[int], Any]) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path / "a", watches=[interrupting(2)], save_every_s=0).run(tiny_config(), [0]))
    other = tiny_config(train={"lr": 0.5})
    with pytest.warns(
        UserWarning, match="000.ckpt is not gone on from, so the run starts anew: .*settings.train.lr was 0.01, is 0.5"
    ):
        pair = [next(iter(Runner(tmp_path / folder).run(other, [0]))) for folder in ("a", "b")]
    assert comparable(pair[0]) == comparable(pair[1])


@pytest.mark.parametrize("num_replicas", [None, 2])
def test_a_checkpoint_older_than_a_setting_was_made_with_its_default(
    num_replicas: int | None, tmp_path: Path, interrupting: Callable[[int], Any]
) -> None:
    interrupt = interrupting(2)
    config, common = tiny_config(protocol={"kind": "fresh", "num_runs": 2}), {"save_every_s": 0, "num_replicas": num_replicas}
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, watches=[interrupt], **common).run(config))
    [path] = tmp_path.rglob("*.ckpt")
    state = torch.load(path, weights_only=True)
    identity = state.pop("identity")
    write_checkpoint(path, old := identity.replace(', "stratify": false', ""), state)
    assert old != identity
    list(Runner(tmp_path, watches=[interrupt], **common).run(config))
    assert interrupt.epochs[:4] == [1, 2, 2, 3], "it went on"


@pytest.mark.parametrize("change", ["torch", "device"])
def test_a_checkpoint_of_another_torch_or_device_is_not_used(
    change: str, tmp_path: Path, interrupting: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt = interrupting(2)
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, watches=[interrupt], save_every_s=0).run(tiny_config(), [0]))
    if change == "torch":
        monkeypatch.setattr(torch, "__version__", "0.1")
    else:
        real = torch.load(tmp_path / "test/tiny/000.ckpt", weights_only=True)
        write_checkpoint(tmp_path / "test/tiny/000.ckpt", real.pop("identity").replace('"cpu: ', '"cuda: '), real)
    with pytest.warns(UserWarning, match=f"000.ckpt is not gone on from, so the run starts anew: {change} was "):
        list(Runner(tmp_path, watches=[interrupt]).run(tiny_config(), [0]))
    assert interrupt.epochs == [1, 2, 1, 2, 3]
