import pytest
import torch
from graphs import path, random_graph, ring
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_dense_adj, to_undirected

from gump.nn.models.exphormer import Exphormer
from gump.transforms.expander import AddExpander

NO_EDGES = torch.empty(2, 0, dtype=torch.long)


def graph(edge_index: torch.Tensor, num_nodes: int, expander_index: torch.Tensor = NO_EDGES) -> Data:
    return Data(x=torch.randn(num_nodes, 3).double(), edge_index=to_undirected(edge_index), expander_index=expander_index)


def run(model: Exphormer, data: Data) -> torch.Tensor:
    return model(data.x, data.edge_index, edge_attr=data.edge_attr, batch=data.batch, expander_index=data.expander_index)


def heard(model: Exphormer, data: Data) -> torch.Tensor:
    """Which vertices (columns) each vertex (row) has heard of."""

    def call(x: torch.Tensor) -> torch.Tensor:
        return model(x, data.edge_index, batch=data.batch, expander_index=data.expander_index)

    return torch.autograd.functional.jacobian(call, data.x).abs().sum(dim=(1, 3)) > 0


def reach(edge_index: torch.Tensor, num_nodes: int, num_steps: int) -> torch.Tensor:
    step = torch.eye(num_nodes) + to_dense_adj(edge_index, max_num_nodes=num_nodes)[0].t()
    return torch.linalg.matrix_power(step, num_steps) > 0


@pytest.mark.parametrize("conv", ["gin", None])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_alone_it_moves_one_hop_per_layer_and_along_expander_edges_as_well(num_layers: int, conv: str | None) -> None:
    torch.manual_seed(0)
    long_range = torch.tensor([[0, 9, 2], [9, 0, 7]])
    data = graph(*path(10), long_range)
    model = Exphormer(3, 8, num_layers, conv=conv, num_virtual_nodes=0).double().eval()
    without = Exphormer(3, 8, num_layers, conv=conv, num_virtual_nodes=0, expander=False).double().eval()
    union = torch.cat([data.edge_index, long_range], dim=1)
    assert torch.equal(heard(without, data), reach(data.edge_index, 10, num_layers))
    assert torch.equal(heard(model, data), reach(union, 10, num_layers))
    assert not torch.equal(reach(union, 10, num_layers), reach(data.edge_index, 10, num_layers))


@pytest.mark.parametrize("num_virtual_nodes", [1, 3])
def test_a_virtual_node_joins_all_vertices_of_its_graph_in_two_layers_and_none_of_another(num_virtual_nodes: int) -> None:
    torch.manual_seed(0)
    batch = Batch.from_data_list([graph(*path(8)), graph(NO_EDGES, 3), graph(*ring(6))])
    one, two = (Exphormer(3, 8, n, num_virtual_nodes=num_virtual_nodes).double().eval() for n in (1, 2))
    assert torch.equal(heard(one, batch), reach(batch.edge_index, 17, 1))
    assert torch.equal(heard(two, batch), batch.batch.unsqueeze(0) == batch.batch.unsqueeze(1))


def test_attention_is_over_the_union_and_sums_to_one() -> None:
    torch.manual_seed(0)
    edge_index, num_nodes = path(5)
    expander_index = torch.tensor([[0, 1, 4, 0], [4, 2, 0, 1]])  # two of them are edges of the path
    data = graph(edge_index, num_nodes, expander_index)
    model = Exphormer(3, 8, 1, heads=2, num_virtual_nodes=2).double()
    index, attr, mask = model._interaction(data.x, data.edge_index, None, None, expander_index)
    pairs = [tuple(pair) for pair in index[:, mask].t().tolist()]
    virtual = {(v, w) for v in range(5) for w in (5, 6)}
    union = {tuple(p) for p in torch.cat([data.edge_index, expander_index], dim=1).t().tolist()}
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == union | virtual | {(w, v) for v, w in virtual}
    x = torch.cat([model.encoder(data.x), model.virtual_node.weight])
    alpha = model.layers[0].attention.attention(x, index, attr, mask)
    total = torch.zeros(7, 2).double().index_add(0, index[1], alpha)
    assert (total - 1).abs().max() < 1e-12


def test_edges_have_states_by_their_kind() -> None:
    torch.manual_seed(0)
    data = graph(*path(3), torch.tensor([[0, 2], [2, 0]]))
    model = Exphormer(3, 8, 1, num_virtual_nodes=2).double()
    _, attr, _ = model._interaction(data.x, data.edge_index, None, None, data.expander_index)
    learned = [model.edge_encoder.weight] * 4 + [model.expander_edge.weight] * 2
    learned += [model.edge_to_virtual.weight] * 3 + [model.edge_from_virtual.weight] * 3
    assert torch.equal(attr, torch.cat(learned))
    edge_attr = torch.randn(4, 2).double()
    model = Exphormer(3, 8, 1, edge_dim=2).double()
    _, attr, _ = model._interaction(data.x, data.edge_index, edge_attr, None, data.expander_index)
    assert torch.equal(attr[:4], model.edge_encoder(edge_attr))


def test_an_expander_within_the_graph_changes_nothing() -> None:
    torch.manual_seed(0)
    data = graph(*ring(6))
    model = Exphormer(3, 8, 3).double().eval()
    alone = run(model, data)
    data.expander_index = data.edge_index[:, :5]
    assert (run(model, data) - alone).abs().max() < 1e-12
    data.expander_index = torch.tensor([[0, 3], [3, 0]])
    assert (run(model, data) - alone).abs().max() > 1e-4


def test_one_layer_is_the_formula() -> None:
    torch.manual_seed(0)
    data = graph(*random_graph(0))
    model = Exphormer(3, 8, 1, 5, norm="layer", expander=False, num_virtual_nodes=0).double()
    layer, h = model.layers[0], model.encoder(data.x)
    states = model.edge_encoder.weight.expand(data.num_edges, -1)
    local = layer.conv_norm(h + layer.conv(h, data.edge_index))
    attended = layer.attention_norm(h + layer.attention(h, data.edge_index, states))
    mixed, block = local + attended, layer.block
    expected = model.lin(block.norm(mixed + block.lin2(torch.relu(block.lin1(mixed)))))
    assert (run(model, data) - expected).abs().max() < 1e-12


def test_the_number_of_graphs_may_be_told() -> None:
    torch.manual_seed(0)
    batch = Batch.from_data_list([graph(*path(4)), graph(*ring(6))])
    model = Exphormer(3, 8, 2).double().eval()
    told = model(batch.x, batch.edge_index, batch=batch.batch, expander_index=batch.expander_index, ptr=batch.ptr)
    assert torch.equal(told, run(model, batch))


def test_a_batch_of_graphs_without_vertices_has_no_answers() -> None:
    batch = Batch.from_data_list([graph(NO_EDGES, 0), graph(NO_EDGES, 0)])
    assert run(Exphormer(3, 8, 2).double(), batch).shape == (0, 8)


def test_dropout_acts_in_training_only() -> None:
    data, model = graph(*random_graph(0)), Exphormer(3, 8, 1, norm=None, dropout=0.5).double()
    assert not torch.equal(run(model, data), run(model, data))
    model.eval()
    assert torch.equal(run(model, data), run(model, data))


def test_edge_weights_matter_to_gcn_and_to_it_alone() -> None:
    data = graph(*random_graph(0))
    weight = torch.rand(data.num_edges).double()
    for conv in ("gcn", "gin"):
        model = Exphormer(3, 8, 1, conv=conv, expander=False).double().eval()
        assert torch.equal(run(model, data), model(data.x, data.edge_index, edge_weight=weight)) == (conv != "gcn")


def test_a_graph_without_expander_is_refused_unless_none_is_asked_for() -> None:
    data = graph(*ring(4))
    with pytest.raises(ValueError, match=r"'expander_index' must be given \(got None\); apply gump.transforms.AddExpander"):
        Exphormer(3, 8, 1).double()(data.x, data.edge_index)
    assert Exphormer(3, 8, 1, expander=False).double()(data.x, data.edge_index).shape == (4, 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hidden_channels": 6}, r"'hidden_channels' must be a multiple of 'heads', 4 \(got 6\)"),
        ({"num_layers": 0}, r"'num_layers' must be at least 1 \(got 0\)"),
        ({"heads": 0}, r"'heads' must be at least 1 \(got 0\)"),
        ({"norm": "pair"}, r"'norm' must be one of 'batch', 'layer', None \(got 'pair'\)"),
        ({"conv": "gine"}, r"'edge_dim' must be at least 1 for conv='gine' \(got 0\)"),
        ({"num_virtual_nodes": -1}, r"'num_virtual_nodes' must be at least 0 \(got -1\)"),
    ],
)
def test_settings_that_do_not_exist_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Exphormer(**{"in_channels": 3, "hidden_channels": 8, "num_layers": 2, **arguments})


@pytest.mark.parametrize("conv", ["gine", None])
def test_edge_attributes_are_read_and_must_fit(conv: str | None) -> None:
    torch.manual_seed(0)
    data, model = graph(*random_graph(0)), Exphormer(3, 8, 1, conv=conv, edge_dim=2).double().eval()
    data.edge_attr = torch.randn(data.num_edges, 2)
    out = run(model, data)
    data.edge_attr = data.edge_attr * 3
    assert (run(model, data) - out).abs().max() > 1e-4
    data.edge_attr = data.edge_attr[:, :1]
    with pytest.raises(ValueError, match=r"'edge_attr' must have 'edge_dim' columns, 2 \(got 1\)"):
        run(model, data)


def test_it_reads_what_the_transform_writes_and_gradients_reach_every_parameter() -> None:
    torch.manual_seed(0)
    batch = Batch.from_data_list([AddExpander(degree=2, seed=k)(graph(*random_graph(k))) for k in range(2)])
    model = Exphormer(3, 8, 2).double().eval()
    (run(model, batch) * torch.randn(18, 8)).sum().backward()
    assert [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0] == []


def test_repr() -> None:
    expected = "Exphormer(3, 8, num_layers=2, out_channels=8, conv='gin', heads=4, expander=True, num_virtual_nodes=1)"
    assert repr(Exphormer(3, 8, 2)) == expected
