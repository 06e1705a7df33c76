"""Predictions against what a step takes."""

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from graphs import Graph, clique, path, random_graph, star
from torch.profiler import ProfilerActivity, profile
from torch_geometric.data import Batch

from gump import EulerianLineGraph
from gump.datasets import load_planetoid, load_tu
from gump.diagnostics.memory import KEEP, MORE_WITH_HUBS, STATES_PER_LAYER, memory
from gump.nn import GUMP, coin
from gump.nn.models.gump import CONVS


def measured_peak(function: Callable[[], object]) -> int:
    """The most bytes that tensors held at a time, of those allocated in the function."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        function()
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak


def check(
    x: torch.Tensor, edge_index: torch.Tensor, training: bool = True, num_layers: int = 4, width: int = 64, **settings: object
) -> None:
    torch.manual_seed(0)
    model = GUMP(x.size(1), width, num_layers, **settings)
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        with torch.set_grad_enabled(training):
            out = model(x, edge_index)
            if training:
                out.square().mean().backward()
                optimizer.step()

    step()
    optimizer.zero_grad()
    moments = [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    kept = sum(tensor.numel() * tensor.element_size() for tensor in [*model.parameters(), *moments])
    peak = kept + measured_peak(step)
    predicted = memory(edge_index, width, num_layers, training=training, in_channels=x.size(1), **settings).bytes
    assert peak / 1.3 < predicted < 1.3 * peak, f"{predicted / 1e6:.1f} MB predicted, {peak / 1e6:.1f} MB measured"


SMALL: dict[str, tuple[Graph, dict[str, object]]] = {
    "path": (path(2000), {}),
    "clique": (clique(30), {}),
    "dense star": (star(150), {"max_block": 150}),
    "star of one hub": (star(1500), {}),
    "hubs only": (clique(40), {"max_block": 8}),
    "narrow attention": (star(150), {"attention_channels": 8, "max_block": 150}),
    "hub of high rank": (star(1500), {"score_rank": 32}),
    "hubs of high rank only": (clique(40), {"max_block": 8, "score_rank": 32}),
    "deep": (path(300), {"num_layers": 12}),
    "mostly parameters": (path(10), {"width": 256}),
    "mostly parameters, gin": (path(10), {"width": 256, "conv": "gin"}),
    "mostly parameters, graph": (path(10), {"width": 256, "conv": "graph"}),
    "mostly parameters, gcnii": (path(10), {"width": 256, "conv": "gcnii"}),
    "hubs only, gcnii": (clique(40), {"max_block": 8, "conv": "gcnii"}),
    "gin": (path(2000), {"conv": "gin"}),
    "gcnii": (path(2000), {"conv": "gcnii"}),
    "graph": (path(2000), {"conv": "graph"}),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", SMALL)
def test_bytes_are_within_a_factor_of_what_is_measured(name: str, training: bool) -> None:
    (edge_index, num_nodes), settings = SMALL[name]
    check(torch.randn(num_nodes, 8), edge_index, training, **settings)


@pytest.mark.parametrize(("name", "batch_size"), [("NCI1", 64), ("PROTEINS", 16)])
def test_so_on_batches_of_real_graphs(name: str, batch_size: int, data_root: Path) -> None:
    batch = Batch.from_data_list(load_tu(name, data_root)[:batch_size])
    check(batch.x, batch.edge_index)
    check(batch.x, batch.edge_index, training=False)


@pytest.mark.parametrize("max_block", [256, 16])
def test_so_on_cora(max_block: int, data_root: Path) -> None:
    data = load_planetoid("Cora", data_root)[0]
    check(data.x, data.edge_index, max_block=max_block)


@pytest.mark.slow
@pytest.mark.parametrize("graph", [star(20_000), clique(150)], ids=["star", "attention that is not kept"])
def test_so_on_large_graphs(graph: Graph) -> None:
    check(torch.randn(graph[1], 8), graph[0])


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_those_of_the_line_graph_and_degrees_suffice(seed: int) -> None:
    edge_index, num_nodes = random_graph(seed)
    edge_index = torch.cat([edge_index, torch.tensor([[num_nodes - 1], [num_nodes - 1]])], dim=1)  # names the last vertex
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    degrees = line_graph.arcs[0].bincount(minlength=num_nodes)
    found = memory(edge_index, 16, 3)
    assert (found.num_nodes, found.num_arcs, found.num_transitions) == (num_nodes, line_graph.num_arcs, line_graph.num_transitions)
    assert memory(degrees, 16, 3).bytes == found.bytes
    assert found.num_hubs == 0
    few = memory(degrees, 16, 3, max_block=2)
    assert few.num_hubs == int((degrees > 2).sum())
    assert few.num_transitions == int(degrees[degrees <= 2].square().sum())


def test_a_star_of_a_hundred_thousand_leaves_is_foreseen_without_building_it() -> None:
    degrees = torch.cat([torch.tensor([100_000]), torch.ones(100_000, dtype=torch.long)])
    assert memory(degrees, 64, 4).bytes < 4e9 < 1e11 < memory(degrees, 64, 4, max_block=100_000).bytes


@pytest.mark.parametrize("training", [True, False])
def test_the_largest_max_block_that_fits_is_named(training: bool) -> None:
    degrees = torch.tensor([2000] * 3 + [700] * 5 + [30] * 40 + [1] * 1000)
    given = {"hidden_channels": 16, "num_layers": 2, "training": training}
    for budget in (10**8, 2 * 10**8, 10**9):
        best = memory(degrees, **given, budget=budget).fitting_max_block
        fits = {block: memory(degrees, **given, max_block=block).bytes <= budget for block in (1, 29, 30, 699, 700, 1999, 2000)}
        assert best == max((block for block, does in fits.items() if does), default=None)
    assert memory(degrees, **given, budget=10**12).fitting_max_block == 2000
    assert memory(degrees, **given, budget=1000).fitting_max_block is None


def test_more_of_anything_costs_more() -> None:
    degrees = torch.full((500,), 6)
    base = {"hidden_channels": 32, "num_layers": 4, "attention_channels": 16}
    for name in base:
        more = memory(degrees, **{**base, name: 2 * base[name]})
        assert more.bytes > memory(degrees, **base).bytes
        assert more.time_s > memory(degrees, **base).time_s > 0
    assert memory(degrees, **base).bytes > memory(degrees, **base, training=False).bytes


def test_a_graph_without_edges_costs_its_vertices() -> None:
    found = memory(torch.zeros(10, dtype=torch.long), 8, 2)
    assert (found.num_nodes, found.num_arcs, found.bytes) == (10, 0, 4 * 12 * 10 * 8 + 16 * found.num_parameters)


@pytest.mark.parametrize("conv", CONVS)
@pytest.mark.parametrize(("in_channels", "width", "num_layers", "attention"), [(7, 16, 3, 5), (1, 8, 1, 32), (1433, 64, 4, 32)])
def test_parameters_are_counted_as_the_model_has_them(
    conv: str, in_channels: int, width: int, num_layers: int, attention: int
) -> None:
    model = GUMP(in_channels, width, num_layers, conv=conv, attention_channels=attention)
    found = memory(torch.tensor([1, 1]), width, num_layers, conv=conv, attention_channels=attention, in_channels=in_channels)
    assert found.num_parameters == sum(p.numel() for p in model.parameters())


def test_adam_costs_memory_and_time_in_training_alone() -> None:
    degrees, given = torch.tensor([1, 1]), {"hidden_channels": 64, "num_layers": 2}
    for training, per_parameter in ((True, 16), (False, 4)):
        narrow, wide = (memory(degrees, **given, training=training, in_channels=n) for n in (1, 10**6))
        more = wide.num_parameters - narrow.num_parameters
        assert (more, wide.bytes - narrow.bytes) == (64 * (10**6 - 1), per_parameter * more)
        assert (wide.time_s > narrow.time_s) is training


def test_settings_are_those_of_the_model() -> None:
    """Facts that the prediction repeats, since diagnostics do not import models."""
    ours, theirs = inspect.signature(memory).parameters, inspect.signature(GUMP).parameters
    assert all(ours[name].default == theirs[name].default for name in ("max_block", "attention_channels", "score_rank", "conv"))
    assert set(STATES_PER_LAYER) == set(MORE_WITH_HUBS) == set(CONVS)
    assert coin.KEEP == KEEP


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'edge_index_or_degrees' must have shape \[2, num_edges\], or hold a whole number"):
        memory(torch.tensor([-1, 2]), 8, 2)
    with pytest.raises(ValueError, match=r"'num_layers' must be at least 1 \(got 0\)"):
        memory(torch.tensor([1, 1]), 8, 0)
    with pytest.raises(ValueError, match=r"'conv' must be one of gcn, gin, graph, gcnii \(got 'gat'\)"):
        memory(torch.tensor([1, 1]), 8, 2, conv="gat")
