"""What every subcommand does alike: places that cannot be written to are refused in one line, before anything is computed."""

import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gump.cli import app
from gump.cli.console import check_out, plain_errors, print_table
from gump.record import Record

Call = Callable[..., Any]


@pytest.fixture
def gump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Calls the command in a folder of its own, in which there are a file and a folder."""
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("kept")
    Path("folder").mkdir()
    settings = {"dataset": {"kind": "tu", "name": "NCI1"}, "protocol": {"kind": "fresh", "num_runs": 2}}
    Record("tu/nci1_gcn", 0, settings, "accuracy", results={"loss": {"test": 0.5, "epoch": 1}}).save("records")
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["explore", "Ring-8", "--out", "folder"],
            "'--out' must be a file (got 'folder', which is a folder); name one in it, such as folder/explore.html",
        ),
        (
            ["explore", "Ring-8", "--out", "file/below/page.html"],
            "'--out' must be below a folder (got 'file/below/page.html', and 'file' is a file); name another place",
        ),
        (["report", "--out", "file"], "'--out' must be a folder (got 'file', and 'file' is a file); name another place"),
        (
            ["figure", "depth", "--out", "file/x"],
            "'--out' must be a folder (got 'file/x', and 'file' is a file); name another place",
        ),
    ],
)
def test_where_something_else_is_nothing_is_written(gump: Call, arguments: list[str], message: str) -> None:
    result = gump(*arguments)
    assert result.exit_code == 1
    assert result.stderr == f"error: {message}\n"
    assert Path("file").read_text() == "kept"
    assert not list(Path("folder").iterdir())


def test_places_that_can_be_made_are_let_through(gump: Call) -> None:
    assert gump("explore", "Ring-8", "--out", "new/page.html").exit_code == 0
    assert gump("explore", "Ring-8", "--out", "new/page.html").exit_code == 0, "a file is replaced"
    assert gump("report", "--out", "folder").exit_code == 0
    check_out(Path("not/there/yet"))


@pytest.mark.parametrize("seed", ["abc", "1.5", "-1", "99999999999999999999999"])
def test_a_seed_that_is_none_is_a_wrong_command_line(gump: Call, seed: str) -> None:
    result = gump("explore", "Ring-8", "--seed", seed)
    assert result.exit_code == 2
    assert "Invalid value for '--seed'" in result.stderr
    assert not Path("out").exists()


def test_too_little_memory_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exception, match="1"), plain_errors():
        raise MemoryError("Unable to allocate 8 TiB")
    assert capsys.readouterr().err == "error: Unable to allocate 8 TiB\n"


def test_square_brackets_on_a_terminal_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, real = StringIO(), sys.modules["gump.cli.console"].Console
    monkeypatch.setattr(sys.modules["gump.cli.console"], "Console", lambda: real(file=shown, force_terminal=True, width=100))
    print_table("x [train.lr=0.1]", ["[bold]", "value"], [["model.parts=[a,b] [/]", "86.15 ± 1.49 [5.48] :x:"]])
    for text in ("x [train.lr=0.1]", "[bold]", "model.parts=[a,b] [/]", "86.15 ± 1.49 [5.48] :x:"):
        assert text in shown.getvalue()


def test_a_reader_who_has_seen_enough_hears_no_complaint() -> None:
    code = """
from gump.cli.console import plain_errors, print_table
with plain_errors():
    print_table("", ["number"], [[str(k)] for k in range(100_000)])
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "number\n"
        process.stdout.close()
        assert "Broken pipe" not in process.stderr.read()
        assert process.wait() == 1
