import pytest
import torch
from graphs import path, random_graph, ring
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_undirected

from gump.nn.models.gps import GPS
from gump.nn.models.grit import GRIT
from gump.transforms.rrwp import AddRRWP


def graph(edge_index: torch.Tensor, num_nodes: int, num_steps: int = 4) -> Data:
    data = Data(x=torch.randn(num_nodes, 3).double(), edge_index=edge_index)
    return AddRRWP(num_steps)(data)


def run(model: GRIT, data: Data) -> torch.Tensor:
    pairs = {"pair_index": data.pair_index, "pair_attr": data.pair_attr}
    return model(data.x, data.edge_index, edge_attr=data.edge_attr, batch=data.batch, **pairs)


def test_states_start_as_the_formula_says_and_layers_follow() -> None:
    torch.manual_seed(0)
    edge_index, num_nodes = random_graph(0)  # with self-loops, duplicates and an isolated vertex
    data = graph(edge_index, num_nodes)
    data.edge_attr = torch.randn(edge_index.size(1), 2).double()
    model = GRIT(3, 8, 2, 5, num_steps=4, heads=2, edge_dim=2).double().eval()
    walks = data.pair_attr.view(num_nodes, num_nodes, 4)  # [target, source, step]
    x, e = torch.zeros(num_nodes, 8).double(), torch.zeros(num_nodes, num_nodes, 8).double()
    for i in range(num_nodes):
        x[i] = model.encoder(data.x[i]) + model.lin_self.weight @ walks[i, i]
        for j in range(num_nodes):
            e[i, j] = model.lin_pair.weight @ walks[i, j]
    for (source, target), attr in zip(edge_index.t().tolist(), data.edge_attr, strict=True):
        e[target, source] += model.lin_edge(attr)
    degree = torch.tensor([float((edge_index[1] == v).sum()) for v in range(num_nodes)])
    e = e.flatten(0, 1)
    for conv in model.convs:
        x, e = conv(x, data.pair_index, e, degree)
    assert (run(model, data) - model.lin(x)).abs().max() < 1e-12


def test_one_layer_reaches_all_vertices_of_the_graph_and_none_of_another() -> None:
    torch.manual_seed(0)
    batch = Batch.from_data_list([graph(to_undirected(path(6)[0]), 6), graph(*ring(4))])
    model = GRIT(3, 8, 1, num_steps=4).double().eval()

    def call(x: torch.Tensor) -> torch.Tensor:
        return model(x, batch.edge_index, batch=batch.batch, pair_index=batch.pair_index, pair_attr=batch.pair_attr)

    heard = torch.autograd.functional.jacobian(call, batch.x).abs().sum(dim=(1, 3)) > 0
    assert torch.equal(heard, batch.batch.unsqueeze(0) == batch.batch.unsqueeze(1))


def test_walks_tell_a_hexagon_from_two_triangles_where_messages_cannot() -> None:
    torch.manual_seed(0)
    hexagon, triangle = to_undirected(ring(6)[0]), to_undirected(ring(3)[0])
    one, two = (graph(e, 6) for e in (hexagon, torch.cat([triangle, triangle + 3], dim=1)))
    one.x = two.x = torch.ones(6, 3).double()
    messages = GPS(3, 8, 4).double().eval()
    assert (messages(one.x, one.edge_index) - messages(two.x, two.edge_index)).abs().max() < 1e-9
    model = GRIT(3, 8, 2, num_steps=4).double().eval()
    assert (run(model, one) - run(model, two)).abs().max() > 1e-3


def test_in_a_batch_attributes_find_their_pairs() -> None:
    torch.manual_seed(0)
    graphs = [graph(*random_graph(seed, num_nodes=5 + seed)) for seed in range(3)]
    for data in graphs:
        data.edge_attr = torch.randn(data.num_edges, 2).double()
    model = GRIT(3, 8, 2, num_steps=4, edge_dim=2).double().eval()
    together = run(model, Batch.from_data_list(graphs))
    assert (together - torch.cat([run(model, data) for data in graphs])).abs().max() < 1e-10


def test_arguments_arrive() -> None:
    model = GRIT(3, 8, 2, heads=2, dropout=0.3, attention_dropout=0.4, act="gelu", norm="layer")
    assert all(conv.heads == 2 and conv.dropout.p == 0.3 and conv.attention_dropout.p == 0.4 for conv in model.convs)
    names = {type(module).__name__ for module in model.modules()}
    assert {"GELU", "LayerNorm"} <= names
    assert not {"ReLU", "BatchNorm"} & names
    assert [conv.lin_pair_out is None for conv in model.convs] == [False, True]


def test_dropouts_act_in_training_only() -> None:
    data = graph(*random_graph(0))
    for settings in ({"dropout": 0.5}, {"attention_dropout": 0.5}):
        model = GRIT(3, 8, 1, num_steps=4, norm=None, **settings).double()
        assert not torch.equal(run(model, data), run(model, data))
        model.eval()
        assert torch.equal(run(model, data), run(model, data))


def test_pairs_that_are_missing_or_of_another_graph_are_refused() -> None:
    data, model = graph(*random_graph(0)), GRIT(3, 8, 1, num_steps=4).double()
    with pytest.raises(ValueError, match=r"must be given \(got None\); apply gump.transforms.AddRRWP\(4\) to the data"):
        model(data.x, data.edge_index)
    with pytest.raises(ValueError, match=r"'pair_attr' must have 'num_steps' columns, 5 \(got shape \[81, 4\]\)"):
        run(GRIT(3, 8, 1, num_steps=5).double(), data)
    with pytest.raises(ValueError, match=r"must list all pairs of the 8 vertices \(got 81 columns and 81 rows\)"):
        model(data.x[:8], data.edge_index, pair_index=data.pair_index, pair_attr=data.pair_attr)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hidden_channels": 6}, r"'hidden_channels' must be a multiple of 'heads', 4 \(got 6\)"),
        ({"num_layers": 0}, r"'num_layers' must be at least 1 \(got 0\)"),
        ({"heads": 0}, r"'heads' must be at least 1 \(got 0\)"),
        ({"norm": "pair"}, r"'norm' must be one of 'batch', 'layer', None \(got 'pair'\)"),
        ({"num_steps": 0}, r"'num_steps' must be at least 1 \(got 0\)"),
    ],
)
def test_settings_that_do_not_exist_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GRIT(**{"in_channels": 3, "hidden_channels": 8, "num_layers": 2, **arguments})


def test_edge_attributes_are_read_and_must_fit() -> None:
    torch.manual_seed(0)
    data, model = graph(*random_graph(0)), GRIT(3, 8, 1, num_steps=4, edge_dim=2).double().eval()
    data.edge_attr = torch.randn(data.num_edges, 2)
    out = run(model, data)
    data.edge_attr = data.edge_attr + 1
    assert (run(model, data) - out).abs().max() > 1e-4
    data.edge_attr = data.edge_attr[:, :1]
    with pytest.raises(ValueError, match=r"'edge_attr' must have 'edge_dim' columns, 2 \(got 1\)"):
        run(model, data)


def test_repr() -> None:
    assert repr(GRIT(3, 8, 2)) == "GRIT(3, 8, num_layers=2, out_channels=8, num_steps=17, heads=4)"
