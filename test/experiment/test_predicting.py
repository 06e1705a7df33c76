"""From weights and new data to a table of answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from fake_configs import TINY
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from gump.datasets import fake_dataset, load_smiles, load_tu, read_smiles
from gump.datasets.dataset import Dataset
from gump.experiment import predicting
from gump.experiment.config import make_configs
from gump.experiment.model import build_model
from gump.experiment.predicting import predict_data
from gump.experiment.registry import TRANSFORMS, code_of
from gump.experiment.trained import Trained, load_trained, save_trained

MOLECULES = ["CCO", "c1ccccc1", "[Na+]", "CC(=O)[O-].[Na+]", "CCCl", "CN", "C#N", "CCCCCCO"]
MODEL = TINY["model"] | {"edge_dim": 4}
FAKE = {"kind": "fake"}


def untrained(path: Path, data: Dataset, dataset: dict[str, Any], seed: int = 0, **tables: Any) -> Path:
    """Writes weights as a run leaves them, of a model that has not learned anything."""
    [config] = make_configs("test/tiny", TINY | {"dataset": dataset} | tables)
    torch.manual_seed(seed)
    save_trained(path, config.settings, data, build_model(config.settings, data).state_dict())
    return path


def of_molecules(path: Path, targets: str | list[str], task: str | None = None, seed: int = 0) -> Path:
    """Weights for a table with a column of every kind."""
    pytest.importorskip("rdkit")
    known = path.with_suffix(".csv")
    rows = [f"{smiles},{i / 2},{i % 2},{i // 2 % 2},{'abc'[i % 3]}xx" for i, smiles in enumerate(MOLECULES)]
    known.write_text("\n".join(["smiles,half,odd,even,word", *rows]))
    settings = {"path": str(known), "targets": targets, "task": task}
    return untrained(path, load_smiles(**settings), {"kind": "smiles"} | settings, seed, model=MODEL)


def rows_of(*arguments: Any, **more: Any) -> list[dict[str, str]]:
    found = predict_data(*arguments, device="cpu", **more)
    rows = [row for part in found.parts for row in part]
    assert len(rows) == found.num_rows
    return [dict(zip(found.columns, row, strict=True)) for row in rows]


def numbers_of(rows: list[dict[str, str]], start: str) -> torch.Tensor:
    return torch.tensor([[float(cell) for name, cell in row.items() if name.startswith(start)] for row in rows])


def graphs_of(molecules: Sequence[str]) -> list[Data]:
    return list(map(read_smiles, molecules))


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """New molecules with a name each and no targets, of which some are none."""
    path = tmp_path / "new.csv"
    cells = ["C1CC", *MOLECULES[:5], "", *MOLECULES[5:], "no molecule"]
    path.write_text("\n".join(["name,SMILES", *(f"m{i},{cell}" for i, cell in enumerate(cells))]))
    return path


def test_every_line_has_the_answer_of_the_weights_or_a_reason(tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = of_molecules(tmp_path / "w.pt", ["half", "odd"], "regression")
    monkeypatch.setattr(predicting, "READ_AT_ONCE", 5)
    monkeypatch.setattr(predicting, "AT_ONCE", 2)
    with pytest.warns(
        UserWarning, match=r"new.csv: 3 of 11 molecules have no answer \(lines 2, 8, 12\); the column 'reason' says why"
    ):
        rows = rows_of([weights], str(table))
    assert list(rows[0]) == ["name", "SMILES", "predicted_half", "predicted_odd", "reason"]
    assert [row["name"] for row in rows] == [f"m{i}" for i in range(11)]
    wrong = {row["name"]: row["reason"] for row in rows if row["reason"]}
    assert wrong == {
        "m0": "'smiles' must be a molecule that RDKit understands (got 'C1CC')",
        "m6": "'smiles' must have an atom at least (got '')",
        "m10": "'smiles' must be a molecule that RDKit understands (got 'no molecule')",
    }
    assert {row["predicted_half"] for row in rows if row["reason"]} == {""}
    answered = [row for row in rows if not row["reason"]]
    assert [row["SMILES"] for row in answered] == MOLECULES
    assert close(numbers_of(answered, "predicted_"), load_trained(weights)(graphs_of(MOLECULES)))


def test_classes_have_their_names_and_a_probability_each(tmp_path: Path, table: Path) -> None:
    weights = of_molecules(tmp_path / "w.pt", "word")
    with pytest.warns(UserWarning, match="3 of 11"):
        rows = [row for row in rows_of([weights], str(table)) if not row["reason"]]
    assert list(rows[0])[2:-1] == ["predicted", "probability_axx", "probability_bxx", "probability_cxx"]
    out = load_trained(weights)(graphs_of(MOLECULES))
    assert close(numbers_of(rows, "probability_"), out.exp() / out.exp().sum(1, keepdim=True))
    assert [row["predicted"] for row in rows] == [("axx", "bxx", "cxx")[i] for i in out.argmax(1)]


@pytest.mark.parametrize("targets", ["odd", ["odd", "even"]])
def test_labels_have_a_probability_each(tmp_path: Path, table: Path, targets: Any) -> None:
    weights = of_molecules(tmp_path / "w.pt", targets)
    with pytest.warns(UserWarning, match="3 of 11"):
        rows = [row for row in rows_of([weights], str(table)) if not row["reason"]]
    assert list(rows[0])[2:-1] == [f"probability_{name}" for name in ([targets] if targets == "odd" else targets)]
    out = load_trained(weights)(graphs_of(MOLECULES))
    assert close(numbers_of(rows, "probability_"), 1 / (1 + (-out).exp()))


@pytest.mark.parametrize("targets", ["half", "word"])
def test_answers_of_several_weights_are_averaged_with_their_spread(tmp_path: Path, targets: str) -> None:
    table = tmp_path / "new.csv"
    table.write_text("\n".join(["smiles", *MOLECULES]))
    (tmp_path / "several").mkdir()
    files = [of_molecules(tmp_path / f"several/{seed}.pt", targets, seed=seed) for seed in range(3)]
    word = "predicted_" if targets == "half" else "probability_"
    each = np.stack([numbers_of(rows_of([file], str(table)), word) for file in files])
    assert each.std(0).min() > 0
    for weights in (files, [tmp_path / "several"], [files[2], tmp_path / "several"]):
        rows = rows_of(weights, str(table))
        np.testing.assert_allclose(numbers_of(rows, word), each.mean(0), rtol=1e-4)
        np.testing.assert_allclose(numbers_of(rows, "spread_"), each.std(0, ddof=1), rtol=1e-2)
        if targets == "word":
            assert [row["predicted"] for row in rows] == [("axx", "bxx", "cxx")[i] for i in each.mean(0).argmax(1)]


def test_the_column_of_smiles_is_the_one_of_the_training_or_the_one_that_is_named(tmp_path: Path) -> None:
    weights, table = of_molecules(tmp_path / "w.pt", "half"), tmp_path / "new.tsv"
    table.write_text("first\tsecond\nCCO\tCN\n")
    [row] = rows_of([weights], str(table), smiles="second")
    assert close(numbers_of([row], "predicted_"), load_trained(weights)(graphs_of(["CN"])))
    with pytest.raises(ValueError, match=r"'smiles' must be a column of .*new.tsv \(got 'smiles'; there are: 'first', 'second'\)"):
        rows_of([weights], str(table))
    state = torch.load(weights)
    state["settings"]["dataset"]["smiles"] = "first"
    torch.save(state, weights)
    [row] = rows_of([weights], str(table))
    assert close(numbers_of([row], "predicted_"), load_trained(weights)(graphs_of(["CCO"])))


def test_a_molecule_that_a_transform_cannot_take_does_not_lose_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdkit")
    known = tmp_path / "known.csv"
    known.write_text("smiles,y\nCCCCO,0.5\nCCCCN,1.5\n")
    dataset = load_smiles(known)
    for graph in dataset:
        graph.x = torch.cat([graph.x, torch.zeros(graph.num_nodes, 3)], dim=1)  # as the transform leaves it
    transform = [{"kind": "AddLaplacianEigenvectorPE", "k": 3, "is_undirected": True}]
    settings = {"kind": "smiles", "path": str(known)}
    weights = untrained(tmp_path / "w.pt", dataset, settings, transform=transform, model=MODEL)
    table = tmp_path / "new.csv"
    table.write_text("smiles\nCCCCO\nC\nCCCCCl\nCCCCBr\n")
    monkeypatch.setattr(predicting, "AT_ONCE", 2)
    with pytest.warns(UserWarning, match=r"1 of 4 molecules have no answer \(line 3\)"):
        rows = rows_of([weights], str(table))
    assert [bool(row["predicted_y"]) for row in rows] == [True, False, True, True]
    trained, graphs = load_trained(weights), graphs_of(["CCCCO", "CCCCCl", "CCCCBr"])
    expected = torch.cat([trained(graphs[:1]), trained(graphs[1:], first=2)])  # signs of eigenvectors go by the place
    assert close(numbers_of([rows[0], *rows[2:]], "predicted_"), expected)
    assert rows[1]["reason"].startswith("cannot be transformed by AddLaplacianEigenvectorPE ("), (
        "without the number that it has among the readable ones"
    )


class Picky(BaseTransform):
    """Leaves graphs as they are, refuses single vertices, and keeps count."""

    seen: ClassVar[list[int]] = []

    def forward(self, data: Data) -> Data:
        self.seen.append(data.num_nodes)
        if data.num_nodes == 1:
            raise RuntimeError("it is alone")
        return data


class Rootless(BaseTransform):
    """Needs a package that there is not."""

    def forward(self, data: Data) -> Data:
        raise ModuleNotFoundError("No module named 'roots'")


@pytest.fixture
def picky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Weights of four models with a picky transform, of which two are alike, a third has no line graph, and a fourth is so twice."""
    pytest.importorskip("rdkit")
    for transform in (Picky, Rootless):
        monkeypatch.setitem(TRANSFORMS, transform.__name__, transform)
    monkeypatch.setattr(Picky, "seen", [])
    (tmp_path / "known.csv").write_text("smiles,y\nCCCCO,0.5\nCCCCN,1.5\n")
    settings = {"kind": "smiles", "path": str(tmp_path / "known.csv")}
    data, plain = load_smiles(settings["path"]), {"kind": "MPNN", "hidden_channels": 4, "num_layers": 2}
    tables: list[dict[str, Any]] = [{"model": MODEL}, {"model": MODEL}, {"model": plain}, {"model": MODEL}]
    for number, table in enumerate(tables):
        table["transform"] = [{"kind": "Picky"}] * (2 if number == 3 else 1)
    return [untrained(tmp_path / f"{i}.pt", data, settings, seed=i, **table) for i, table in enumerate(tables)]


def test_models_that_take_graphs_alike_share_what_was_made_of_them(tmp_path: Path, picky: list[Path]) -> None:
    (tmp_path / "new.csv").write_text("\n".join(["smiles", *MOLECULES[3:]]))
    rows = rows_of(picky, str(tmp_path / "new.csv"))
    sizes = [graph.num_nodes for graph in graphs_of(MOLECULES[3:])]
    assert Picky.seen == [size for size in sizes for _ in range(4)], "once for two of them"
    each = torch.stack([load_trained(path)(graphs_of(MOLECULES[3:])).double() for path in picky])
    assert [row["predicted_y"] for row in rows] == [f"{mean:.7g}" for mean in each.mean(0).squeeze(1).tolist()]
    assert [row["spread_y"] for row in rows] == [f"{std:.7g}" for std in each.std(0).squeeze(1).tolist()]


def test_beside_a_molecule_without_an_answer_the_others_stay_in_one_batch(
    tmp_path: Path, picky: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new.csv").write_text("smiles\nCCO\nC\nCCN\nCCCl\nO\n")
    batches, answer = [], Trained.answer
    monkeypatch.setattr(Trained, "answer", lambda self, ready: batches.append(len(ready)) or answer(self, ready))
    with pytest.warns(UserWarning, match=r"2 of 5 molecules have no answer \(lines 3, 6\)"):
        rows = rows_of(picky[:2], str(tmp_path / "new.csv"))
    wrong = "cannot be transformed by Picky (it is alone)"
    assert [row["reason"] for row in rows] == ["", wrong, "", "", wrong]
    assert [bool(row["predicted_y"]) for row in rows] == [True, False, True, True, False]
    assert (batches, Picky.seen) == ([3, 3], [3, 1, 3, 3, 1])


def test_a_molecule_that_a_model_refuses_does_not_lose_the_others(
    tmp_path: Path, picky: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new.csv").write_text("smiles\nCCO\nCCCC\nCCN\n")
    expected = rows_of(picky[:1], str(tmp_path / "new.csv"))
    Picky.seen.clear()
    answer = Trained.answer

    def refuse(self: Trained, ready: Sequence[Data]) -> torch.Tensor:
        if any(graph.num_nodes == 4 for graph in ready):
            raise ValueError("'x' must have another number of rows (got 4)")
        return answer(self, ready)

    monkeypatch.setattr(Trained, "answer", refuse)
    with pytest.warns(UserWarning, match=r"1 of 3 molecules have no answer \(line 3\)"):
        rows = rows_of(picky[:1], str(tmp_path / "new.csv"))
    assert [row["reason"] for row in rows] == ["", "'x' must have another number of rows (got 4)", ""]
    assert close(numbers_of(rows[::2], "predicted_"), numbers_of(expected[::2], "predicted_"))
    assert Picky.seen == [3, 4, 3], "nothing is transformed again"


def test_a_reason_has_no_number_of_a_graph_which_the_table_does_not_know(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    known = tmp_path / "known.csv"
    known.write_text("smiles,y\nCCCCO,0.5\nCCCCN,1.5\n")
    dataset = load_smiles(known)
    for graph in dataset:
        graph.x = torch.cat([graph.x, torch.zeros(graph.num_nodes, 1)], dim=1)  # as the transform leaves it
    transform = [{"kind": "AddLaplacianEigenvectorPE", "k": 1, "is_undirected": True}]
    weights = untrained(tmp_path / "w.pt", dataset, {"kind": "smiles", "path": str(known)}, transform=transform, model=MODEL)
    (tmp_path / "new.csv").write_text("smiles\nCCO\nC\n")
    with pytest.warns(UserWarning, match=r"1 of 2 molecules have no answer \(line 3\)"):
        rows = rows_of([weights], str(tmp_path / "new.csv"))
    assert rows[1]["reason"] == "must have 10 columns in 'x' after transforms, as those of known have (got shape [1, 9])"


def test_a_package_that_a_transform_lacks_is_no_reason_of_a_molecule(tmp_path: Path, picky: list[Path]) -> None:
    (tmp_path / "new.csv").write_text("smiles\nCCO\n")
    state = torch.load(picky[0])
    state["settings"]["transform"] = [{"kind": "Rootless", "when": "once"}]
    torch.save({**state, "code": code_of(state["settings"])}, picky[0])
    with pytest.raises(ModuleNotFoundError, match="No module named 'roots'"):
        rows_of(picky, str(tmp_path / "new.csv"))


def test_graphs_of_a_dataset_are_numbered_and_answered_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = fake_dataset()
    weights = untrained(tmp_path / "w.pt", data, FAKE)
    monkeypatch.setattr(predicting, "AT_ONCE", 5)
    rows = rows_of([weights], "fake")
    assert list(rows[0]) == ["graph", "predicted", "probability_0", "probability_1", "probability_2"]
    assert [row["graph"] for row in rows] == [str(i) for i in range(32)]
    out = load_trained(weights)(list(data))
    assert close(numbers_of(rows, "probability_"), out.softmax(1))
    assert [row["predicted"] for row in rows] == [str(i) for i in out.argmax(1).tolist()]


def test_vertices_of_an_archive_of_arrays_have_an_answer_each(tmp_path: Path) -> None:
    data = fake_dataset(level="node")
    weights = untrained(tmp_path / "w.pt", data, FAKE | {"level": "node"})
    x, edges = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([[0, 1], [1, 2]])
    np.savez(tmp_path / "own.npz", x=x, edge_index=edges)
    rows = rows_of([weights], str(tmp_path / "own.npz"))
    assert [(row["graph"], row["vertex"]) for row in rows] == [("0", "0"), ("0", "1"), ("0", "2")]
    graph = Data(x=torch.from_numpy(x), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    assert close(numbers_of(rows, "probability_"), load_trained(weights)([graph]).softmax(1))


def test_a_folder_in_the_format_of_tu_is_read_as_that_of_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUMP_DATA", str(tmp_path))
    parts = {"A": "1, 2\n2, 1\n3, 4\n4, 3\n", "graph_indicator": "1\n1\n2\n2\n", "graph_labels": "3\n5\n"}
    parts |= {"node_labels": "0\n1\n1\n0\n", "node_attributes": "0.5\n1\n2\n4\n"}
    for name in ("MINE", "NEW", "my.v2"):
        (tmp_path / name / "raw").mkdir(parents=True)
        for part, text in (parts if name != "NEW" else parts | {"graph_labels": "0\n0\n"}).items():
            (tmp_path / name / "raw" / f"{name}_{part}.txt").write_text(text)
    data = load_tu("MINE", use_node_attr=True)
    weights = untrained(tmp_path / "w.pt", data, {"kind": "tu", "name": "MINE", "use_node_attr": True})
    for name in ("NEW", "tu:NEW", "my.v2", "tu:my.v2"):
        rows = rows_of([weights], name)
        assert close(numbers_of(rows, "probability_"), load_trained(weights)(list(data)).softmax(1))
        assert list(rows[0]) == ["graph", "predicted", "probability_3", "probability_5"]
        assert {row["predicted"] for row in rows} <= {"3", "5"}
    for name in ("gone.npz", "my.v2/gone.npz"):
        with pytest.raises(ValueError, match=rf"'graph' must be a file, .* \(got '{name}', which is none of them"):
            rows_of([weights], name)


@pytest.mark.parametrize("name", ["smiles:CCO", "smiles:C/C=C/C", "fake", "Ring-20", "Cora", "ogbg-molhiv"])
def test_weights_of_the_tu_collection_take_no_names_of_other_graphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("gump.datasets.raw.urllib.request.urlopen", lambda *_, **__: pytest.fail("asks the network"))
    weights = untrained(tmp_path / "w.pt", fake_dataset(), {"kind": "tu", "name": "MUTAG"})
    with pytest.raises(
        ValueError, match=rf"'data' must be graphs like those of fake, .* \(got '{name}', which is of another kind\)"
    ):
        rows_of([weights], name)


def test_cells_stay_as_they_are_and_answers_have_a_decimal_point(tmp_path: Path) -> None:
    weights, table = of_molecules(tmp_path / "w.pt", "half"), tmp_path / "new.csv"
    table.write_text("smiles;mass\nCCO;46,07\n;\nCN;31,06\n")
    rows = rows_of([weights], str(table))
    assert [row["mass"] for row in rows] == ["46,07", "31,06"], "and no row for the empty line"
    assert close(numbers_of(rows, "predicted_"), load_trained(weights)(graphs_of(["CCO", "CN"])))


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("smiles\nCCO\n")
    (tmp_path / "taken.csv").write_text("smiles,predicted_half\nCCO,1\n")
    (tmp_path / "new.smi").write_text("CCO\n")
    np.savez(tmp_path / "own.npz", edge_index=np.array([[0], [1]]), x=np.ones((2, 3)))
    (tmp_path / "none").mkdir()
    graphs, molecules = untrained(tmp_path / "graphs.pt", fake_dataset(), FAKE), of_molecules(tmp_path / "molecules.pt", "half")
    links = untrained(tmp_path / "links.pt", fake_dataset(level="link"), FAKE | {"level": "link"}, protocol={"kind": "links"})
    for weights, data, message in [
        (
            [graphs],
            "new.csv",
            r"'data' must be graphs like those of fake, which the weights .* \(got '.*new.csv', a table of molecules\)",
        ),
        ([graphs], "own.npz", r"graph 0 must have 4 columns in 'x' after transforms, as those of fake have \(got shape \[2, 3\]\)"),
        ([molecules], "own.npz", r"'path' must end in .csv, .csv.gz, .tsv or .tsv.gz \(got '.*own.npz'\)"),
        ([molecules], "new.smi", r"'path' must end in .csv"),
        ([molecules], "taken.csv", r"taken.csv must leave the columns of the answers free \(got one called 'predicted_half'\)"),
        (
            [molecules, graphs],
            "new.csv",
            r"'weights' must answer one question, .* \(got regression of graphs, half and multiclass of",
        ),
        ([links], "own.npz", r"'weights' must answer about graphs or vertices \(got links\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            rows_of(weights, str(tmp_path / data))
    with pytest.raises(
        FileNotFoundError, match=r"'weights' must be files of weights, .* \(got '.*none', in which there are none\)"
    ):
        rows_of([tmp_path / "none"], str(tmp_path / "new.csv"))
    with pytest.raises(FileNotFoundError, match=r"'path' must be a table, .* \(got '.*gone.csv', which is no file\)"):
        rows_of([molecules], str(tmp_path / "gone.csv"))
    with pytest.raises(ValueError, match=r"'device' must be one that this machine has \(got 'quantum'\)"):
        predict_data([graphs], "fake", device="quantum")
