import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.io import read_tu_data
from torch_geometric.loader import DataLoader

from gump import EulerianLineGraph
from gump.datasets import load_tu, tu

BLOCKS = {"MUTAG": (3371, 4), "PROTEINS": (43466, 25), "ENZYMES": (19474, 9), "NCI1": (122319, 4), "NCI109": (122020, 5)}
"""The paper's table of blocks: their number and the largest degree."""

GRAPHS = {"MUTAG": 188, "PROTEINS": 1113, "ENZYMES": 600, "NCI1": 4110, "NCI109": 4127}

TWO = "must have 2 whole numbers with commas between them in every line"


def write(root: Path, **files: str) -> Path:
    """Two graphs, an edge and a triangle, with vertex labels 3 and 5."""
    folder = root / "TINY" / "raw"
    folder.mkdir(parents=True)
    edges = [(1, 2), (2, 1), (3, 4), (4, 3), (4, 5), (5, 4), (3, 5), (5, 3)]
    parts = {
        "A": "".join(f"{u}, {v}\n" for u, v in edges),
        "graph_indicator": "1\n1\n2\n2\n2\n",
        "graph_labels": "-1\n1\n",
        "node_labels": "3\n5\n3\n3\n5\n",
        "node_attributes": "0.5, 1.5\n1.5, 2.5\n2.5, 3.5\n3.5, 4.5\n4.5, 5.5\n",
        "edge_labels": "0\n0\n1\n1\n0\n0\n2\n2\n",
    }
    for part, text in (parts | files).items():
        if text:
            (folder / f"TINY_{part}.txt").write_text(text)
    return folder


def test_two_graphs_by_hand(tmp_path: Path) -> None:
    write(tmp_path)
    dataset = load_tu("TINY", tmp_path)
    edge, triangle = dataset
    assert (edge.num_nodes, triangle.num_nodes) == (2, 3)
    assert edge.edge_index.tolist() == [[0, 1], [1, 0]]
    assert (edge.y.item(), triangle.y.item()) == (0, 1)
    assert triangle.x.argmax(1).tolist() == [0, 0, 2]
    assert triangle.edge_index.tolist() == [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]
    assert triangle.edge_attr.argmax(1).tolist() == [1, 2, 1, 0, 2, 0]
    assert repr(dataset) == "Dataset('TINY', 2 graphs, multiclass of graphs, num_targets=2)"
    assert dataset.num_features == 3
    assert dataset.target_names == ("-1", "1")


def test_attributes_come_first_where_they_are_wanted(tmp_path: Path) -> None:
    write(tmp_path)
    edge = load_tu("TINY", tmp_path, use_node_attr=True)[0]
    assert edge.x.tolist() == [[0.5, 1.5, 1, 0, 0], [1.5, 2.5, 0, 0, 1]]


def test_attributes_that_are_not_there_are_refused(tmp_path: Path) -> None:
    write(tmp_path, node_attributes="")
    with pytest.raises(
        ValueError, match=r"'use_node_attr' must be false for TINY, which has no TINY_node_attributes.txt \(got true\)"
    ):
        load_tu("TINY", tmp_path, use_node_attr=True)


def test_without_labels_features_are_one(tmp_path: Path) -> None:
    write(tmp_path, node_labels="", edge_labels="", node_attributes="")
    for graph in load_tu("TINY", tmp_path):
        assert graph.x.equal(torch.ones(graph.num_nodes, 1))
        assert graph.edge_attr is None


def test_attributes_that_are_all_there_is_and_not_read_are_told(tmp_path: Path) -> None:
    write(tmp_path, node_labels="")
    for _ in range(2):  # also from the cache
        with pytest.warns(UserWarning, match="TINY has attributes of its vertices and no labels; 'use_node_attr' reads them"):
            assert load_tu("TINY", tmp_path)[0].x.equal(torch.ones(2, 1))
    assert load_tu("TINY", tmp_path, use_node_attr=True)[0].x.tolist() == [[0.5, 1.5], [1.5, 2.5]]


def test_attributes_of_edges_are_not_read_and_that_is_told(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "TINY/raw/TINY_edge_attributes.txt").write_text("0.5\n" * 8)
    with pytest.warns(UserWarning, match=r"TINY_edge_attributes.txt is not read: edges have their labels alone"):
        load_tu("TINY", tmp_path)


def test_without_classes_it_is_a_regression(tmp_path: Path) -> None:
    write(tmp_path, graph_labels="", graph_attributes="0.5, 1\n2, 3\n")
    dataset = load_tu("TINY", tmp_path)
    assert (dataset.task, dataset.num_targets) == ("regression", 2)
    assert dataset[1].y.tolist() == [[2.0, 3.0]]


def test_classes_are_named_by_their_labels_also_from_the_cache(tmp_path: Path) -> None:
    write(tmp_path, graph_labels="10\n2\n")
    for _ in range(2):
        dataset = load_tu("TINY", tmp_path)
        assert (dataset.target_names, [int(graph.y) for graph in dataset]) == (("2", "10"), [1, 0])


def test_a_single_class_is_refused_where_something_is_to_be_learned(tmp_path: Path) -> None:
    write(tmp_path, graph_labels="4\n4\n")
    message = r"TINY_graph_labels.txt must have two classes at least, to be told apart \(got 4 in every line\)"
    for _ in range(2):  # also from the cache
        with pytest.raises(ValueError, match=message):
            load_tu("TINY", tmp_path)
    assert load_tu("TINY", tmp_path, one_class=True).target_names == ("4",)


@pytest.mark.parametrize(
    ("part", "labels", "got"),
    [
        ("node_labels", [0, 2_000_000_000, 1, 0, 0], r"3 different ones from 0 to 2000000000 in line 2"),
        ("node_labels", [7, 7, 7, 7, 1007], r"2 different ones from 7 to 1007 in line 5"),
        (
            "node_labels",
            [-(2**63), 0, 0, 2**63 - 1, 0],
            r"3 different ones from -9223372036854775808 to 9223372036854775807 in line 4",
        ),
        ("edge_labels", [200_000] + 7 * [0], r"2 different ones from 0 to 200000 in line 1"),
    ],
)
def test_labels_with_large_gaps_are_refused(part: str, labels: list[int], got: str, tmp_path: Path) -> None:
    write(tmp_path, **{part: "".join(f"{label}\n" for label in labels)})
    with pytest.raises(ValueError, match=rf"TINY_{part}.txt must have labels without large gaps, .* \(got {got}\); number them"):
        load_tu("TINY", tmp_path)


def test_many_labels_may_have_gaps_in_proportion(tmp_path: Path) -> None:
    n = 300
    tree = "".join(f"1, {v}\n{v}, 1\n" for v in range(2, n))
    files = {"A": f"{tree}{n}, {n}\n", "graph_indicator": "1\n" * (n - 1) + "2\n", "node_attributes": "", "edge_labels": ""}
    write(tmp_path, **files, node_labels="".join(f"{10 * v}\n" for v in range(n)))
    assert load_tu("TINY", tmp_path).num_features == 10 * n - 9


def test_files_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    folder = write(tmp_path)
    plain = load_tu("TINY", tmp_path)
    for path in folder.iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    marked = load_tu("TINY", tmp_path)
    assert marked[1].x.equal(plain[1].x)
    assert marked[1].edge_index.equal(plain[1].edge_index)


def test_loops_go_repeated_edges_merge_and_isolated_vertices_stay(tmp_path: Path) -> None:
    write(tmp_path, A="1, 2\n2, 1\n3, 4\n4, 3\n4, 3\n3, 4\n3, 3\n", edge_labels="")
    triangle = load_tu("TINY", tmp_path)[1]
    assert triangle.edge_index.tolist() == [[0, 1], [1, 0]]
    assert triangle.num_nodes == 3


def test_nothing_is_written(tmp_path: Path) -> None:
    write(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    load_tu("TINY", tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    monkeypatch.setenv("GUMP_DATA", str(tmp_path))
    assert len(load_tu("TINY")) == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "TINY_graph_indicator.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"TINY_graph_indicator.txt is missing\); put its raw files under"):
        load_tu("TINY", tmp_path)
    with pytest.raises(FileNotFoundError, match="'OTHER' is not in"):
        load_tu("OTHER", tmp_path)


def test_a_missing_dataset_is_named_with_the_place_for_it(tmp_path: Path) -> None:
    message = (
        rf"'NCI1' is not in {tmp_path} and could not be downloaded \(no network\); put its raw files under {tmp_path}/NCI1/raw"
    )
    with pytest.raises(FileNotFoundError, match=message):
        load_tu("NCI1", tmp_path)
    with pytest.raises(FileNotFoundError, match="or set GUMP_DATA to the folder that holds NCI1"):
        load_tu("NCI1")
    with pytest.raises(FileNotFoundError, match=r"'NCI1' is not in .*, which is no folder"):
        load_tu("NCI1", tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"'name' must be the name of a folder \(got '../TINY'\)"):
        load_tu("../TINY", tmp_path)


def test_missing_answers_are_named(tmp_path: Path) -> None:
    write(tmp_path, graph_labels="")
    with pytest.raises(FileNotFoundError, match=r"TINY_graph_labels.txt is missing"):
        load_tu("TINY", tmp_path)


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        (
            "A",
            "1, 2\n2, 1\n3, 4\n3, 5\n5, 3\n" + 3 * "5, 4\n",
            r"TINY_A.txt must list every edge in both orientations \(got \(3, 4\) in line 3",
        ),
        ("A", "1, 2\n2, 1\n3, 4\n4,\n", rf"TINY_A.txt {TWO} \(got '4,' in line 4\)"),
        ("A", "1, 2\n2, 1\n3, 4\n4\n", rf"TINY_A.txt {TWO} \(got '4' in line 4\)"),
        ("A", "1\n2\n", rf"TINY_A.txt {TWO} \(got '1' in line 1\)"),
        (
            "A",
            "1, 2\n2, 1\n3, 6\n6, 3\n",
            r"TINY_A.txt must name vertices from 1 to 5, as TINY_graph_indicator.txt has lines \(got \(3, 6\) in line 3\)",
        ),
        (
            "A",
            "1, 2\n2, 1\n0, 3\n3, 0\n",
            r"TINY_A.txt must name vertices from 1 to 5, as TINY_graph_indicator.txt has lines \(got \(0, 3\) in line 3\)",
        ),
        (
            "A",
            "1, 3\n3, 1\n",
            r"TINY_A.txt must join vertices that are of one graph by TINY_graph_indicator.txt \(got \(1, 3\) in line 1\)",
        ),
        ("A", "1, 2\n2, 1\n", r"TINY_edge_labels.txt must have a line for each edge of TINY_A.txt, 2 \(got 8\)"),
        ("A", "1, 2\n2, 1\n3, x\n", rf"TINY_A.txt {TWO} \(got '3, x' in line 3\)"),
        ("A", "1, 2\n\n2, 1\n", rf"TINY_A.txt {TWO} \(got nothing in line 2\)"),
        ("A", "", "TINY_A.txt"),
        (
            "graph_indicator",
            "1\n1\n2\n2\n",
            r"TINY_node_labels.txt must have a line for each vertex of TINY_graph_indicator.txt, 4 \(got 5\)",
        ),
        ("graph_indicator", "1\n1\n2\n2\n2", "TINY_graph_indicator.txt must end with a line break, as its siblings do"),
        (
            "graph_indicator",
            "1\n1\n3\n3\n3\n",
            r"TINY_graph_indicator.txt must count the graphs from 1 without gaps \(got 3 in line 3\)",
        ),
        ("graph_indicator", "2\n2\n2\n2\n2\n", r"count the graphs from 1 without gaps \(got 2 in line 1\)"),
        ("graph_indicator", "1\n2\n1\n2\n2\n", r"count the graphs from 1 without gaps \(got 1 in line 3\)"),
        ("graph_labels", "-1\n", r"TINY_graph_labels.txt must have a line for each graph of TINY_graph_indicator.txt, 2 \(got 1\)"),
        (
            "graph_labels",
            "-1\n1\n1\n",
            r"TINY_graph_labels.txt must have a line for each graph of TINY_graph_indicator.txt, 2 \(got 3\)",
        ),
        ("graph_labels", "-1\n1.5\n", r"TINY_graph_labels.txt must have a whole number in every line \(got '1.5' in line 2\)"),
        ("node_labels", "3\n5\n3\n3\n", r"TINY_node_labels.txt must have a line for each vertex .*, 5 \(got 4\)"),
        (
            "node_attributes",
            "1, 2\n1, 2\n1, 2\n1, 2\n1\n",
            r"TINY_node_attributes.txt must have 2 finite numbers with commas between them in every line \(got '1' in line 5\)",
        ),
        (
            "node_attributes",
            "1\n1\nnan\n1\n1\n",
            r"TINY_node_attributes.txt must have a finite number in every line \(got 'nan' in line 3\)",
        ),
        ("node_attributes", "1\n1\n1\n1\n", "TINY_node_attributes.txt must have a line for each vertex"),
        ("edge_labels", "0\n0\n", r"TINY_edge_labels.txt must have a line for each edge of TINY_A.txt, 8 \(got 2\)"),
        ("node_labels", "3\n5\n3\n3\n\0\n", r"TINY_node_labels.txt must have a whole number in every line \(got .* in line 5\)"),
    ],
)
def test_a_damaged_file_is_named(part: str, text: str, message: str, tmp_path: Path) -> None:
    counted = message.startswith("TINY_edge_labels")
    folder = write(tmp_path) if counted else write(tmp_path, edge_labels="")
    load_tu("TINY", tmp_path)  # the whole files are in the cache now, which must not hide the damage
    (folder / f"TINY_{part}.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        load_tu("TINY", tmp_path)


def test_every_cut_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    """Cuts every file after every byte. Only both orientations of last edges can go unnoticed, where no other file counts the edges."""
    folder, unnoticed = write(tmp_path, edge_labels=""), []
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        for length in range(len(content)):
            path.write_bytes(content[:length])
            message = refusal(tmp_path)
            if not message:
                unnoticed.append(content[:length].decode())
            else:
                assert path.name in message
        path.write_bytes(content)
    assert unnoticed == ["1, 2\n2, 1\n3, 4\n4, 3\n", "1, 2\n2, 1\n3, 4\n4, 3\n4, 5\n5, 4\n"]


def refusal(root: Path) -> str:
    try:
        load_tu("TINY", root, cache=False, use_node_attr=True)
    except ValueError as error:
        return str(error)
    return ""


def test_with_labels_on_edges_no_cut_goes_unnoticed(tmp_path: Path) -> None:
    folder = write(tmp_path)
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        for length in range(len(content)):
            path.write_bytes(content[:length])
            assert path.name in refusal(tmp_path)
        path.write_bytes(content)


def test_files_that_all_lack_the_last_line_break_are_whole(tmp_path: Path) -> None:
    folder = write(tmp_path)
    whole = load_tu("TINY", tmp_path)[1]
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes().rstrip())
    assert load_tu("TINY", tmp_path)[1].edge_index.equal(whole.edge_index)


def test_what_looks_cut_off_is_read_if_one_says_so(tmp_path: Path) -> None:
    folder = write(tmp_path, A="1, 2\n2, 1\n3, 4\n", edge_labels="")
    with pytest.raises(ValueError, match=r"\(got \(3, 4\) in line 3 in one\): .* you must pass strict=False"):
        load_tu("TINY", tmp_path)
    assert load_tu("TINY", tmp_path, strict=False)[1].edge_index.tolist() == [[0], [1]]
    (folder / "TINY_A.txt").write_text("1, 2\n2, 1\n")
    with pytest.raises(ValueError, match=r"TINY_A.txt must have an edge of the last graph, 2: .* you must pass strict=False"):
        load_tu("TINY", tmp_path)
    assert load_tu("TINY", tmp_path, strict=False)[1].num_edges == 0


def test_a_changed_file_is_noticed_in_spite_of_the_cache(tmp_path: Path) -> None:
    folder = write(tmp_path)
    assert load_tu("TINY", tmp_path)[0].y.item() == 0
    (folder / "TINY_graph_labels.txt").write_text("1\n-1\n")
    assert load_tu("TINY", tmp_path)[0].y.item() == 1


def test_download(tmp_path: Path, network_of_files: Callable[[dict[str, Path]], list[str]], own_cache_and_no_network: Path) -> None:
    folder = write(tmp_path)
    archive = tmp_path / "TINY.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in folder.iterdir():
            file.write(path, f"TINY/{path.name}")
    asked = network_of_files({tu.URL.format(name="TINY"): archive})
    here = tmp_path / "here"
    here.mkdir()
    assert len(load_tu("TINY", here)) == 2
    assert not list(here.iterdir())
    assert sorted(p.name for p in (own_cache_and_no_network / "raw" / "TINY" / "raw").iterdir()) == sorted(
        p.name for p in folder.iterdir()
    )
    assert len(load_tu("TINY")) == 2
    assert asked == ["https://www.chrsmrrs.com/graphkerneldatasets/TINY.zip"]  # once
    with pytest.raises(FileNotFoundError, match=r"could not be downloaded \(the server answered 404\)"):
        load_tu("OTHER")


def test_a_broken_download_leaves_nothing(
    tmp_path: Path, network_of_files: Callable[[dict[str, Path]], list[str]], own_cache_and_no_network: Path
) -> None:
    archive = tmp_path / "TINY.zip"
    archive.write_bytes(b"<html>no such file</html>")
    network_of_files({tu.URL.format(name="TINY"): archive})
    with pytest.raises(FileNotFoundError, match=r"could not be downloaded \(File is not a zip file\)"):
        load_tu("TINY")
    assert not list((own_cache_and_no_network / "raw").iterdir())


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_and_largest_degree_are_the_papers(name: str, data_root: Path) -> None:
    graphs = load_tu(name, data_root)
    assert len(graphs) == GRAPHS[name]
    offset = torch.tensor([0] + [g.num_nodes for g in graphs]).cumsum(0)
    edge_index = torch.cat([g.edge_index + first for g, first in zip(graphs, offset[:-1], strict=True)], dim=1)
    line_graph = EulerianLineGraph.from_edge_index(edge_index, int(offset[-1]))
    assert (line_graph.num_blocks, line_graph.max_degree) == BLOCKS[name]
    assert line_graph.num_transitions == int(edge_index[0].bincount().square().sum())


@pytest.mark.parametrize("cache", [None, False])
@pytest.mark.parametrize("name", ["MUTAG", "ENZYMES"])
def test_equals_what_pyg_reads(name: str, cache: bool | None, data_root: Path) -> None:
    data, slices, sizes = read_tu_data(str(data_root / name / "raw"), name)
    for _ in range(2):  # the second time from the cache
        plain, full = (
            load_tu(name, data_root, cache),
            load_tu(name, data_root, cache, use_node_attr=sizes["num_node_attributes"] > 0),
        )
    batch = next(iter(DataLoader(full, batch_size=len(full))))
    assert batch.x.equal(data.x)
    assert batch.y.equal(data.y)
    assert torch.cat([graph.x for graph in plain]).equal(data.x[:, sizes["num_node_attributes"] :])
    assert torch.cat([graph.edge_index for graph in full], dim=1).equal(data.edge_index)
    assert np.cumsum([0] + [graph.num_edges for graph in full]).tolist() == slices["edge_index"].tolist()
    assert (data.edge_attr is None) == ("edge_attr" not in batch)
    assert data.edge_attr is None or batch.edge_attr.equal(data.edge_attr)


@pytest.mark.parametrize("part", ["A", "edge_labels", "graph_indicator", "graph_labels", "node_labels"])
def test_altered_files_of_mutag_are_named(part: str, data_root: Path, tmp_path: Path) -> None:
    shutil.copytree(data_root / "MUTAG", tmp_path / "MUTAG", copy_function=shutil.copyfile)
    load_tu("MUTAG", tmp_path)
    path = tmp_path / "MUTAG" / "raw" / f"MUTAG_{part}.txt"
    content = path.read_bytes()
    middle = content.index(b"1", len(content) // 2)
    for damaged in (
        content[:-1],
        content[: len(content) // 2],
        content[:middle] + b"2" + content[middle + 1 :],
        content + b"1\n",
        b"",
    ):
        path.chmod(0o644)
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=rf"MUTAG_{part}.txt must be the published file, with SHA-256"):
            load_tu("MUTAG", tmp_path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=rf"MUTAG_{part}.txt is missing"):
        load_tu("MUTAG", tmp_path)
