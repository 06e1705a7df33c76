import importlib
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fake_configs import tiny_config, tiny_tables
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE, AddRandomWalkPE, BaseTransform, Compose

from gump import EulerianLineGraph
from gump.datasets import fake_dataset, workers
from gump.experiment import preprocess
from gump.experiment.config import make_configs
from gump.experiment.preprocess import Preparation, TransformedGraphs, _flat, _graphs, prepare

WALKS: dict[str, Any] = {"kind": "AddRandomWalkPE", "walk_length": 3, "attr_name": "none"}
SIGNS: dict[str, Any] = {"kind": "AddLaplacianEigenvectorPE", "k": 2}
ONE = torch.ones(1, 1)


def settings(*transforms: dict[str, Any], **dataset: Any) -> dict[str, Any]:
    return make_configs("a", tiny_tables(dataset=dataset) | {"transform": list(transforms)})[0].settings


def assert_same(one: list[Data], other: list[Data]) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert set(a.keys()) == set(b.keys())
        assert a.num_nodes == b.num_nodes
        for key, value in a:
            assert type(value) is type(b[key]), key
            if isinstance(value, Tensor):
                assert (value.dtype, value.shape) == (b[key].dtype, b[key].shape), key
                assert np.array_equal(value.numpy(), b[key].numpy(), equal_nan=value.is_floating_point()), key
            else:
                assert value == b[key], key


def cache_files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.npz")}


def test_without_transforms_the_dataset_is_as_it_is_and_nothing_is_kept(own_cache: Path) -> None:
    assert_same(prepare(settings(), False).graphs, fake_dataset(num_graphs=20, num_nodes=6).graphs)
    assert not cache_files(own_cache)


@pytest.mark.parametrize("level", ["graph", "source", "node"])
def test_what_comes_from_the_cache_is_what_was_put_there(own_cache: Path, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = settings(WALKS, SIGNS, level=level, edge_features=True)
    fresh = prepare(tables, True)
    assert len(cache_files(own_cache)) == 1
    monkeypatch.setattr(preprocess, "_apply", lambda *_: pytest.fail("transformed again"))
    kept = prepare(tables, True)
    assert_same(fresh.graphs, kept.graphs)
    assert (fresh.name, fresh.level, fresh.num_targets, fresh.num_features) == (kept.name, kept.level, kept.num_targets, 4 + 3 + 2)
    plain = fake_dataset(level, num_graphs=20, num_nodes=6, edge_features=True)
    assert kept[0].y.equal(plain[0].y)
    assert EulerianLineGraph.from_data(kept[0]).arcs.equal(
        EulerianLineGraph.from_edge_index(plain[0].edge_index, plain[0].num_nodes).arcs
    )


def test_other_data_settings_and_code_are_other_files(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variants = [
        (settings(WALKS), False),
        (settings(WALKS), True),
        (settings(WALKS | {"walk_length": 4}), False),
        (settings(WALKS, seed=1), False),
        (settings(WALKS, WALKS), False),
    ]
    for number, (tables, line_graph) in enumerate(variants, 1):
        prepare(tables, line_graph)
        assert len(cache_files(own_cache)) == number
    for tables, line_graph in variants:
        prepare(tables, line_graph)
    assert len(cache_files(own_cache)) == len(variants)
    monkeypatch.setattr(preprocess, "_code", lambda chain: "another version")
    prepare(*variants[0])
    assert len(cache_files(own_cache)) == len(variants) + 1


def test_the_code_of_transforms_is_told_apart_by_all_that_they_may_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gump.__file__", str(tmp_path / "__init__.py"))
    seen = {preprocess._code([])}
    for number, path in enumerate(("transforms/a.py", "linalg/b.py", "line_graph.py", "transforms/deep/c.py"), 2):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"# {path}")
        seen.add(preprocess._code([]))
        assert len(seen) == number


def test_what_a_transform_of_somebody_else_made_is_not_taken_after_it_has_changed(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))

    def features(value: int) -> float:
        (tmp_path / "theirs.py").write_text(
            "from torch_geometric.transforms import BaseTransform\n\n\nclass Fill(BaseTransform):\n"
            f"    def forward(self, data):\n        data.x = data.x * 0 + {value}\n        return data\n"
        )
        monkeypatch.delitem(sys.modules, "theirs", raising=False)
        importlib.invalidate_caches()
        monkeypatch.setitem(preprocess.TRANSFORMS, "Fill", importlib.import_module("theirs").Fill)
        return float(prepare(settings({"kind": "Fill", "when": "once"}), line_graph=False)[0].x[0, 0])

    assert [features(1), features(22)] == [1, 22]  # of another size: a file of equal size and time is taken for compiled already
    assert len(cache_files(own_cache)) == 2
    assert features(22) == 22
    assert len(cache_files(own_cache)) == 2


def test_what_is_random_about_a_transform_repeats_and_leaves_the_random_state_alone(own_cache: Path) -> None:
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    one = prepare(settings(SIGNS), False)
    assert torch.rand(2).equal(expected)
    next(own_cache.rglob("*.npz")).unlink()
    torch.manual_seed(5)
    assert_same(one.graphs, prepare(settings(SIGNS), False).graphs)


@pytest.mark.parametrize(
    "start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)]
)  # a spawned process imports torch for seconds
def test_several_processes_make_the_same_graphs(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "get_context", lambda _: get_context(start))
    tables = settings(SIGNS, num_graphs=10)
    alone = prepare(tables, True)
    ticks = iter(range(0, 10_000, 2))  # every look at the clock is two seconds later
    monkeypatch.setattr(preprocess, "cached", lambda cache, name, key, files, build: build())
    monkeypatch.setattr(preprocess, "WORTH_PROCESSES_S", 0)
    monkeypatch.setattr(preprocess, "CHUNK", 5)
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    chunks: list[int] = []
    real = preprocess._graphs
    monkeypatch.setattr(preprocess, "_graphs", lambda arrays: chunks.append(len(arrays["num_nodes"])) or real(arrays))
    shared = prepare(tables, True)
    assert chunks == [5, 4, 10]
    assert_same(alone.graphs, shared.graphs)


def test_a_process_that_is_lost_while_graphs_are_transformed_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise BrokenProcessPool("A process in the process pool was terminated abruptly")

    ticks = iter(range(0, 10_000, 2))
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor.map", broken)
    with pytest.raises(ChildProcessError, match=r"one of \d+ processes was ended from outside"):
        prepare(settings(WALKS), False)


def test_late_transforms_are_applied_on_request_and_only_what_comes_before_them_is_kept(own_cache: Path) -> None:
    late = {"when": "batch"}
    whole = prepare(settings(WALKS, SIGNS), True)
    found = prepare(settings(WALKS, SIGNS | late), True)
    assert isinstance(found.graphs, TransformedGraphs)
    assert_same(found[:], whole[:])
    assert_same([found[-1]], [whole[-1]])
    assert_same(found[3:5], whole[3:5])
    assert found.num_features == whole.num_features
    files = cache_files(own_cache)
    assert len(files) == 2
    prepare(settings(WALKS), False)
    assert cache_files(own_cache) == files, "what comes before is what it would be alone"
    assert_same(prepare(settings(WALKS | late, SIGNS), True)[:], whole[:])
    assert cache_files(own_cache) == files, "what comes after a late one is late"
    with pytest.raises(IndexError):
        found[len(found)]


@pytest.mark.parametrize("categorical", [False, True])
def test_new_graphs_are_prepared_as_those_of_the_dataset(categorical: bool) -> None:
    tables = settings(WALKS, SIGNS, categorical=categorical)
    preparation = Preparation(tables, line_graph=True, categories=categorical)
    new = fake_dataset(num_graphs=20, num_nodes=6, categorical=categorical)
    assert_same([preparation(graph, number) for number, graph in enumerate(new)], prepare(tables, True)[:])
    assert new[0].x.is_floating_point() != categorical, "it stays as it was"


def test_preparations_that_make_the_same_have_one_key() -> None:
    same = [settings(WALKS, SIGNS), settings(WALKS, SIGNS, seed=1), settings(WALKS, SIGNS | {"when": "batch"})]
    other = [settings(), settings(WALKS), settings(SIGNS, WALKS), settings(WALKS | {"walk_length": 4}, SIGNS)]
    assert len({Preparation(tables, False, False).key for tables in same}) == 1
    assert len({Preparation(tables, False, False).key for tables in [*same, *other]}) == 1 + len(other)
    assert len({Preparation(same[0], line, categories).key for line in (False, True) for categories in (False, True)}) == 4
    assert Preparation(other[0], True, False).key == Preparation(other[0], True, True).key, "categories stay if nothing is appended"


@pytest.mark.parametrize("error", [ModuleNotFoundError("no pymetis"), MemoryError("short"), torch.OutOfMemoryError("short")])
def test_a_fault_of_the_machine_is_not_put_down_to_the_graph(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    preparation = Preparation(settings(WALKS), False, False)

    def fail(*_: Any) -> Data:
        raise error

    monkeypatch.setattr(AddRandomWalkPE, "forward", fail)
    with pytest.raises(type(error), match=f"^{error}$"):
        preparation(fake_dataset()[0])
    for when in ("once", "batch"):
        with pytest.raises(type(error), match=f"^{error}$"):
            prepare(settings(WALKS | {"when": when}), False)[0]
    error = KeyError("x")
    with pytest.raises(ValueError, match=r"^graph 3 cannot be transformed by AddRandomWalkPE \('x'\)$"):
        preparation(fake_dataset()[0], 3)


class Picky(BaseTransform):
    """Fails without a word on the graph of that number, or gives it another width."""

    def __init__(self, number: int, how: str = "fail") -> None:
        self.number, self.how = number, how

    def forward(self, data: Data) -> Data:
        if torch.initial_seed() == self.number:  # which is what a graph's random numbers go by
            if self.how == "fail":
                raise AssertionError
            data.x = data.x[:, :2]
        return data


@pytest.mark.parametrize("when", ["once", "batch"])
def test_a_graph_that_a_transform_does_not_take_is_named_with_it(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(preprocess.TRANSFORMS, "Picky", Picky)
    message = r"^graph 7 cannot be transformed by Picky \(AssertionError\); leave it out of the data, or give the transform another setting$"
    with pytest.raises(ValueError, match=message):
        prepare(settings(WALKS, {"kind": "Picky", "number": 7, "when": when}, SIGNS), True)[:]


class Forgetful(BaseTransform):
    """Does not say what came of it."""

    def forward(self, data: Data) -> None:
        data.x = 2 * data.x


@pytest.mark.parametrize("when", ["once", "batch"])
def test_a_transform_that_returns_no_graph_is_named(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(preprocess.TRANSFORMS, "Forgetful", Forgetful)
    with pytest.raises(ValueError, match=r"^graph 0 cannot be transformed by Forgetful \(it returned None and no graph\)"):
        prepare(settings({"kind": "Forgetful", "when": when}), True)[:]


@pytest.mark.parametrize("when", ["once", "batch"])
def test_a_graph_that_a_transform_makes_unlike_the_others_is_named(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(preprocess.TRANSFORMS, "Picky", Picky)
    picky = {"kind": "Picky", "how": "cut", "when": when}
    for number, got in (
        (7, r"\[\*, 2\] on graph 7, and shape \[\*, 4\] on graph 0"),
        (0, r"\[\*, 4\] on graph 1, and shape \[\*, 2\] on graph 0"),
    ):
        with pytest.raises(
            ValueError, match=rf"^'x' must be alike in all graphs, to be joined \(got shape {got}\); leave one of them out"
        ):
            prepare(settings(picky | {"number": number}), True)[:]


def test_vertices_without_eigenvectors_are_told_in_our_words() -> None:
    small = Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0, dtype=torch.long))
    path = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    chain = Compose([AddLaplacianEigenvectorPE(1, attr_name=None, is_undirected=True)])
    with pytest.raises(
        ValueError, match=r"^'x' must be alike .* \(got shape \[\*, 1\] on graph 1, and shape \[\*, 2\] on graph 0\)"
    ):
        _flat(preprocess._apply(chain, [path, small]))
    chain = Compose([AddLaplacianEigenvectorPE(3, attr_name=None, is_undirected=True)])
    with pytest.raises(ValueError, match=r"^graph 1 cannot be transformed by AddLaplacianEigenvectorPE \(.+\); leave it out"):
        preprocess._apply_chunk(chain, _flat([path]), 1)


def test_transforms_must_not_see_links_that_are_asked_about() -> None:
    with pytest.raises(ValueError, match="'transform' must be empty where links are asked about"):
        prepare(settings(WALKS, level="link"), False)
    assert "arc_index" not in prepare(tiny_config(dataset={"level": "link"}).settings, True)[0]


def odd_graphs() -> list[Data]:
    """Attributes of every kind, of sizes that differ from graph to graph."""
    graphs = []
    for n in (2, 5, 3):
        graph = Data(x=torch.randn(n, 2), edge_index=torch.randint(n, (2, 2 * n)), edge_attr=torch.randn(2 * n).bfloat16().float())
        graph.y, graph.mask, graph.source_index = torch.tensor([[0.5, torch.nan]]), torch.rand(n) > 0.5, torch.tensor([n - 1])
        graph.matrix, graph.double, graph.small = torch.randn(1, 3, 3), torch.randn(n).double(), torch.arange(n, dtype=torch.int8)
        graph.wide, graph.none = torch.tensor([2**40 + n, -1]), torch.empty(0, 4)
        graph.size, graph.share, graph.name, graph.good = n, n / 7, f"graph {n}", n > 2
        graphs.append(graph)
    return graphs


def test_flat_arrays_hold_attributes_of_every_kind(own_cache: Path) -> None:
    graphs = odd_graphs()
    arrays = _flat(graphs)
    assert all(array.dtype.kind in "biufU" for array in arrays.values())
    assert_same(graphs, _graphs(arrays))
    kept = preprocess.cached(own_cache, "odd", {}, [], lambda: arrays)
    kept = preprocess.cached(own_cache, "odd", {}, [], lambda: pytest.fail("not kept"))
    assert_same(graphs, _graphs(kept))


def test_graphs_without_features_keep_their_number_of_vertices() -> None:
    graphs = [Data(edge_index=torch.tensor([[0], [1]]), num_nodes=n) for n in (4, 2)]
    assert [graph.num_nodes for graph in _graphs(_flat(graphs))] == [4, 2]


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ([Data(x=ONE, t=torch.tensor(1.0))], r"'t' must be a tensor that can be joined with those of other graphs"),
        ([Data(x=ONE, t=object())], r"'t' must be a tensor, a number or a string \(got <object"),
        (
            [Data(x=ONE), Data(x=ONE, t=1)],
            r"'t' must be alike .* \(got a number on graph 1, and none on graph 0\)",
        ),
        (
            [Data(x=ONE, t=torch.ones(1)), Data(x=ONE, t=1.5)],
            r"'t' must be alike .* \(got a number on graph 1, and shape \[\*\] on graph 0\)",
        ),
        (
            [Data(x=ONE, t=1), Data(x=ONE, t=1.5), Data(x=ONE, t="a")],
            r"'t' must be alike .* \(got a string on graph 2, and a number on graph 0\)",
        ),
        (
            [Data(x=ONE, t=torch.ones(2, 3)), Data(x=ONE, t=torch.ones(2))],
            r"'t' must .* \(got shape \[\*\] on graph 1, and shape \[\*, 3\] on graph 0\)",
        ),
    ],
)
def test_what_cannot_be_flat_is_refused(graphs: list[Data], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _flat(graphs)


def test_encodings_appended_to_categories_are_not_cut_to_whole_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUMP_CACHE", str(tmp_path))
    tables = {
        "dataset": {"kind": "fake", "categorical": True},
        "transform": [{"kind": "AddRandomWalkPE", "walk_length": 3, "attr_name": "none"}],
        "protocol": {"kind": "fresh"},
        "model": {"kind": "MPNN", "hidden_channels": 4, "num_layers": 1},
    }
    dataset = prepare(make_configs("x", tables)[0].settings, line_graph=False)
    numeric = torch.cat([graph.x for graph in dataset])[:, len(dataset.x_sizes) :]
    assert numeric.shape[1] == 3
    assert bool(((numeric > 0) & (numeric < 1)).any())
