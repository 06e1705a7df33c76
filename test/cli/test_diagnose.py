"""``gump diagnose``: numbers and words for a dataset or a file."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import barbell, clique
from typer.testing import CliRunner

from gump.cli import app
from gump.diagnostics.bottleneck import bottleneck
from gump.diagnostics.memory import memory
from gump.diagnostics.verdict import verdict
from gump.experiment.diagnose import NUMBERS
from gump.experiment.find_graphs import find_graphs

Call = Callable[..., Any]


@pytest.fixture
def gump(own_folder: Path) -> Call:
    """Calls the command in a folder of its own."""
    return lambda *arguments: CliRunner().invoke(app, ["diagnose", *map(str, arguments)])


def table(output: str) -> dict[str, list[str]]:
    return {first: rest for first, *rest in (line.split("\t") for line in output.splitlines())}


def test_help_fits_a_screen_and_has_an_example(gump: Call) -> None:
    result = gump("--help")
    lines = result.output.splitlines()
    assert result.exit_code == 0
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "Example: gump diagnose NCI1 --index 7" in result.output


def test_a_file_of_edges_is_measured_and_judged(gump: Call, tmp_path: Path) -> None:
    edge_index, _ = barbell(6)
    lines = ["# two cliques, and an edge between them", *(f"{u} {v}" for u, v in edge_index.t().tolist())]
    (tmp_path / "own.txt").write_text("\n".join(lines))
    result = gump("own.txt", "--width", "32")
    assert result.exit_code == 0, result.output
    found, expected = table(result.stdout), bottleneck(edge_index)
    assert list(found)[: 1 + len(NUMBERS)] == ["number", *NUMBERS]
    assert found["number"] == ["value", "what it says"]
    for key in NUMBERS:
        assert float(found[key][0].replace(",", "")) == pytest.approx(getattr(expected, key), rel=5e-3), key
    assert found["verdict"] == [verdict(expected).text]
    assert found["depth"] == ["3 layers: the longest distance is 3 hops, so that every vertex hears every other"]
    assert found["walk"] == [verdict(expected).walk]
    cost = memory(edge_index, 32, 3)
    size, seconds = re.match(r"about (\d+) kB and (\S+) s for a training step", found["cost"][0]).groups()
    assert float(size) == pytest.approx(cost.bytes / 1e3, rel=1e-2)
    assert float(seconds) > 0
    assert (
        f"(62 arcs, 322 transitions, {cost.num_parameters:,} parameters with Adam's moments); the time goes by" in found["cost"][0]
    )
    assert "the speed of this CPU as measured just now" in found["cost"][0]


def test_arrays_are_read_and_a_budget_is_answered(gump: Call, tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", edge_index=clique(8)[0].numpy())
    assert table(gump("own.npz", "--memory", "1").stdout)["fits"] == ["max_block=7 fits 1 GB, all coins dense"]
    assert "no max_block fits 1e-06 GB" in table(gump("own.npz", "--memory", "0.000001").stdout)["fits"][0]
    (tmp_path / "star.txt").write_text("\n".join(f"0 {leaf}" for leaf in range(1, 10_001)))
    found = table(gump("star.txt", "--memory", "1").stdout)
    assert found["fits"] == ["max_block=9999 fits 1 GB"], "every value below the degree of the center costs the same"
    assert ", 1 hub above degree 64, " in found["cost"][0]


def test_a_table_with_weights_is_read_without_them_and_that_is_said(gump: Call, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("from,to,weight\n0,1,0.5\n1,2,2\n")
    result = gump("own.csv")
    assert result.exit_code == 0, result.output
    assert table(result.stdout)["num_edges"][0] == "2"
    assert result.stderr == "note: own.csv has a third number in 2 of 2 lines: weights of edges are not read\n"


def test_datasets_show_medians_and_the_worst_graph(gump: Call) -> None:
    result = gump("fake")
    assert result.exit_code == 0, result.output
    found = table(result.stdout)
    graphs = [bottleneck(data.edge_index, data.num_nodes) for data in find_graphs("fake")]
    worst = min(range(len(graphs)), key=lambda i: (graphs[i].large_cut.share, -graphs[i].diameter))
    assert found["number"] == ["median", f"graph {worst}", "what it says"]
    assert float(found["spectral_gap"][0]) == pytest.approx(np.median([graph.spectral_gap for graph in graphs]), rel=5e-3)
    assert float(found["spectral_gap"][1]) == pytest.approx(graphs[worst].spectral_gap, rel=5e-3)
    assert found["verdict"][0].startswith(f"of {len(graphs)} graphs, ")
    assert found["worst"] == [f"graph {worst}, {verdict(graphs[worst]).text}"]
    assert int(found["depth"][0].split()[0]) == sorted(graph.diameter for graph in graphs)[28], "what 29 of 32 graphs need"
    one = table(gump("fake", "--index", "7").stdout)
    assert float(one["spectral_gap"][0]) == pytest.approx(graphs[7].spectral_gap, rel=5e-3)


def test_transfer_tasks_go_by_their_names(gump: Call) -> None:
    found = table(gump("Ring-30", "--index", "0").stdout)
    assert found["diameter"][0] == "15"
    assert found["verdict"][0].startswith("no bottleneck but a long way: the farthest vertices are 15 hops apart")
    assert found["depth"][0].startswith("15 layers")


def test_molecules_go_by_their_smiles(gump: Call) -> None:
    pytest.importorskip("rdkit")
    found = table(gump("smiles:CC(=O)Oc1ccccc1C(=O)O").stdout)
    assert (found["num_nodes"][0], found["num_edges"][0], found["diameter"][0]) == ("13", "13", "6"), "aspirin, without hydrogen"
    assert gump(f"smiles:{'C' * 300}").exit_code == 0, "which would be too long for the name of a file"
    for smiles, message in [
        ("C(C", "'smiles' must be a molecule that RDKit understands (got 'C(C')"),
        ("", "must have an atom at least"),
    ]:
        result = gump(f"smiles:{smiles}")
        assert (result.exit_code, message in result.stderr, result.stderr.count("\n")) == (1, True, 1)


def test_without_rdkit_a_molecule_is_refused_with_the_way_to_get_it(gump: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    assert gump("smiles:CCO").stderr == "error: molecules need RDKit: pip install 'torch-gump[mol]'\n"


def test_real_datasets_go_by_their_names(gump: Call, data_root: Path) -> None:
    found = table(gump("MUTAG", "--sample", "20").stdout)
    assert found["verdict"][0].startswith("of 20 graphs measured, of 188, ")
    assert table(gump("tu:MUTAG", "--sample", "20").stdout)["verdict"] == found["verdict"]


def test_on_a_terminal_it_is_a_table_that_fits(gump: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    output = re.sub(r"\x1b\[[0-9;]*m", "", gump("Ring-8", "--index", "0").stdout)
    assert "spectral_gap" in output
    assert "\t" not in output
    assert max(map(len, output.splitlines())) <= 80
    assert "verdict  no bottleneck: any two vertices are within 4 hops" in output


def test_bad_input_is_refused_in_one_line(gump: Call, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("a b\n")
    (tmp_path / "lonely.txt").write_text("0 0\n")
    (tmp_path / "gaps.txt").write_text("0 999999999\n")
    (tmp_path / "slip.txt").write_text("0 99999999999\n")
    (tmp_path / "text.npz").write_text("0 1\n")
    (tmp_path / "empty.npz").write_bytes(b"")
    for arguments, message in [
        (["Rng-20"], "did you mean Ring-20?"),
        (["mutag"], "did you mean MUTAG?"),
        (["IMDB-BINARY"], "; for one of the TU collection say tu:IMDB-BINARY, for a molecule smiles:IMDB-BINARY)"),
        (["C1CC1(=O)"], "(got 'C1CC1(=O)', which is none of them; for a molecule say smiles:C1CC1(=O))"),
        (["nothing.txt"], "'graph' must be a file, tu:NAME, smiles:MOLECULE, or one of MUTAG,"),
        (["words.txt"], "must be a list of edges as text, two whole numbers"),
        (["lonely.txt"], "must have an edge between two vertices (got none on 1 vertex)"),
        (["gaps.txt"], "must have at most 100,000,000 vertices (got 1,000,000,000)"),
        (["slip.txt"], "slip.txt must have at most 100,000,000 vertices (got 100,000,000,000); number them from zero without gaps"),
        (["text.npz"], "text.npz must be an archive of arrays, as np.savez writes it (got something else)"),
        (["empty.npz"], "empty.npz must be an archive of arrays"),
        (
            ["Ring-99999999998"],
            "'graph' must be a transfer task of at most 1,000,000 vertices, Ring-1000000 (got 'Ring-99999999998')",
        ),
        (["CliquePath-2000000"], "'graph' must be a transfer task of at most 4,000 vertices, CliquePath-4000"),
        (["fake", "--index", "32"], "'index' must be from 0 to 31, the graphs of fake (got 32)"),
        (["fake", "--memory", "0"], "'--memory' must be a number of gigabytes above 0 (got 0.0)"),
        (["fake", "--memory", "inf"], "'--memory' must be a number of gigabytes above 0 (got inf)"),
        (["Ring-7"], "'num_nodes' must be even"),
    ]:
        result = gump(*arguments)
        assert result.exit_code == 1, result.output
        assert message in result.stderr
        assert result.stderr.startswith("error: ")
        assert len(result.stderr.splitlines()) == 1
