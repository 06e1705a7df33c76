import pytest
import torch
from graphs import SYMMETRIC, random_graph
from torch_geometric.utils import to_dense_adj, to_undirected

from gump.linalg import unitarity_error
from gump.nn.conv.unitary_conv import UnitaryConv

GRAPHS = SYMMETRIC | {"random": random_graph(0), "empty": (torch.empty(2, 0, dtype=torch.long), 3)}


def setting(name: str, weighted: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor]:
    """Features, edges in both directions with their weights, and the normalized adjacency matrix."""
    edges, num_nodes = GRAPHS[name]
    torch.manual_seed(0)
    weight = torch.rand(edges.size(1)).double() + 0.1 if weighted else None
    edge_index, weight = to_undirected(edges, weight, num_nodes=num_nodes)
    adjacency = to_dense_adj(edge_index, edge_attr=weight, max_num_nodes=num_nodes)[0].double()
    scale = adjacency.sum(1).clamp(min=1e-30).rsqrt() * (adjacency.sum(1) > 0)
    return torch.randn(num_nodes, 6).double(), edge_index, weight, scale[:, None] * adjacency * scale[None, :]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_norm_is_kept_by_unitary_weights(name: str, real: bool, weighted: bool) -> None:
    x, edge_index, weight, _ = setting(name, weighted)
    conv = UnitaryConv(6, 6, unitary=True, real=real, bias=False).double()
    h = x if real else torch.complex(x, x.flip(0))
    norm = h.norm()
    for _ in range(20):
        h = conv(h, edge_index, weight)
    assert h.is_complex() != real
    assert (h.norm() - norm).abs() < 1e-8


@pytest.mark.parametrize("name", GRAPHS)
def test_it_is_the_exponential_of_the_dense_matrix(name: str) -> None:
    x, edge_index, weight, adjacency = setting(name, weighted=True)
    conv = UnitaryConv(6, 4).double()
    torch.nn.init.normal_(conv.bias)
    matrix, bias = torch.view_as_complex(conv.weight), torch.view_as_complex(conv.bias)
    expected = torch.linalg.matrix_exp(1j * adjacency) @ x.to(matrix.dtype) @ matrix + bias
    assert (conv(x, edge_index, weight) - expected).abs().max() < 1e-12


@pytest.mark.parametrize("name", GRAPHS)
def test_the_real_kind_turns_pairs_of_channels_by_cosine_and_sine(name: str) -> None:
    x, edge_index, _, adjacency = setting(name)
    conv = UnitaryConv(6, 4, real=True, bias=False).double()
    values, vectors = torch.linalg.eigh(adjacency)
    cos, sin = (vectors @ torch.diag(f(values)) @ vectors.t() for f in (torch.cos, torch.sin))
    h = x @ conv.weight
    re, im = h[:, 0::2], h[:, 1::2]
    out = conv(x, edge_index)
    assert (out[:, 0::2] - (cos @ re - sin @ im)).abs().max() < 1e-12
    assert (out[:, 1::2] - (sin @ re + cos @ im)).abs().max() < 1e-12


def test_the_whole_real_map_is_an_orthogonal_matrix() -> None:
    x, edge_index, _, _ = setting("random")
    conv = UnitaryConv(6, 6, unitary=True, real=True, bias=False).double()
    jacobian = torch.autograd.functional.jacobian(lambda h: conv(h, edge_index), x).reshape(x.numel(), x.numel())
    assert unitarity_error(jacobian) < 1e-10
    assert (jacobian - torch.eye(x.numel())).abs().max() > 0.1


@pytest.mark.parametrize("real", [False, True])
def test_unitary_weights_are_unitary_and_others_are_not(real: bool) -> None:
    for unitary in (True, False):
        matrix = UnitaryConv(6, 6, unitary=unitary, real=real).double().matrix()
        assert ((matrix.mH @ matrix - torch.eye(6)).abs().max() < 1e-10) == unitary


@pytest.mark.parametrize(("num_terms", "error"), [(10, 3e-8), (16, 3e-15)])
def test_the_error_of_the_taylor_sum_is_as_told(num_terms: int, error: float) -> None:
    _, edge_index, _, adjacency = setting("clique")
    x = torch.eye(5).double()
    conv = UnitaryConv(5, 5, num_terms, unitary=True, bias=False).double()
    torch.nn.init.zeros_(conv.weight)
    difference = conv(x, edge_index) - torch.linalg.matrix_exp(1j * adjacency)
    assert torch.linalg.matrix_norm(difference, 2) < error + 1e-14
    assert torch.linalg.matrix_norm(difference, 2) > error / 10 - 1e-14


def test_weights_that_are_not_unitary_keep_the_norm_on_average() -> None:
    torch.manual_seed(0)
    for real in (False, True):
        matrix = UnitaryConv(300, 200, real=real).matrix()
        assert 0.95 < (torch.randn(50, 300).to(matrix.dtype) @ matrix).norm() / (50 * 300) ** 0.5 < 1.05


def test_a_matrix_that_is_normalized_already_is_taken_as_it_is() -> None:
    x, edge_index, _, _ = setting("grid")
    conv, raw = UnitaryConv(6, 6).double(), UnitaryConv(6, 6, normalize=False).double()
    raw.load_state_dict(conv.state_dict())
    degree = edge_index[0].bincount()
    weight = (degree[edge_index[0]] * degree[edge_index[1]]).double().rsqrt()
    assert (conv(x, edge_index) - raw(x, edge_index, weight)).abs().max() < 1e-12


def test_edges_that_are_listed_in_one_direction_are_refused() -> None:
    x, edge_index, _, _ = setting("grid")
    with pytest.raises(ValueError, match="'edge_index' must have every edge in both directions"):
        UnitaryConv(6, 4).double()(x, edge_index[:, edge_index[0] < edge_index[1]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"out_channels": 4, "unitary": True}, r"'out_channels' must be 'in_channels' for unitary weights \(got 4 and 6\)"),
        ({"out_channels": 5, "real": True}, r"'out_channels' must be even for real features, which are paired \(got 5\)"),
        ({"out_channels": 6, "num_terms": 0}, r"'num_terms' must be at least 1 \(got 0\)"),
    ],
)
def test_settings_that_cannot_be_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UnitaryConv(6, **arguments)


def test_repr() -> None:
    assert repr(UnitaryConv(6, 4)) == "UnitaryConv(6, 4, num_terms=16, unitary=False, real=False)"
