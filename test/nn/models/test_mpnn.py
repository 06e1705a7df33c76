import pytest
import torch
from graphs import SYMMETRIC, random_graph
from torch_geometric.explain import Explainer, GNNExplainer, ModelConfig
from torch_geometric.nn import GCN, GIN, GCNConv, GraphConv
from torch_geometric.utils import to_dense_adj, to_undirected

from gump.nn.models.mpnn import CONVS, MPNN
from gump.nn.norm import BatchNorm

GRAPHS = SYMMETRIC | {f"random {seed}": random_graph(seed) for seed in range(2)}


def double(name: str) -> tuple[torch.Tensor, torch.Tensor, int]:
    edges, num_nodes = GRAPHS[name]
    torch.manual_seed(0)
    return torch.randn(num_nodes, 3).double(), to_undirected(edges, num_nodes=num_nodes), num_nodes


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("weighted", [False, True])
def test_normalizing_once_equals_a_stack_of_layers_that_each_normalize(name: str, weighted: bool) -> None:
    x, edge_index, _ = double(name)
    weight = torch.rand(edge_index.size(1)).double() if weighted else None
    model, pyg = MPNN(3, 8, 4, out_channels=5).double(), GCN(3, 8, 4, out_channels=5).double()
    assert all(conv.normalize for conv in pyg.convs)
    pyg.load_state_dict(model.state_dict())
    assert (model(x, edge_index, edge_weight=weight) - pyg(x, edge_index, edge_weight=weight)).abs().max() < 1e-12


def pyg_name(key: str) -> str:
    """What PyG's GIN calls a parameter of ours."""
    for ours, theirs in {".sum.": ".", ".lin1.": ".nn.lins.0.", ".lin2.": ".nn.lins.1.", ".norm.": ".nn.norms.0.module."}.items():
        key = key.replace(ours, theirs)
    return key


@pytest.mark.parametrize("name", GRAPHS)
def test_gin_equals_that_of_pyg(name: str) -> None:
    x, edge_index, _ = double(name)
    model = MPNN(3, 8, 3, out_channels=8, conv="gin").double()
    pyg = GIN(3, 8, 3, norm="batch_norm", norm_kwargs={"allow_single_element": True}).double()
    pyg.norms = torch.nn.ModuleList(torch.nn.Identity() for _ in range(3))  # only those inside of the MLPs are in the TU protocol
    missing, unexpected = pyg.load_state_dict({pyg_name(key): value for key, value in model.state_dict().items()}, strict=False)
    assert not unexpected
    assert all(key.endswith("num_batches_tracked") for key in missing)
    assert (model(x, edge_index) - pyg(x, edge_index)).abs().max() < 1e-12


@pytest.mark.parametrize("name", GRAPHS)
def test_graph_conv_equals_that_of_pyg(name: str) -> None:
    x, edge_index, _ = double(name)
    weight = torch.rand(edge_index.size(1)).double()
    model = MPNN(3, 8, 2, conv="graph").double()
    first, second = GraphConv(3, 8).double(), GraphConv(8, 8).double()
    torch.nn.ModuleList([first, second]).load_state_dict(model.convs.state_dict())
    h = torch.relu(second(torch.relu(first(x, edge_index, weight)), edge_index, weight))
    assert (model(x, edge_index, edge_weight=weight) - h).abs().max() < 1e-12


def test_a_self_loop_of_one_relation_is_none_of_another() -> None:
    edge_index, edge_type = torch.tensor([[0, 0, 1], [0, 1, 0]]), torch.tensor([0, 1, 1])
    x = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    model = MPNN(3, 4, 1, out_channels=4, num_relations=2).double()
    layer = model.convs[0]
    expected = layer.lin(x)
    for relation, inner in enumerate(layer.convs):
        plain = GCNConv(3, 4).double()
        plain.load_state_dict(inner.state_dict())
        expected = expected + plain(x, edge_index[:, edge_type == relation])
    torch.testing.assert_close(model(x, edge_index, edge_type=edge_type), expected)


@pytest.mark.parametrize("conv", CONVS)
@pytest.mark.parametrize("weighted", [False, True])
def test_relations_are_a_sum_of_convolutions_over_selected_edges(conv: str, weighted: bool) -> None:
    x, edge_index, _ = double("grid")
    edge_type = torch.randint(3, (edge_index.size(1),))
    weight = torch.rand(edge_index.size(1)).double() if weighted else None
    model = MPNN(3, 8, 2, conv=conv, num_relations=3).double().eval()
    h = x
    for layer in model.convs:
        total = layer.lin(h)
        for relation, inner in enumerate(layer.convs):
            member = edge_type == relation
            given = {} if weight is None or conv == "gin" else {"edge_weight": weight[member]}
            if conv == "gcn":
                normalizing = GCNConv(inner.in_channels, inner.out_channels).double()
                normalizing.load_state_dict(inner.state_dict())
                inner = normalizing
            total = total + inner(h, edge_index[:, member], **given)
        h = torch.relu(total)
    assert (model(x, edge_index, edge_weight=weight, edge_type=edge_type) - h).abs().max() < 1e-12


def test_one_layer_by_hand() -> None:
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    model = MPNN(1, 1, 1, conv="graph")
    with torch.no_grad():
        model.convs[0].lin_rel.weight.fill_(1.0)
        model.convs[0].lin_rel.bias.fill_(-20.0)
        model.convs[0].lin_root.weight.fill_(10.0)
    assert model(torch.tensor([[1.0], [2.0], [3.0]]), edge_index).flatten().tolist() == [0, 4, 12]


def test_the_network_of_the_tu_protocol_has_five_convolutions_and_ends_linear() -> None:
    model = MPNN(3, 64, 5, out_channels=2, conv="gin", dropout=0.5)
    widths = [(c.lin1.in_features, c.lin1.out_features, c.lin2.out_features) for c in model.convs]
    assert widths == [(3, 64, 64)] + [(64, 64, 64)] * 3 + [(64, 2, 2)]
    assert sum(isinstance(m, BatchNorm) for m in model.modules()) == 5
    assert len(model.norms) == 4
    x, edge_index, _ = double("grid")
    torch.nn.init.constant_(model.convs[-1].lin2.bias, -100.0)
    assert model(x.float(), edge_index).max() < -50, "no nonlinearity, and nothing is dropped, at the end"


def test_without_out_channels_every_layer_is_alike() -> None:
    x, edge_index, _ = double("grid")
    out = MPNN(3, 8, 3).double()(x, edge_index)
    assert out.shape == (9, 8)
    assert bool((out >= 0).all())


@pytest.mark.parametrize("conv", CONVS)
def test_depth_limits_how_far_a_vertex_sees(conv: str) -> None:
    x, edge_index, num_nodes = double("ring")
    x.requires_grad_()
    model = MPNN(3, 16, 2, out_channels=4, conv=conv, mlp_norm=None).double()
    (grad,) = torch.autograd.grad(model(x, edge_index)[0].sum(), x)
    hops = torch.linalg.matrix_power(to_dense_adj(edge_index)[0].double() + torch.eye(num_nodes), 2)[0]
    assert torch.equal(grad.abs().sum(1) > 0, hops > 0)


def test_residual_adds_where_widths_agree() -> None:
    x, edge_index, _ = double("grid")
    model = MPNN(3, 8, 3, residual=True).double()
    with torch.no_grad():
        for conv in model.convs[1:]:
            conv.lin.weight.zero_()
    first = GCNConv(3, 8).double()
    first.load_state_dict(model.convs[0].state_dict())
    torch.testing.assert_close(model(x, edge_index), torch.relu(first(x, edge_index)))


@pytest.mark.parametrize("out_channels", [None, 4])
def test_feed_forward_blocks_follow_every_layer_that_is_not_linear(out_channels: int | None) -> None:
    x, edge_index, _ = double("grid")
    model = MPNN(3, 8, 3, out_channels=out_channels, residual=True, norm="batch", feed_forward=True).double()
    h = x
    for k, conv in enumerate(model.convs):
        layer = GCNConv(conv.in_channels, conv.out_channels).double()
        layer.load_state_dict(conv.state_dict())
        new = layer(h, edge_index)
        if k < len(model.norms):
            new = torch.relu(model.norms[k](new))
            new = model.blocks[k](new if k == 0 else h + new)
        h = new
    torch.testing.assert_close(model(x, edge_index), h)
    assert len(model.blocks) == (3 if out_channels is None else 2)
    assert not MPNN(3, 8, 3).blocks


def test_norm_and_dropout_are_applied_between_layers() -> None:
    x, edge_index, _ = double("grid")
    model = MPNN(3, 64, 2, out_channels=4, norm="batch", dropout=0.5).double()
    between = []
    model.convs[1].register_forward_pre_hook(lambda _, given: between.append(given[0]))
    model(x, edge_index)
    model.eval()(x, edge_index)
    assert (between[0] == 0).double().mean() > (between[1] == 0).double().mean() + 0.1
    assert type(model.norms[0]).__name__ == "BatchNorm"


def test_unused_and_missing_inputs() -> None:
    x, edge_index, _ = double("grid")
    model = MPNN(3, 8, 2, conv="gin").double().eval()
    weight = torch.rand(edge_index.size(1)).double()
    assert torch.equal(model(x, edge_index), model(x, edge_index, edge_weight=weight, edge_attr=weight[:, None]))
    with pytest.raises(ValueError, match=r"'edge_type' must tell the relation of every edge for num_relations=2 \(got None\)"):
        MPNN(3, 8, 2, num_relations=2).double()(x, edge_index)


@pytest.mark.parametrize("conv", CONVS)
@pytest.mark.parametrize(
    ("wrong", "message"), [(2, r"\(got 0 to 2\); pass num_relations=3$"), (-1, r"\(got -1 to 0\); number relations from zero$")]
)
def test_edges_of_an_unknown_relation_are_refused(conv: str, wrong: int, message: str) -> None:
    x, edge_index, _ = double("grid")
    edge_type = torch.zeros(edge_index.size(1), dtype=torch.long)
    model = MPNN(3, 8, 2, conv=conv, num_relations=2).double()
    assert model(x, edge_index, edge_type=edge_type).isfinite().all()
    assert model(x, edge_index[:, :0], edge_type=edge_type[:0]).isfinite().all()
    with pytest.raises(ValueError, match=rf"'edge_type' must have a number for each of the {edge_index.size(1)} edges \(got 3\)"):
        model(x, edge_index, edge_type=edge_type[:3])
    edge_type[3] = wrong
    with pytest.raises(ValueError, match="'edge_type' must be from 0 to 1 for num_relations=2 " + message):
        model(x, edge_index, edge_type=edge_type)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"conv": "gat"}, r"'conv' must be one of 'gcn', 'gin', 'graph' \(got 'gat'\)"),
        ({"norm": "pair"}, "'norm' must be one of"),
        ({"mlp_norm": "pair"}, "'mlp_norm' must be one of"),
        ({"num_layers": 0}, r"'num_layers' must be at least 1 \(got 0\)"),
        ({"num_relations": 0}, "'num_relations' must be at least 1"),
        (
            {"num_layers": 1, "out_channels": 2, "feed_forward": True},
            "'feed_forward' must be False for a network whose one layer is linear",
        ),
    ],
)
def test_settings_that_do_not_exist_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MPNN(**{"in_channels": 3, "hidden_channels": 8, "num_layers": 2, **arguments})


@pytest.mark.parametrize("conv", CONVS)
def test_explainers_of_pyg_find_the_edge_that_decides(conv: str) -> None:
    torch.manual_seed(0)
    edge_index = to_undirected(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]))
    model = MPNN(2, 8, 1, conv=conv, out_channels=1, mlp_norm=None, act="tanh")
    explainer = Explainer(
        model,
        GNNExplainer(epochs=20, lr=0.1),
        explanation_type="model",
        edge_mask_type="object",
        model_config=ModelConfig(mode="regression", task_level="node", return_type="raw"),
    )
    mask = explainer(torch.randn(5, 2), edge_index, index=0).edge_mask
    into = edge_index[1] == 0
    assert mask[into].min() > 0
    assert mask[~into & (edge_index[0] != 0)].abs().max() == 0, "edges that a vertex does not see explain nothing about it"


@pytest.mark.parametrize("conv", ["gcn", "gin", "graph"])
def test_resetting_draws_what_nonlinearities_have_learned_too(conv: str) -> None:
    model = MPNN(3, 8, 2, conv=conv, act="prelu")
    slopes = [module.weight for module in model.modules() if isinstance(module, torch.nn.PReLU)]
    for slope in slopes:
        torch.nn.init.ones_(slope)
    model.reset_parameters()
    assert slopes
    assert all(slope.item() == 0.25 for slope in slopes)


def test_repr() -> None:
    assert repr(MPNN(3, 8, 2)) == "MPNN(3, 8, num_layers=2, out_channels=8, conv='gcn')"
    assert repr(MPNN(3, 8, 2, 4, conv="gin", num_relations=2)).endswith("out_channels=4, conv='gin', num_relations=2)")
