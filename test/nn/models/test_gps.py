import pytest
import torch
from graphs import path, random_graph
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, PerformerAttention
from torch_geometric.utils import to_undirected

from gump.nn.models.gps import GPS, local_arguments, local_conv


def jacobian(model: torch.nn.Module, x: torch.Tensor, *args: torch.Tensor) -> torch.Tensor:
    """Which vertices (columns) each vertex (row) has heard of."""
    full = torch.autograd.functional.jacobian(lambda x: model(x, *args), x)
    return full.abs().sum(dim=(1, 3)) > 0


def test_one_layer_is_the_formula() -> None:
    edge_index, num_nodes = random_graph(0)
    torch.manual_seed(0)
    x = torch.randn(num_nodes, 3).double()
    model = GPS(3, 8, 1, heads=2, norm="layer").double()
    layer = model.layers[0]
    h = model.encoder(x)
    adjacency = torch.zeros(num_nodes, num_nodes).double().index_put_((edge_index[1], edge_index[0]), torch.ones(14).double(), True)
    local = layer.norm1(h + layer.conv.nn(h + adjacency @ h))
    q, k, v = (h @ layer.attn.in_proj_weight.t() + layer.attn.in_proj_bias).chunk(3, dim=1)
    heads = [(q[:, c] @ k[:, c].t() / 2).softmax(1) @ v[:, c] for c in (slice(0, 4), slice(4, 8))]
    attended = layer.norm2(h + layer.attn.out_proj(torch.cat(heads, dim=1)))
    expected = layer.norm3(local + attended + layer.mlp(local + attended))
    assert (model(x, edge_index) - expected).abs().max() < 1e-12


def test_attention_reaches_all_vertices_of_the_graph_in_one_layer_and_none_of_another() -> None:
    torch.manual_seed(0)
    edge_index, num_nodes = path(6)
    batch = Batch.from_data_list([Data(x=torch.randn(num_nodes, 3).double(), edge_index=to_undirected(edge_index))] * 2)
    for attention in ("multihead", "performer"):
        model = GPS(3, 8, 1, attention=attention).double().eval()
        heard = jacobian(model, batch.x, batch.edge_index, None, None, batch.batch)
        assert torch.equal(heard, batch.batch.unsqueeze(0) == batch.batch.unsqueeze(1))


def test_the_local_layer_adds_what_attention_cannot_see() -> None:
    torch.manual_seed(0)
    edge_index, num_nodes = path(5)
    x, edge_index = torch.ones(num_nodes, 3).double(), to_undirected(edge_index)
    for conv in ("gcn", "gin", "gated", None):
        out = GPS(3, 8, 2, conv=conv).double().eval()(x, edge_index)
        same = bool((out - out[0]).abs().max() < 1e-10)
        assert same == (conv is None), "equal features on a path: the ends differ from the middle by their degrees alone"


def test_edge_weights_matter_to_gcn_and_to_it_alone() -> None:
    edge_index, num_nodes = random_graph(0)
    x, weight = torch.randn(num_nodes, 3), torch.rand(edge_index.size(1))
    for conv in ("gcn", "gin", "gated"):
        model = GPS(3, 8, 1, conv=conv).eval()
        assert torch.equal(model(x, edge_index), model(x, edge_index, edge_weight=weight)) == (conv != "gcn")


def test_without_edge_dim_attributes_are_not_read() -> None:
    edge_index, num_nodes = random_graph(0)
    x, attr = torch.randn(num_nodes, 3), torch.rand(edge_index.size(1), 2)
    model = GPS(3, 8, 1, conv="gated").eval()
    assert torch.equal(model(x, edge_index), model(x, edge_index, edge_attr=attr))


@pytest.mark.parametrize("conv", ["gine", "gated"])
def test_edge_attributes_are_read_and_must_fit(conv: str) -> None:
    edge_index, num_nodes = random_graph(0)
    torch.manual_seed(0)
    x, attr = torch.randn(num_nodes, 3), torch.rand(edge_index.size(1), 2)
    model = GPS(3, 8, 1, conv=conv, edge_dim=2).eval()
    assert (model(x, edge_index, edge_attr=attr) - model(x, edge_index, edge_attr=attr + 1)).abs().max() > 1e-4
    with pytest.raises(ValueError, match=r"'edge_attr' must have 'edge_dim' columns, 2 \(got 1\)"):
        model(x, edge_index, edge_attr=attr[:, 0])
    with pytest.raises(ValueError, match=r"'edge_attr' must be given to a model with edge_dim=2 \(got None\); set edge_dim=0"):
        model(x, edge_index)
    whole = torch.randint(3, (edge_index.size(1),))
    assert GPS(3, 8, 1, conv=conv, edge_dim=1)(x, edge_index, edge_attr=whole).isfinite().all()


def test_a_single_local_layer_is_that_of_pyg() -> None:
    edge_index, num_nodes = random_graph(0)
    torch.manual_seed(0)
    h, weight = torch.randn(num_nodes, 8), torch.rand(edge_index.size(1))
    conv, pyg = local_conv("gcn", 8, 0, "relu"), GCNConv(8, 8)
    pyg.load_state_dict(conv.state_dict())
    given = local_arguments("gcn", 0, h, edge_index, weight, None)
    assert (conv(h, **given) - pyg(h, edge_index, weight)).abs().max() < 1e-6


def test_out_channels_add_a_linear_map() -> None:
    edge_index, num_nodes = random_graph(0)
    x = torch.randn(num_nodes, 3)
    model = GPS(3, 8, 1, 5).eval()
    out = model(x, edge_index)
    lin, model.lin = model.lin, None
    assert torch.equal(out, lin(model(x, edge_index)))
    assert (model.out_channels, GPS(3, 8, 1).out_channels) == (5, 8)


def test_the_performer_without_padding_is_that_of_pyg() -> None:
    torch.manual_seed(0)
    attn = GPS(3, 8, 1, heads=2, attention="performer").layers[0].attn
    x = torch.randn(2, 5, 8)
    assert (attn(x) - PerformerAttention.forward(attn, x)).abs().max() < 1e-6
    assert (attn.heads, attn.head_channels) == (2, 4)


def test_dropouts_arrive_and_act_in_training_only() -> None:
    edge_index, num_nodes = random_graph(0)
    x = torch.randn(num_nodes, 3)
    for settings in ({"dropout": 0.5}, {"attention_dropout": 0.5}, {"attention_dropout": 0.5, "attention": "performer"}):
        model = GPS(3, 8, 1, norm=None, **settings)
        assert not torch.equal(model(x, edge_index), model(x, edge_index))
        model.eval()
        assert torch.equal(model(x, edge_index), model(x, edge_index))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"conv": "gat"}, r"'conv' must be one of 'gcn', 'gin', 'gine', 'gated', None \(got 'gat'\)"),
        ({"attention": "bigbird"}, r"'attention' must be one of 'multihead', 'performer' \(got 'bigbird'\)"),
        ({"conv": "gine"}, r"'edge_dim' must be at least 1 for conv='gine' \(got 0\); without edge attributes take conv='gin'"),
        ({"edge_dim": 2}, r"'edge_dim' must be 0 for conv='gin', which does not read edge attributes \(got 2\); take conv='gine'"),
        ({"edge_dim": 2, "conv": None}, r"'edge_dim' must be 0 for conv=None"),
        ({"edge_dim": 2, "conv": "gat"}, r"'conv' must be one of"),
        ({"hidden_channels": 6}, r"'hidden_channels' must be a multiple of 'heads', 4 \(got 6\)"),
        ({"num_layers": 0}, r"'num_layers' must be at least 1 \(got 0\)"),
        ({"heads": 0}, r"'heads' must be at least 1 \(got 0\)"),
        ({"norm": "pair"}, r"'norm' must be one of 'batch', 'layer', None \(got 'pair'\)"),
        ({"edge_dim": -1}, r"'edge_dim' must be at least 0 \(got -1\)"),
        ({"attention": "performer", "heads": 8}, r"'hidden_channels' must be at least twice 'heads' for a performer \(got 8 for 8"),
    ],
)
def test_settings_that_do_not_exist_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GPS(**{"in_channels": 3, "hidden_channels": 8, "num_layers": 2, **arguments})


def test_repr() -> None:
    assert repr(GPS(3, 8, 2)) == "GPS(3, 8, num_layers=2, out_channels=8, conv='gin', heads=4, attention='multihead')"


@pytest.mark.parametrize("attention", ["multihead", "performer"])
def test_a_graph_without_vertices_leaves_the_gradients_of_its_batch_finite(attention: str) -> None:
    torch.manual_seed(0)
    model, other = GPS(3, 8, 2, attention=attention), GPS(3, 8, 2, attention=attention)
    other.load_state_dict(model.state_dict())
    x, edge_index = torch.randn(4, 3), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    for net, batch in ((model, [0, 0, 2, 2]), (other, [0, 0, 1, 1])):
        net(x, edge_index, batch=torch.tensor(batch)).square().sum().backward()
    for (key, value), value2 in zip(model.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(value.grad, value2.grad, msg=key)
