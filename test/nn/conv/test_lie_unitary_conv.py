import pytest
import torch
from graphs import SYMMETRIC, random_graph
from torch.func import functional_call, stack_module_state, vmap
from torch_geometric.utils import to_dense_adj, to_undirected

from gump.linalg import unitarity_error
from gump.nn.conv.lie_unitary_conv import LONGEST, LieUnitaryConv, _bound, _length

GRAPHS = SYMMETRIC | {"random": random_graph(0), "empty": (torch.empty(2, 0, dtype=torch.long), 3)}


def setting(name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features, edges in both directions with their weights, and the normalized adjacency matrix."""
    edges, num_nodes = GRAPHS[name]
    torch.manual_seed(0)
    edge_index, weight = to_undirected(edges, torch.rand(edges.size(1)).double() + 0.1, num_nodes=num_nodes)
    adjacency = to_dense_adj(edge_index, edge_attr=weight, max_num_nodes=num_nodes)[0]
    scale = adjacency.sum(1).clamp(min=1e-30).rsqrt() * (adjacency.sum(1) > 0)
    return torch.randn(num_nodes, 5).double(), edge_index, weight, scale[:, None] * adjacency * scale[None, :]


def conv_of(real: bool, **kwargs: object) -> LieUnitaryConv:
    """Weights that are full, not only blocks on the diagonal."""
    conv = LieUnitaryConv(5, real=real, **kwargs).double()
    torch.nn.init.normal_(conv.weight, std=0.3)
    return conv


@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float, 1e-5), (torch.double, 1e-13)])
def test_the_norm_is_kept_however_large_the_weights_become(scale: float, real: bool, dtype: torch.dtype, error: float) -> None:
    x, edge_index, weight, _ = setting("random")
    conv = LieUnitaryConv(5, real=real, bias=False).to(dtype)
    torch.nn.init.normal_(conv.weight, std=scale)
    x = x.to(dtype)
    h = conv(x if real else torch.complex(x, x.flip(0)), edge_index, weight.to(dtype))
    assert float(h.detach().norm()) == pytest.approx(float(x.norm()) * (1 if real else 2**0.5), rel=error)


@pytest.mark.parametrize(("channels", "std"), [(5, 1e-3), (5, 1.0), (64, 0.1), (64, 3.0)])
def test_the_bound_on_the_length_holds_and_is_not_far_off(channels: int, std: float) -> None:
    torch.manual_seed(0)
    conv = LieUnitaryConv(channels).double()
    torch.nn.init.normal_(conv.weight, std=std)
    length = float(torch.linalg.matrix_norm(conv.matrix().detach(), 2))
    assert length <= _length(float(_bound(conv.matrix()))) < max(1.4 * length, 0.11)


@pytest.mark.parametrize("real", [False, True])
def test_gradients_flow_from_weights_that_are_zero_and_nothing_hides_weights_that_are_no_numbers(real: bool) -> None:
    x, edge_index, _, _ = setting("random")
    conv = LieUnitaryConv(5, real=real).double()
    torch.nn.init.zeros_(conv.weight)
    (torch.view_as_real(conv(x, edge_index)) if not real else conv(x, edge_index)).pow(3).sum().backward()
    assert conv.weight.grad.isfinite().all()
    assert conv.weight.grad.abs().max() > 0.1
    torch.nn.init.constant_(conv.weight, torch.nan)
    assert conv(x, edge_index).isnan().any()


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float, 2e-5), (torch.double, 1e-12)])
def test_side_by_side_turns_are_what_they_are_alone_and_not_numbers_where_they_are_too_long(
    real: bool, dtype: torch.dtype, error: float
) -> None:
    x, edge_index, weight = (t.to(dtype) if t.is_floating_point() else t for t in setting("random")[:3])
    convs = [conv_of(real).to(dtype) for _ in range(4)]
    with torch.no_grad():
        for conv, length in zip(convs, (0.0, 1.0, 0.999 * LONGEST, 1.001 * LONGEST), strict=True):
            conv.weight.mul_(length / _bound(conv.matrix()))

    def run(state: tuple[dict[str, torch.Tensor], ...]) -> torch.Tensor:
        return functional_call(convs[0], state, (x, edge_index, weight))

    state = stack_module_state(convs)
    out = vmap(run)(state)
    alone = torch.stack([conv(x, edge_index, weight) for conv in convs])
    assert (out - alone)[:3].abs().max() < error
    assert out[3].isnan().all()
    for result in (out, alone):
        (result if real else torch.view_as_real(result))[:3].pow(3).sum().backward()
    expected = torch.stack([conv.weight.grad for conv in convs])
    torch.testing.assert_close(state[0]["weight"].grad[:3], expected[:3], atol=100 * error, rtol=100 * error)


@pytest.mark.parametrize("real", [False, True])
def test_turns_as_they_are_drawn_are_far_from_too_long_for_side_by_side(real: bool) -> None:
    torch.manual_seed(0)
    assert max(float(_bound(LieUnitaryConv(64, real=real).matrix())) for _ in range(20)) < LONGEST / 4


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("real", [False, True])
def test_the_norm_is_kept(name: str, real: bool) -> None:
    x, edge_index, weight, _ = setting(name)
    h = x if real else torch.complex(x, x.flip(0))
    norm = h.norm()
    for _ in range(20):
        h = conv_of(real, bias=False)(h, edge_index, weight)
    assert h.is_complex() != real
    assert (h.norm() - norm).abs() < 1e-8


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("real", [False, True])
def test_it_is_the_exponential_of_a_matrix_over_vertices_and_features(name: str, real: bool) -> None:
    x, edge_index, weight, adjacency = setting(name)
    conv = conv_of(real)
    torch.nn.init.normal_(conv.bias)
    w = conv.weight if real else torch.view_as_complex(conv.weight)
    inner = w - w.t() if real else 1j * (w + w.conj().t())
    operator = torch.linalg.matrix_exp(torch.kron(adjacency.to(w.dtype), inner.t().contiguous()))
    bias = conv.bias if real else torch.view_as_complex(conv.bias)
    expected = (operator @ x.to(w.dtype).flatten()).view(x.shape) + bias
    assert (conv(x, edge_index, weight) - expected).abs().max() < 1e-10


def test_the_whole_real_map_is_an_orthogonal_matrix() -> None:
    x, edge_index, weight, _ = setting("random")
    conv = conv_of(True, bias=False)
    jacobian = torch.autograd.functional.jacobian(lambda h: conv(h, edge_index, weight), x).reshape(x.numel(), x.numel())
    assert unitarity_error(jacobian) < 1e-10
    assert (jacobian - torch.eye(x.numel())).abs().max() > 0.1


@pytest.mark.parametrize("real", [False, True])
def test_vertices_without_edges_keep_their_features(real: bool) -> None:
    x, edge_index, _, _ = setting("random")
    conv = conv_of(real, bias=False)
    alone = torch.ones(len(x), dtype=torch.bool).index_fill(0, edge_index.flatten(), False)
    assert bool(alone.any())
    out = conv(x, edge_index)
    assert (out[alone] - x[alone]).abs().max() < 1e-14
    assert (out[~alone].real - x[~alone]).abs().max() > 0.1


@pytest.mark.parametrize("real", [False, True])
def test_weights_start_as_blocks_of_two_channels(real: bool) -> None:
    weight = LieUnitaryConv(5, real=real).weight.detach()
    size = weight.abs() if real else weight.abs().sum(-1)
    blocks = torch.block_diag(torch.ones(2, 2), torch.ones(2, 2), torch.ones(1, 1))
    assert torch.equal(size > 0, blocks > 0)


def test_edges_that_are_listed_in_one_direction_are_refused() -> None:
    x, edge_index, weight, _ = setting("grid")
    with pytest.raises(ValueError, match=r"'edge_index' must have every edge in both directions .* \(got \(\d, \d\) without"):
        LieUnitaryConv(5).double()(x, edge_index[:, edge_index[0] < edge_index[1]])
    with pytest.raises(ValueError, match=r"\(got \(0, 1\) heavier than \(1, 0\) by"):
        LieUnitaryConv(5).double()(x, edge_index, weight + ((edge_index[0] == 0) & (edge_index[1] == 1)))


def test_repr() -> None:
    assert repr(LieUnitaryConv(6, real=True)) == "LieUnitaryConv(6, real=True)"
