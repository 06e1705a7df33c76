import networkx as nx
import pytest
import torch
from graphs import SYMMETRIC, path, random_graph, ring
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from gump.diagnostics.distances import hop_distances
from gump.diagnostics.jacobian import distant_pair, jacobian, jacobian_by_depth, jacobian_norm
from gump.nn import GUMP, MPNN, DRewGCN, UnitaryGCN
from gump.transforms import AddHops

MODELS = {
    "GUMP": lambda depth: GUMP(3, 8, depth),
    "GCN": lambda depth: MPNN(3, 8, depth),
    "UnitaryGCN": lambda depth: UnitaryGCN(3, 8, depth),
}


def nearly(model: torch.nn.Module, x: Tensor, edge_index: Tensor, source: int, target: int) -> Tensor:
    """Central differences."""
    columns = []
    for channel in range(x.size(1)):
        up, down = x.clone(), x.clone()
        up[source, channel] += 1e-5
        down[source, channel] -= 1e-5
        columns.append((model(up, edge_index)[target] - model(down, edge_index)[target]) / 2e-5)
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize("name", MODELS)
def test_it_is_what_finite_differences_say(name: str) -> None:
    edge_index, num_nodes = path(5)
    edge_index = to_undirected(edge_index)
    torch.manual_seed(0)
    model, x = MODELS[name](5).double().eval(), torch.randn(num_nodes, 3).double()
    exact = jacobian(model, x, edge_index, source=0, target=3)
    with torch.no_grad():
        assert torch.allclose(exact, nearly(model, x, edge_index, 0, 3), atol=1e-8)
    assert jacobian_norm(model, x, edge_index, 0, 3) == pytest.approx(torch.linalg.svdvals(exact)[0].item())
    assert exact.abs().max() > 1e-6


def test_it_is_the_power_of_the_operator_by_hand() -> None:
    edge_index, num_nodes = ring(5)
    weight = torch.randn(3, 3, dtype=torch.float64)
    adjacency = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    adjacency[edge_index[0], edge_index[1]] = 1

    def model(x: Tensor, edge_index: Tensor) -> Tensor:
        return adjacency @ adjacency @ x @ weight

    found = jacobian(model, torch.randn(num_nodes, 3).double(), edge_index, source=2, target=0)
    assert torch.allclose(found, weight.t())
    assert jacobian_norm(model, torch.randn(num_nodes, 3).double(), edge_index, source=1, target=0) == 0


@pytest.mark.parametrize("name", ["GUMP", "GCN"])
def test_too_few_layers_see_nothing_and_enough_do(name: str) -> None:
    edge_index, x = to_undirected(path(9)[0]), torch.randn(9, 3, generator=torch.Generator().manual_seed(0)).double()
    norms = jacobian_by_depth(lambda depth: MODELS[name](depth).double().eval(), (2, 12), x, edge_index, 0, 8, seeds=(0, 1))
    assert norms.shape == (2, 2)
    assert (norms[0] == 0).all()
    assert (norms[1] > 0).all()
    assert norms[1, 0] != norms[1, 1]


def test_other_inputs_go_by_name() -> None:
    data = AddHops(3)(Data(x=torch.randn(4, 3).double(), edge_index=to_undirected(path(4)[0])))
    hops = {"hop_index": data.hop_index, "hop_distance": data.hop_distance}
    assert jacobian_norm(DRewGCN(3, 8, 3, act="tanh").double(), data.x, data.edge_index, 0, 3, **hops) > 0
    assert jacobian_norm(DRewGCN(3, 8, 2, act="tanh").double(), data.x, data.edge_index, 0, 3, **hops) == 0


@pytest.mark.parametrize("name", SYMMETRIC)
def test_it_follows_a_relabeling(name: str) -> None:
    edge_index, num_nodes = SYMMETRIC[name]
    torch.manual_seed(0)
    model, x, order = GUMP(3, 8, 3).double().eval(), torch.ones(num_nodes, 3).double(), torch.randperm(num_nodes)
    before = jacobian_norm(model, x, edge_index, 0, num_nodes - 1)
    after = jacobian_norm(model, x, order[edge_index], int(order[0]), int(order[num_nodes - 1]))
    assert after == pytest.approx(before, rel=1e-9)


def test_measuring_leaves_model_and_generator_as_they_were() -> None:
    edge_index, num_nodes = random_graph(0)
    model, x = GUMP(3, 8, 2).train(), torch.randn(num_nodes, 3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(1)
    state = torch.get_rng_state()
    jacobian_by_depth(lambda depth: GUMP(3, 8, depth), (1,), x, edge_index, 0, 1)
    assert torch.equal(torch.get_rng_state(), state)
    jacobian(model, x, edge_index, 0, 1)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


@pytest.mark.parametrize("seed", range(3))
def test_distances_are_those_of_networkx(seed: int) -> None:
    edge_index, num_nodes = random_graph(seed, num_nodes=12, num_edges=10)
    graph = nx.Graph(edge_index.t().tolist())
    graph.add_nodes_from(range(num_nodes))
    found = hop_distances(edge_index, num_nodes)
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    for u in range(num_nodes):
        for v in range(num_nodes):
            assert found[u, v] == lengths[u].get(v, float("inf"))


def test_the_first_pair_at_a_distance_is_found() -> None:
    edge_index, num_nodes = path(12)
    assert distant_pair(edge_index, num_nodes, 10) == (0, 10)
    assert distant_pair(edge_index.flip(0), num_nodes, 11) == (0, 11)
    assert distant_pair(edge_index, num_nodes, 12) is None


def test_what_has_no_jacobian_is_refused() -> None:
    model, x, edge_index = MPNN(3, 8, 2), torch.randn(3, 3), path(3)[0]
    with pytest.raises(ValueError, match=r"'target' must be one of the 3 vertices \(got 3\)"):
        jacobian(model, x, edge_index, 0, 3)
    with pytest.raises(ValueError, match=r"'x' must hold floating-point features \(got torch.int64\)"):
        jacobian(model, x.long(), edge_index, 0, 1)
    for out, message in [
        (lambda x: x.sum(0, keepdim=True), r"'model' must return a row for each of the 3 vertices \(got \[1, 3\]\)"),
        (lambda x: (x, x), r"'model' must return a tensor \(got tuple\); .* model\(x, edge_index\)\[0\]"),
        (lambda x: x + 0j, r"'model' must return real numbers \(got torch.complex64\); .* torch.view_as_real"),
    ]:
        with pytest.raises(ValueError, match=message):
            jacobian(lambda x, edge_index, out=out: out(x), x, edge_index, 0, 1)
    with pytest.raises(ValueError, match=r"precision and the device of 'model', torch.float32 on cpu \(got torch.float64 on cpu\)"):
        jacobian(model, x.double(), edge_index, 0, 1)
    with pytest.raises(ValueError, match=r"'x' must have shape \[num_nodes, num_features\] \(got \[3\]\)"):
        jacobian(model, x[0], edge_index, 0, 1)


def test_a_number_for_every_vertex_is_a_row_of_one() -> None:
    x, edge_index = torch.randn(3, 2).double(), path(3)[0]
    found = jacobian(lambda x, edge_index: x.square().sum(1).flip(0), x, edge_index, 0, 2)
    assert torch.allclose(found, 2 * x[:1])


class Keeper(torch.nn.Module):
    """Keeps its last result, as models that explain themselves do."""

    def __init__(self, in_a_list: bool = False) -> None:
        super().__init__()
        self.lin, self.norm, self.in_a_list = torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), in_a_list

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = self.norm(self.lin(x))
        self.last = [out] if self.in_a_list else out
        return out


def test_a_model_that_keeps_its_last_result_is_measured_and_keeps_it() -> None:
    x, edge_index = torch.randn(4, 3), path(4)[0]
    model = Keeper()
    fresh = jacobian(model, x, edge_index, 0, 1)
    kept = model(x, edge_index)
    mean = model.norm.running_mean.clone()
    assert torch.equal(jacobian(model, x, edge_index, 0, 1), fresh)
    assert model.last is kept
    assert torch.equal(model.norm.running_mean, mean)
    hidden = Keeper(in_a_list=True)
    hidden(x, edge_index)
    with pytest.raises(ValueError, match=r"'model' must be one that copy.deepcopy copies \(got Keeper: .*\); let it not keep"):
        jacobian(hidden, x, edge_index, 0, 1)


def test_generators_of_gpus_are_left_alone_too(monkeypatch: pytest.MonkeyPatch) -> None:
    edge_index, num_nodes = random_graph(0)
    x = torch.randn(num_nodes, 3)
    if torch.cuda.is_available():
        state = torch.cuda.get_rng_state()
        jacobian_by_depth(lambda depth: GUMP(3, 8, depth), (1,), x, edge_index, 0, 1)
        assert torch.equal(torch.cuda.get_rng_state(), state)
        on_gpu = [
            jacobian_by_depth(lambda depth: GUMP(3, 8, depth).cuda(), (2,), x.cuda(), edge_index.cuda(), 0, 1, seeds=(0, 1))
            for _ in range(2)
        ]
        assert torch.equal(*on_gpu)
        assert torch.equal(torch.cuda.get_rng_state(), state)
    else:  # a seed would wait there for the first use of a GPU
        seeded: list[int] = []
        monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
        jacobian_by_depth(lambda depth: GUMP(3, 8, depth), (1,), x, edge_index, 0, 1)
        assert not seeded


def test_edges_of_other_vertices_have_no_distances() -> None:
    with pytest.raises(ValueError, match="'edge_index' must"):
        hop_distances(torch.tensor([[0], [3]]), 3)
    with pytest.raises(ValueError, match="'edge_index' must"):
        hop_distances(torch.tensor([[0.0], [1.0]]), 3)
    assert hop_distances(torch.empty(2, 0, dtype=torch.long), 0).shape == (0, 0)


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_a_derivative_that_is_not_finite_does_not_end_a_sweep(broken: float) -> None:
    edge_index, num_nodes = ring(6)
    norms = jacobian_by_depth(
        lambda depth: lambda x, edge_index: x if depth == 1 else broken * x, [1, 2], torch.ones(num_nodes, 3), edge_index, 0, 0
    )
    assert norms[0].item() == 1
    assert norms[1].isnan()
