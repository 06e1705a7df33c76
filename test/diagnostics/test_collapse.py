"""How alike states become: by hand, against slow computations, and through the layers of models."""

import math

import pytest
import torch
from graphs import SYMMETRIC, Graph, barbell, grid, path, random_graph
from torch_geometric.nn import GCN, GCNConv, SAGEConv, SimpleConv
from torch_geometric.utils import to_undirected

from gump import EulerianLineGraph
from gump.diagnostics.collapse import arc_dirichlet_energy, collapse_by_layer, dirichlet_energy, mean_cosine, rank_one_distance
from gump.nn import ADGN, GCNII, GPS, GUMP, MPNN, NodePredictor, UnitaryGCN

GRAPHS = SYMMETRIC | {f"random {seed}": random_graph(seed) for seed in range(3)}


def both_ways(graph: Graph) -> Graph:
    return to_undirected(graph[0], num_nodes=graph[1]), graph[1]


def states(num_rows: int, width: int = 4) -> torch.Tensor:
    return torch.randn(num_rows, width, generator=torch.Generator().manual_seed(num_rows)).double()


@pytest.mark.parametrize("name", GRAPHS)
def test_energy_is_the_sum_over_edges_and_over_transitions(name: str) -> None:
    edge_index, num_nodes = GRAPHS[name]
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    x, h = states(num_nodes), states(line_graph.num_arcs)
    over_edges = sum(float((x[u] - x[v]).square().sum()) / 2 for u, v in line_graph.arcs.t().tolist())
    over_transitions = sum(float((h[a] - h[b]).square().sum()) / 2 for a, b in line_graph.transitions().t().tolist())
    assert float(dirichlet_energy(x, line_graph.arcs)) == pytest.approx(over_edges)
    assert float(arc_dirichlet_energy(h, line_graph)) == pytest.approx(over_transitions)


def test_energy_is_the_quadratic_form_of_the_laplacian() -> None:
    edge_index, num_nodes = both_ways(barbell(4))
    adjacency = torch.zeros(num_nodes, num_nodes, dtype=torch.double).index_put(
        (edge_index[0], edge_index[1]), torch.tensor(1.0).double()
    )
    x = states(num_nodes)
    laplacian = adjacency.sum(1).diag() - adjacency
    assert float(dirichlet_energy(x, edge_index)) == pytest.approx(float((x.t() @ laplacian @ x).trace()))


@pytest.mark.parametrize("shape", [(9, 4), (3, 7), (5, 5), (1, 3)])
def test_distance_and_cosine_are_those_of_slow_obvious_computations(shape: tuple[int, int]) -> None:
    h = torch.randn(shape, generator=torch.Generator().manual_seed(0)).double()
    sigma = torch.linalg.svdvals(h).square()
    assert float(rank_one_distance(h)) == pytest.approx(float(1 - sigma[0] / sigma.sum()), abs=1e-12)
    pairs = [torch.cosine_similarity(h[i], h[j], dim=0) for i in range(len(h)) for j in range(len(h)) if i != j]
    if pairs:
        assert float(mean_cosine(torch.cat([h, torch.zeros_like(h[:2])]))) == pytest.approx(float(torch.stack(pairs).mean()))
    else:
        assert mean_cosine(h).isnan()


def test_states_that_are_all_one_vector_are_collapsed_whatever_their_lengths() -> None:
    h = torch.tensor([[1.0], [-2.0], [5.0]]) * torch.tensor([[1.0, 2.0, 3.0]])
    assert float(rank_one_distance(h.double())) == pytest.approx(0, abs=1e-12)
    assert float(mean_cosine(h.abs())) == pytest.approx(1)
    assert float(rank_one_distance(torch.zeros(3, 2))) == 0


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
@pytest.mark.parametrize("model", [GUMP(3, 8, 2, norm=None, base_norm=None), MPNN(3, 8, 2)], ids=["arcs", "vertices"])
def test_states_that_are_no_numbers_are_not_called_collapsed(model: torch.nn.Module, broken: float) -> None:
    edge_index, num_nodes = grid(3, 3)
    x = torch.randn(num_nodes, 3, generator=torch.Generator().manual_seed(0))
    x[4, 1] = broken
    state = collapse_by_layer(model, x, edge_index)[0]
    assert not math.isfinite(state.energy)
    assert all(math.isnan(value) for value in (state.roughness, state.rank_one_distance, state.mean_cosine))


def test_a_deep_gcn_collapses_and_the_signal_on_arcs_keeps_its_energy() -> None:
    """Linear layers without weights: GCN's operator takes all states to one direction, the walk takes none away."""
    edge_index, num_nodes = both_ways(grid(4, 4))
    x = states(num_nodes).float()
    torch.manual_seed(0)
    settings = {"norm": None, "base_norm": None, "act": torch.nn.Identity(), "base": None}
    gcn = collapse_by_layer(GCN(4, 4, 60, act=torch.nn.Identity(), bias=False), x, edge_index)
    gump = collapse_by_layer(GUMP(4, 8, 60, coin="grover", orthogonal_weights=True, **settings), x, edge_index)
    assert len(gcn) == len(gump) == 61
    assert gcn[-1].rank_one_distance < 1e-3 < 0.3 < gcn[0].rank_one_distance
    assert gcn[-1].mean_cosine ** 2 > 0.99
    assert gump[-1].energy == pytest.approx(gump[1].energy, rel=1e-3)
    assert gump[-1].rank_one_distance > 0.3
    assert gump[-1].roughness > 0.3


def test_what_is_measured_is_what_goes_into_each_layer() -> None:
    edge_index, num_nodes = both_ways(grid(3, 3))
    x = states(num_nodes).float()
    model = GCN(4, 5, 3, norm="batch_norm", dropout=0.5).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    in_training = collapse_by_layer(model, x, edge_index)
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    found = collapse_by_layer(model.eval(), x, edge_index)
    assert in_training[1].energy > 2 * found[1].energy, "in training the norm divides by the spread of these states"
    model.requires_grad_(False)
    h, expected = x, [x]
    for conv, norm in zip(model.convs, model.norms, strict=True):
        expected.append(conv(h, edge_index))
        h = torch.relu(norm(expected[-1]))
        expected[-1] = h if len(expected) < 4 else expected[-1]
    assert [layer.energy for layer in found] == pytest.approx([float(h.square().sum()) for h in expected], rel=1e-5)
    assert [layer.dirichlet_energy for layer in found] == pytest.approx(
        [float(dirichlet_energy(h, edge_index)) for h in expected], rel=1e-5
    )
    assert 0 <= min(layer.roughness for layer in found) <= max(layer.roughness for layer in found) <= 2


def test_the_arcs_of_gump_are_compared_along_transitions() -> None:
    edge_index, num_nodes = both_ways(path(2))  # as many arcs as vertices
    x = states(num_nodes).float()
    model = GUMP(4, 6, 2, norm=None, base=None)
    found = collapse_by_layer(model, x, edge_index)
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    start = model.start(x, edge_index)
    h = start.x.detach()[line_graph.arcs].transpose(0, 1).flatten(1)
    assert found[0].energy == pytest.approx(float(h.square().sum()), rel=1e-5)
    assert found[0].dirichlet_energy == pytest.approx(float(arc_dirichlet_energy(h, line_graph)), rel=1e-5)
    assert collapse_by_layer(GUMP(4, 6, 2, directed=True), x, torch.tensor([[0], [1]]))[2].energy >= 0


@pytest.mark.parametrize("model", [MPNN(4, 8, 3), GCNII(4, 8, 3), UnitaryGCN(4, 8, 3), GPS(4, 8, 3), GUMP(4, 8, 3, conv="gin")])
def test_any_model_with_a_list_of_layers_is_measured(model: torch.nn.Module) -> None:
    edge_index, num_nodes = both_ways(grid(3, 3))
    found = collapse_by_layer(model, states(num_nodes).float(), edge_index)
    assert len(found) == 4
    assert all(layer.energy > 0 and 0 <= layer.rank_one_distance < 1 for layer in found)


@pytest.mark.parametrize("name", SYMMETRIC)
def test_relabeling_changes_nothing(name: str) -> None:
    edge_index, num_nodes = both_ways(SYMMETRIC[name])
    label = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(0))
    x, model = states(num_nodes), GUMP(4, 6, 3, norm=None).double()
    before, after = collapse_by_layer(model, x, edge_index), collapse_by_layer(model, x[label.argsort()], label[edge_index])
    for old, new in zip(before, after, strict=True):
        assert vars(new) == pytest.approx(vars(old), abs=1e-9)


def test_layers_can_be_named_and_must_be_there() -> None:
    edge_index, num_nodes = both_ways(path(4))
    x, model = states(num_nodes).float(), ADGN(4, 8, 3)
    assert len(collapse_by_layer(model, x, edge_index, layers=[model.encoder])) == 2
    with pytest.raises(ValueError, match=r"'layers' must be modules of 'model' \(got others\)"):
        collapse_by_layer(model, x, edge_index, layers=[torch.nn.Linear(1, 1)])
    with pytest.raises(ValueError, match=r"'model' must have its layers in 'convs' or 'layers' \(got SimpleConv\)"):
        collapse_by_layer(SimpleConv(), x, edge_index)


def test_energy_does_not_depend_on_how_often_an_edge_is_listed() -> None:
    edge_index, num_nodes = grid(3, 3)
    x, model = states(num_nodes), MPNN(4, 8, 2).double()
    once, twice = dirichlet_energy(x, edge_index), dirichlet_energy(x, both_ways((edge_index, num_nodes))[0])
    assert torch.allclose(once, twice)
    assert torch.allclose(dirichlet_energy(x, torch.cat([edge_index, edge_index], dim=1)), twice)
    first = [collapse_by_layer(model, x, edges)[0] for edges in (edge_index, both_ways((edge_index, num_nodes))[0])]
    assert vars(first[0]) == pytest.approx(vars(first[1]))


@pytest.mark.parametrize("shared", [True, False])
def test_every_step_of_an_antisymmetric_network_is_a_layer(shared: bool) -> None:
    edge_index, num_nodes = both_ways(grid(3, 3))
    torch.manual_seed(0)
    model, x = ADGN(4, 8, 5, shared=shared).double(), states(num_nodes)
    found = collapse_by_layer(model, x, edge_index)
    assert len(found) == 6
    for depth in range(6) if shared else ():
        shallow = ADGN(4, 8, max(depth, 1), shared=True).double()
        shallow.load_state_dict(model.state_dict())
        state = shallow(x, edge_index) if depth else shallow.encoder(x)
        assert found[depth].energy == pytest.approx(state.square().sum().item())


class Named(torch.nn.Module):
    """Two layers that are called in a way of their own."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.convs = way, torch.nn.ModuleList([SAGEConv(4, 4), SAGEConv(4, 4)])

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        for conv in self.convs:
            if self.way == "keywords":
                x = conv(edge_index=edge_index, x=x)
            else:
                x = conv({"plain": x, "pair": (x, x), "other": (2 * x, x), "one": (x, None)}[self.way], edge_index)
        return x


def test_layers_may_be_called_by_keyword_or_with_a_pair() -> None:
    edge_index, num_nodes = both_ways(grid(3, 3))
    x, plain = states(num_nodes).float(), Named("plain")
    expected = collapse_by_layer(plain, x, edge_index)
    for way in ("keywords", "pair"):
        model = Named(way)
        model.load_state_dict(plain.state_dict())
        assert collapse_by_layer(model, x, edge_index) == expected, way
    assert collapse_by_layer(Named("other"), x, edge_index)[0] == expected[0], "the second of a pair are the states of targets"
    assert collapse_by_layer(Named("one"), x, edge_index)[0] == expected[0]


def test_layers_without_states_or_calls_are_refused() -> None:
    edge_index, num_nodes = both_ways(path(4))

    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.pool, self.unused = GCNConv(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.flat = torch.nn.Flatten(0)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return self.flat(self.pool(self.conv(x, edge_index).mean(0, keepdim=True)))

    x, model = states(num_nodes).float(), Odd()
    for layers, message in [
        ([model.unused], r"'layers' must be called when 'model' runs \(got none that was\)"),
        ([model.pool], r"'layers' must have a state for each of the 4 vertices \(got 1\)"),
        ([model.conv, model.flat], r"'layers' must take and return states first, a row for each vertex or arc \(got \[4\]\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            collapse_by_layer(model, x, edge_index, layers=layers)


@pytest.mark.parametrize(("dtype", "spread"), [(torch.float32, 1e-5), (torch.float64, 1e-11)])
def test_states_that_are_nearly_equal_have_the_energy_of_their_differences(dtype: torch.dtype, spread: float) -> None:
    edge_index, num_nodes = grid(4, 5)
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    apart = (states(line_graph.num_arcs) * spread).to(dtype)
    near = 1 + apart
    exact = arc_dirichlet_energy(near.double() - 1, line_graph)
    assert float(arc_dirichlet_energy(near, line_graph)) == pytest.approx(float(exact), rel=1e-2)
    one_vector = torch.ones(20, 1, dtype=dtype) * torch.tensor([[1.0, 2.0]], dtype=dtype)
    tilted = one_vector + spread * torch.tensor([[2.0, -1.0]], dtype=dtype) * torch.linspace(-1, 1, 20, dtype=dtype)[:, None]
    expected = spread**2 * float(torch.linspace(-1, 1, 20).square().mean())
    assert float(rank_one_distance(tilted)) == pytest.approx(expected, rel=0.05)
    assert (
        min(layer.dirichlet_energy for layer in collapse_by_layer(GUMP(1, 8, 4, base=None), torch.ones(num_nodes, 1), edge_index))
        >= 0
    )


def test_layers_inside_of_a_predictor_and_a_line_graph_of_ones_own() -> None:
    edge_index, num_nodes = both_ways(path(5))
    x, model = states(num_nodes).float(), GUMP(4, 6, 2, norm=None, base_norm=None)
    alone = collapse_by_layer(model, x, edge_index)
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    assert collapse_by_layer(model, x, edge_index, line_graph=line_graph) == alone
    assert collapse_by_layer(NodePredictor(model, 3), x, edge_index, layers=list(model.convs)) == alone
