import pytest
import torch
from graphs import SYMMETRIC, random_graph
from torch_geometric.nn import AntiSymmetricConv, GCNConv
from torch_geometric.utils import remove_self_loops, to_dense_adj, to_undirected

from gump.nn.models.adgn import ADGN, AGGREGATIONS

GRAPHS = SYMMETRIC | {"random": random_graph(0)}


def setting(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    edges, num_nodes = GRAPHS[name]
    torch.manual_seed(0)
    edge_index = remove_self_loops(to_undirected(edges, num_nodes=num_nodes))[0]
    return torch.randn(num_nodes, 3).double(), edge_index


def own_jacobians(model: ADGN, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
    """How the field at every vertex answers to the state of that vertex, by automatic differentiation of a step of the model itself."""
    model.encoder = torch.nn.Identity()

    def field(x: torch.Tensor) -> torch.Tensor:
        return (model(x, edge_index) - x) / model.epsilon

    full = torch.autograd.functional.jacobian(field, x)  # [num_nodes, channels, num_nodes, channels]
    return full.diagonal(dim1=0, dim2=2).permute(2, 0, 1)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("gamma", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_eigenvalues_of_the_jacobian_lie_between_the_imaginary_axis_and_minus_gamma(
    name: str, gamma: float, aggregation: str
) -> None:
    x, edge_index = setting(name)
    model = ADGN(3, 6, 1, gamma=gamma, aggregation=aggregation).double()
    state = model.encoder(x)
    eigenvalues = torch.linalg.eigvals(own_jacobians(model, state, edge_index))
    assert eigenvalues.real.max() < 1e-10
    assert eigenvalues.real.min() > -gamma - 1e-10
    assert eigenvalues.imag.abs().max() > 0.1, "it is a rotation, not nothing"


def test_eigenvalues_meet_the_bounds_of_the_slope() -> None:
    x, _ = setting("grid")
    edge_index = torch.empty(2, 0, dtype=torch.long)
    model = ADGN(3, 6, 1, gamma=0.5, aggregation="sum").double()
    state, conv = model.encoder(x), model.convs[0]
    slope = 1 - torch.tanh(state @ (conv.W - conv.W.t() - 0.5 * torch.eye(6).double()).t() + conv.bias).square()
    real = torch.linalg.eigvals(own_jacobians(model, state, edge_index)).real
    assert bool((real.amax(1) <= -0.5 * slope.amin(1) + 1e-10).all())
    assert bool((real.amin(1) >= -0.5 * slope.amax(1) - 1e-10).all())


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("shared", [True, False])
def test_it_is_its_formula(name: str, shared: bool) -> None:
    x, edge_index = setting(name)
    model = ADGN(3, 6, 4, out_channels=2, epsilon=0.3, gamma=0.2, aggregation="sum", shared=shared).double()
    adjacency = to_dense_adj(edge_index, max_num_nodes=len(x))[0].double()
    h = model.encoder(x)
    for k in range(4):
        conv = model.convs[0 if shared else k]
        own = h @ (conv.W - conv.W.t() - 0.2 * torch.eye(6).double()).t()
        h = h + 0.3 * torch.tanh(own + adjacency @ h @ conv.phi.lin.weight.t() + conv.bias)
    assert (model(x, edge_index) - model.lin(h)).abs().max() < 1e-12


def test_by_default_it_is_the_layer_of_pyg_without_self_loops() -> None:
    x, edge_index = setting("random")
    weight = torch.rand(edge_index.size(1)).double()
    phi = GCNConv(6, 6, bias=False, add_self_loops=False)
    model, pyg = ADGN(3, 6, 5).double(), AntiSymmetricConv(6, phi, num_iters=5).double()
    pyg.load_state_dict(model.convs[0].state_dict())
    assert (model(x, edge_index, edge_weight=weight) - pyg(model.encoder(x), edge_index, weight)).abs().max() < 1e-12


def test_sharing_keeps_the_number_of_parameters_at_any_depth() -> None:
    few, many = (sum(p.numel() for p in ADGN(3, 6, depth).parameters()) for depth in (1, 50))
    assert few == many
    assert sum(p.numel() for p in ADGN(3, 6, 2, shared=False).parameters()) > few


def test_gradients_of_a_vertex_alone_neither_vanish_nor_explode_over_many_steps() -> None:
    torch.manual_seed(0)
    model = ADGN(6, 6, 200, gamma=0.0, epsilon=0.01, aggregation="sum").double()
    x = torch.randn(1, 6).double()
    edge_index = torch.empty(2, 0, dtype=torch.long)
    values = torch.linalg.svdvals(torch.autograd.functional.jacobian(lambda h: model.convs[0](h, edge_index), x).view(6, 6))
    assert 0.1 < values.min() <= values.max() < 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_layers": 0}, r"'num_layers' must be at least 1 \(got 0\)"),
        ({"aggregation": "mean"}, r"'aggregation' must be one of 'gcn', 'sum' \(got 'mean'\)"),
    ],
)
def test_settings_that_do_not_exist_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ADGN(**{"in_channels": 3, "hidden_channels": 8, "num_layers": 2, **arguments})


def test_repr() -> None:
    expected = "ADGN(3, 8, num_layers=2, out_channels=8, epsilon=0.1, gamma=0.1, aggregation='gcn', shared=True)"
    assert repr(ADGN(3, 8, 2)) == expected
