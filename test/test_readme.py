import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gump.cli import app
from gump.experiment.config import load_config, make_configs
from gump.experiment.run import Runner, run_all
from gump.experiment.settings import parse_assignment
from gump.record import parse_indices

ROOT = Path(__file__).parent.parent
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))}
BLOCKS = re.findall(r"```python\n(.*?)```", PAGES["README.md"], re.DOTALL)
TABLES = [(page, block) for page, text in PAGES.items() for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL)]
COMMANDS = [
    (page, shlex.split(line, comments=True)[1:])
    for page, text in PAGES.items()
    for line in re.findall(r"^ {4}(gump .*)", text, re.MULTILINE)
]
OWN = dict(zip(("fosr_gump.toml", "solubility.toml"), (block for _, block in TABLES), strict=False))
"""The configurations that the README shows, by what it calls them."""


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block{i}" for i in range(len(BLOCKS))])
def test_python_in_the_readme_runs_when_pasted(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(block, {})
    assert capsys.readouterr().out


def test_first_example_learns_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    exec(BLOCKS[0], {})
    assert "predicted [0, 1, 2, 3, 4], true [0, 1, 2, 3, 4]" in capsys.readouterr().out


def test_model_of_your_own_learns(capsys: pytest.CaptureFixture[str]) -> None:
    exec(BLOCKS[1], {})
    assert float(capsys.readouterr().out.removeprefix("loss ")) < 0.1


def test_model_of_your_own_is_trained_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_models.py").write_text(BLOCKS[1].split("torch.manual_seed")[0])
    tables = {
        "dataset": {"kind": "fake", "num_graphs": 20},
        "protocol": {"kind": "fresh", "num_runs": 1},
        "model": {"kind": "my_models:NearAndFar", "hidden_channels": 8, "num_moves": 2},
        "train": {"epochs": 1},
    }
    [record] = run_all(Runner(tmp_path / "records"), make_configs("own", tables))
    assert record.status == "finished"


@pytest.mark.parametrize(("page", "block"), TABLES, ids=[f"{page} {i}" for i, (page, _) in enumerate(TABLES)])
def test_configurations_on_the_pages_are_valid(page: str, block: str) -> None:
    assert make_configs("own", tomllib.loads(block))


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=[f"{page}: {' '.join(words)}" for page, words in COMMANDS])
def test_commands_on_the_pages_name_what_there_is(
    page: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = CliRunner().invoke(app, [words[0], "--help"])
    assert asked.exit_code == 0
    assert all(word in asked.output for word in words if word.startswith("--"))
    if words[0] != "run":
        return
    for name, block in OWN.items():
        (tmp_path / name).write_text(block)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    values = {option: [words[i + 1] for i, word in enumerate(words) if word == option] for option in ("--set", "--splits")}
    files = [file for word in words if word.endswith(".toml") for file in Path().glob(word)]
    assert files
    for file in files:
        assert load_config(file, dict(map(parse_assignment, values["--set"])))
    assert all(map(parse_indices, values["--splits"]))


def test_the_configuration_of_molecules_is_trained_and_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdkit")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GUMP_CACHE", str(tmp_path / "cache"))
    Path("solubility.toml").write_text(OWN["solubility.toml"])
    molecules = ["C" * n + ring for ring in ("c1ccccc1", "C1CC1", "c1ccncc1") for n in range(8 if ring == "c1ccccc1" else 1)]
    Path("solubility.csv").write_text("smiles,logS\n" + "".join(f"{smiles},{-len(smiles) / 4}\n" for smiles in molecules))
    train, ask = [words for page, words in COMMANDS if page == "README.md" and {"solubility.toml", "new.csv"} & {*words}]
    done = CliRunner().invoke(app, [*train, "--set", "train.epochs=2", "--device", "cpu"])
    assert done.exit_code == 0, done.output
    assert "mae" in done.stdout
    Path("new.csv").write_text("name,SMILES\nalcohol,CCO\nnothing,X\n")
    records = [path for path in Path("out/records/solubility").iterdir() if path.is_dir()]  # what was set is where they lie
    done = CliRunner().invoke(
        app, [*(str(records[0]) if word == "out/records/solubility" else word for word in ask), "--device", "cpu"]
    )
    assert done.exit_code == 0, done.output
    header, alcohol, nothing = Path("answers.csv").read_text().splitlines()
    assert header == "name,SMILES,predicted_logS,spread_logS,reason"
    assert alcohol.startswith("alcohol,CCO,")
    assert nothing.startswith("nothing,X,,,")


@pytest.mark.parametrize("page", PAGES)
def test_links_between_the_pages_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(((?!http)[^)#]+)", PAGES[page])
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("missing", ["typer", "torchmetrics"])
def test_command_names_its_extra_where_it_is_missing(missing: str) -> None:
    code = f"import sys; sys.modules['{missing}'] = None; from gump.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: the command needs: pip install 'torch-gump[cli]'\n"
