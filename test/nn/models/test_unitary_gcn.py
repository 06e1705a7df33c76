import itertools

import pytest
import torch
from graphs import SYMMETRIC, random_graph
from torch_geometric.utils import to_undirected

from gump.nn.conv.lie_unitary_conv import LieUnitaryConv
from gump.nn.conv.unitary_conv import UnitaryConv
from gump.nn.models.unitary_gcn import UnitaryGCN

GRAPHS = {"clique": SYMMETRIC["clique"], "grid": SYMMETRIC["grid"], "random": random_graph(0)}
KINDS = list(itertools.product([False, True], [False, True]))


def setting(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    edges, num_nodes = GRAPHS[name]
    torch.manual_seed(0)
    return torch.randn(num_nodes, 6).double(), to_undirected(edges, num_nodes=num_nodes)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("lie", "real"), KINDS)
def test_without_nonlinearity_twenty_layers_keep_the_norm(name: str, lie: bool, real: bool) -> None:
    x, edge_index = setting(name)
    model = UnitaryGCN(6, 6, 20, lie=lie, real=real, unitary=not lie, act=None, num_terms=32).double()
    out = model.propagate(x, edge_index)
    assert out.is_complex() != real
    assert (out.norm() - x.norm()).abs() < 1e-8
    assert (out - x).abs().max() > 0.1


@pytest.mark.parametrize(("lie", "real"), KINDS)
def test_gradients_of_twenty_layers_keep_their_norm(lie: bool, real: bool) -> None:
    x, edge_index = setting("grid")
    model = UnitaryGCN(6, 6, 20, lie=lie, real=real, unitary=not lie, act=None, num_terms=32, residual=False).double()
    x.requires_grad_()
    out = model.propagate(x, edge_index)
    parts = torch.view_as_real(out) if out.is_complex() else out
    (grad,) = torch.autograd.grad(parts, x, parts.detach())
    assert (grad - x).abs().max() < 1e-8, "the transposed map takes the result back"


@pytest.mark.parametrize(("lie", "real"), KINDS)
def test_it_is_its_layers_with_nonlinearities_between(lie: bool, real: bool) -> None:
    x, edge_index = setting("random")
    weight = torch.ones(edge_index.size(1)).double() * 0.3
    model = UnitaryGCN(6, 8, 3, 2, lie=lie, real=real).double()
    h = model.encoder(x)
    for conv in model.convs:
        other = LieUnitaryConv(8, real=real) if lie else UnitaryConv(8, 8, real=real)
        other.double().load_state_dict(conv.state_dict())
        h = other(h, edge_index, weight)
        h = torch.relu(h) if real else torch.complex(torch.relu(h.real), torch.relu(h.imag))
    expected = model.lin(h if real else h.real)
    assert (model(x, edge_index, edge_weight=weight) - expected).abs().max() < 1e-12


@pytest.mark.parametrize(("lie", "real"), KINDS)
def test_edges_that_are_listed_in_one_direction_are_refused(lie: bool, real: bool) -> None:
    x, edge_index = setting("grid")
    with pytest.raises(ValueError, match="'edge_index' must have every edge in both directions"):
        UnitaryGCN(6, 6, 2, lie=lie, real=real).double()(x, edge_index[:, 1:])


def test_residual_norm_and_dropout() -> None:
    x, edge_index = setting("grid")
    model = UnitaryGCN(6, 8, 2, norm="batch", residual=True).double()
    for conv, norm in zip(model.convs, model.norms, strict=True):
        assert norm.channels == 16
        with torch.no_grad():
            conv.weight.zero_()
    assert torch.equal(model(x, edge_index), model.encoder(x))
    model = UnitaryGCN(6, 8, 2, dropout=0.5).double()
    assert not torch.equal(model(x, edge_index), model(x, edge_index))
    model.eval()
    assert torch.equal(model(x, edge_index), model(x, edge_index))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_layers": 0}, r"'num_layers' must be at least 1 \(got 0\)"),
        ({"hidden_channels": 7, "real": True}, r"'hidden_channels' must be even for real features, which are paired \(got 7\)"),
        ({"lie": True, "unitary": True}, "'unitary' must be False for lie=True"),
        ({"norm": "pair"}, "'norm' must be one of"),
    ],
)
def test_settings_that_make_no_sense_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UnitaryGCN(**{"in_channels": 3, "hidden_channels": 8, "num_layers": 2, **arguments})


def test_repr() -> None:
    assert repr(UnitaryGCN(3, 8, 2)) == "UnitaryGCN(3, 8, num_layers=2, out_channels=8, lie=False, real=False, unitary=False)"
