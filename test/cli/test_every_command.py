import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gump.record import load_records

Call = Callable[..., Any]


@pytest.mark.parametrize(
    "command", [[], ["list"], ["run"], ["predict"], ["report"], ["best"], ["compare"], ["diagnose"], ["explore"], ["figure"]]
)
def test_help_fits_a_screen_and_has_an_example(gump: Call, command: list[str]) -> None:
    result = gump(*command, "--help")
    lines = result.output.splitlines()
    assert result.exit_code == 0
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert any(line.strip().startswith("Example: gump ") for line in lines)
    assert "..." not in re.sub(r"\[ARGS\]\.\.\.|\{?(configs|records|weights)\}?\.\.\.", "", result.output)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "none.toml"], "none.toml does not exist; it should be a configuration such as"),
        (["run", "EMPTY"], "there is no configuration in "),
        (["run", "CONFIG", "--set", "train.epoch=1"], "'train.epoch' is not a setting (did you mean 'train.epochs'?)"),
        (["run", "CONFIG", "--set", "train.epochs"], "'--set' must be KEY=VALUE (got 'train.epochs')"),
        (["run", "CONFIG", "--set", "train.epochs=many"], "'train.epochs' must be a whole number (got 'many')"),
        (["run", "CONFIG", "--set", "title.x=1"], "'title.x' is not a setting"),
        (["run", "CONFIG", "--set", "train=3"], "'train' is not a setting; settings are called TABLE.NAME, such as train.epochs"),
        (
            ["run", "CONFIG", "--splits", "0-99999999999"],
            "'--splits' must be below the protocol's number of runs, 2 (got 99999999999)",
        ),
        (["run", "CONFIG", "--set", "model.edge_dim=3"], "'model.edge_dim' must be the number of edge features of fake, 0 (got 3)"),
        (["run", "CONFIG", "--set", "model.conv=gat"], "'conv' must be one of"),
        (
            ["run", "CONFIG", "--set", "train.precision=foo", "--set", "model.kind=MPNN"],
            "'train.precision' must be one of ('32-true', 'bf16-mixed', '64-true', 'bf16-true') (got 'foo')",
        ),
        (["run", "CONFIG", "--records", "CONFIG"], "'--records' must be a folder (got "),
        (["run", "CONFIG", "--set", "head.num_layers=-1"], "'num_layers' must be at least 0 (got -1)"),
        (
            ["list", "configs", "--configs", "nowhere"],
            "'--configs' must be a folder of configurations (got 'nowhere', which is none)",
        ),
        (["run", "CONFIG", "--set", "train.precision=7"], "'train.precision' must be a string (got 7)"),
        (["run", "CONFIG", "--splits", "3-1"], "'--splits' must be numbers and ranges such as 0-9,12 (got '3-1')"),
        (["run", "CONFIG", "--device", "abacus"], "abacus"),
        (["run", "CONFIG", "--tensorboard", "t", "--jobs", "2"], "'--tensorboard' cannot follow several runs at a time"),
        (["run", "CONFIG", "--devices", "2", "--jobs", "2"], "'--devices' and '--jobs' exclude each other"),
        (["run", "CONFIG", "--replicas", "2", "--jobs", "2"], "'--replicas' and '--jobs' exclude each other"),
        (["run", "CONFIG", "--set", "train.select=best"], "'train.select' must be one of ('loss', 'metric', 'last') (got 'best')"),
        (["run", "BROKEN"], "broken.toml is not valid TOML: "),
        (["run", "CONFIG", "--set", "dataset.kind=tu", "--set", "dataset.name=MUTAG"], "'dataset.num_graphs' is not a setting"),
        (["list", "weather"], "'what' must be one of datasets, models, transforms, protocols, configs or all (got 'weather')"),
        (["report", "nowhere"], "'records' must be a folder of records (got 'nowhere', which is none)"),
        (["report", "configs"], "'records' must hold at least one record"),
    ],
)
def test_errors_are_one_line(gump: Call, config: Path, arguments: list[str], message: str) -> None:
    broken = config.parents[2] / "broken.toml"
    empty = config.parents[2] / "empty"
    empty.mkdir()
    names = {"CONFIG": config, "BROKEN": broken, "EMPTY": empty}
    if "BROKEN" in arguments:
        broken.write_text("[train")
    result = gump(
        *(names.get(argument, argument) for argument in arguments),
        *(["--device", "cpu"] * (arguments[0] == "run" and "--device" not in arguments)),
    )
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(
    "arguments", [["--nonsense"], ["run"], ["dance"], ["run", "x.toml", "--jobs", "0"], ["run", "x.toml", "--devices", "0"]]
)
def test_a_wrong_command_line_has_an_exit_code_of_its_own(gump: Call, arguments: list[str]) -> None:
    assert gump(*arguments).exit_code == 2


BLOCKED = ("matplotlib", "rdkit", "sklearn", "ogb", "tensorboard")


WITHOUT = """
import importlib.metadata, sys
blocked, real = sys.argv.pop(1).split(), importlib.metadata.distribution

def found(name):
    if name in blocked:
        raise importlib.metadata.PackageNotFoundError(name)
    return real(name)

class Finder:
    def __init__(self, real):
        self.real = real
    def __getattr__(self, name):
        return getattr(self.real, name)
    def find_spec(self, name, *rest):
        return None if name.partition(".")[0] in blocked else self.real.find_spec(name, *rest)

importlib.metadata.distribution = found
sys.meta_path[:] = map(Finder, sys.meta_path)
from gump.cli import app
try:
    app()
finally:
    assert not [name for name in sys.modules if name.partition(".")[0] in blocked], "imported all the same"
"""


def test_from_configuration_to_record_only_what_a_plain_machine_has_is_imported(config: Path, tmp_path: Path) -> None:
    arguments = [
        "run",
        str(config),
        "--device",
        "cpu",
        "--splits",
        "0",
        "--set",
        "train.epochs=1",
        "--records",
        str(tmp_path / "r"),
    ]
    environment = {**os.environ, "GUMP_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WITHOUT, " ".join(BLOCKED), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert len(load_records(tmp_path / "r")) == 1
