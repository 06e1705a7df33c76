"""MLPs over patches."""

import pytest
import torch
from graphs import SYMMETRIC, barbell, random_graph
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import AddRandomWalkPE

from gump.nn.models.graph_mlp_mixer import GraphMLPMixer
from gump.nn.models.predictor import GraphPredictor
from gump.nn.patch_encoder import Patches
from gump.transforms.add_patches import AddPatches

NO_EDGES = torch.empty(2, 0, dtype=torch.long)
GRAPHS = SYMMETRIC | {f"random {s}": random_graph(s) for s in range(3)} | {"no edges": (NO_EDGES, 4), "one vertex": (NO_EDGES, 1)}


def graph(name, equal_features=False, num_patches=6):
    edge_index, num_nodes = GRAPHS[name]
    generator = torch.Generator().manual_seed(num_nodes)
    x = torch.randn(num_nodes, 3, generator=generator, dtype=torch.float64)
    edge_attr = torch.randn(edge_index.size(1), 2, generator=generator, dtype=torch.float64)
    if equal_features:
        x, edge_attr = torch.ones_like(x), torch.ones_like(edge_attr)
    return AddPatches(num_patches, method="bfs")(Data(x=x, edge_index=edge_index, edge_attr=edge_attr))


def build(**settings):
    """With batch norms that have seen something, so that they do not pass for the identity."""
    torch.manual_seed(0)
    model = GraphMLPMixer(3, 8, 2, **{"num_patches": 6, "num_patch_layers": 2, "edge_dim": 2} | settings).double()
    for _ in range(3):
        run(model, graph("grid"))
    return model.eval()


def run(model, data):
    patches = {name: data.get(name) for name in Patches._fields}
    return model(data.x, data.edge_index, edge_attr=data.edge_attr, batch=data.get("batch"), **patches)


def relabeled(data, seed=0):
    """The same graph and patches with other numbers for the vertices."""
    label = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(seed))
    other = data.clone()
    other.x, other.patch_index, other.edge_index = data.x[label.argsort()], label[data.patch_index], label[data.edge_index]
    return other


def slow_row(model, data):
    """Channel by channel over the patches that have vertices, then patch by patch."""
    patches = Patches(*(data.get(name) for name in Patches._fields))
    tokens, has_vertices = model.encoder(data.x, data.edge_index, None, data.edge_attr, None, patches)
    real = has_vertices[0].nonzero().flatten().tolist()
    z = {p: tokens[0, p] for p in real}
    gelu = torch.nn.functional.gelu
    for layer in model.layers:
        (_, first, _, _, second), (_, third, _, _, fourth) = layer.patch_mlp, layer.channel_mlp
        normed = {p: layer.patch_norm(z[p]) for p in real}
        for channel in range(8):
            hidden = gelu(first.bias + sum(first.weight[:, p] * normed[p][channel] for p in real))
            for p in real:
                z[p] = z[p] + (second.weight[p] @ hidden + second.bias[p]) * torch.eye(8).double()[channel]
        z = {p: z[p] + fourth(gelu(third(layer.channel_norm(z[p])))) for p in real}
    return sum(model.norm(z[p]) for p in real) / len(real)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_row_is_what_a_loop_over_patches_computes(name):
    model, data = build(), graph(name)
    assert (run(model, data)[0] - slow_row(model, data)).abs().max() < 1e-12


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("equal_features", [True, False])
def test_relabeling_vertices_with_their_patches_changes_nothing(name, equal_features):
    model, data = build(), graph(name, equal_features)
    assert (run(model, relabeled(data)) - run(model, data)).abs().max() < 1e-10


def test_the_order_of_patches_matters():
    edge_index, num_nodes = barbell(4)
    x = torch.randn(num_nodes, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    data = AddPatches(2, method="bfs", walk_length=0)(Data(x=x, edge_index=edge_index))
    traded = data.clone()
    traded.num_patch_vertices, traded.num_patch_edges = data.num_patch_vertices.flip(1), data.num_patch_edges.flip(1)
    for key, sizes in (("patch_index", data.num_patch_vertices), ("patch_edge", data.num_patch_edges)):
        traded[key] = torch.cat(data[key].split(sizes[0].tolist())[::-1])
    torch.manual_seed(0)
    model = GraphMLPMixer(3, 8, 2, num_patches=2, num_patch_layers=2, patch_pe_dim=0).double().eval()
    assert (run(model, traded) - run(model, data)).abs().max() > 1e-4
    for layer in model.layers:  # and for no other reason than the MLP over patches
        torch.nn.init.zeros_(layer.patch_mlp[4].weight)
        torch.nn.init.zeros_(layer.patch_mlp[4].bias)
    assert (run(model, traded) - run(model, data)).abs().max() < 1e-12


def test_what_stands_in_an_empty_patch_is_not_read():
    model, data = build(), graph("one vertex")
    empty = data.num_patch_vertices == 0
    assert empty.sum() == 5
    other = data.clone()
    other.patch_pe = torch.where(empty.unsqueeze(-1), 7.0, data.patch_pe)
    assert torch.equal(run(model, other), run(model, data))


@pytest.mark.parametrize("exchange", [True, False])
def test_a_batch_of_graphs_equals_its_members(exchange):
    model, data_list = build(exchange=exchange), [graph(name) for name in GRAPHS]
    together = run(model, Batch.from_data_list(data_list))
    assert together.shape == (len(GRAPHS), 8)
    assert (together - torch.cat([run(model, data) for data in data_list])).abs().max() < 1e-12


def test_one_layer_joins_the_ends_of_a_graph():
    edge_index, num_nodes = barbell(8)
    data = AddPatches(6, method="bfs")(Data(x=torch.randn(num_nodes, 3).double(), edge_index=edge_index))
    torch.manual_seed(0)
    layer = GraphMLPMixer(3, 8, 1, num_patches=6).double().layers[0]
    tokens = torch.randn(1, 6, 8, dtype=torch.float64, requires_grad=True)
    has_vertices = data.num_patch_vertices > 0
    rows = [torch.autograd.grad(layer(tokens, has_vertices)[0, p].sum(), tokens)[0][0].abs().sum(1) > 0 for p in range(6)]
    assert (data.patch_adjacency == 0).any()
    assert torch.stack(rows).all()


@pytest.mark.parametrize("norm", ["batch", "layer", None])
def test_a_step_on_a_batch_lowers_the_loss_and_every_gradient_is_finite(norm):
    data_list = [AddRandomWalkPE(4, attr_name=None)(graph(name)) for name in GRAPHS]
    for data in data_list:
        data.x = data.x.double()
    batch = Batch.from_data_list(data_list)
    torch.manual_seed(0)
    model = GraphPredictor(GraphMLPMixer(7, 16, 2, num_patches=6, edge_dim=2, norm=norm), 3).double()
    target = torch.arange(len(data_list)) % 3
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(run(model, batch), target)
        loss.backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[1] < losses[0]


def test_dropout_is_active_in_training_alone():
    model, data = build(dropout=0.5, patch_dropout=0.5), graph("grid")
    assert torch.equal(run(model, data), run(model, data))
    model.train()
    assert not torch.equal(run(model, data), run(model, data))


def test_new_weights_are_drawn_for_every_parameter():
    model = build(exchange=True, out_channels=2)
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 7.0)
    model.reset_parameters()
    assert all((parameter != 7).all() for parameter in model.parameters())


def test_the_width_of_edge_attributes_is_told():
    assert (GraphMLPMixer(3, 8, 1).edge_dim, GraphMLPMixer(3, 8, 1, edge_dim=4).edge_dim) == (0, 4)


def test_the_width_of_the_result_is_told():
    assert GraphMLPMixer.pools
    assert (GraphMLPMixer(3, 8, 1).out_channels, GraphMLPMixer(3, 8, 1, 5).out_channels) == (8, 5)
    assert run(build(out_channels=5), graph("ring")).shape == (1, 5)


def test_another_number_of_patches_is_refused():
    with pytest.raises(ValueError, match=r"'num_patches' must be that of gump.transforms.AddPatches, 4 \(got 6\)"):
        run(build(), graph("ring", num_patches=4))


def test_a_plain_graph_is_refused():
    with pytest.raises(ValueError, match=r"'patch_index' must be given \(got None\); apply gump.transforms.AddPatches"):
        GraphMLPMixer(3, 8, 1)(torch.ones(3, 3), NO_EDGES)


@pytest.mark.parametrize("argument", ["num_layers", "num_patches", "hidden_channels"])
def test_settings_that_make_no_sense_are_refused(argument):
    with pytest.raises(ValueError, match=rf"'{argument}' must be at least 1 \(got 0\)"):
        GraphMLPMixer(**{"in_channels": 3, "hidden_channels": 8, "num_layers": 1} | {argument: 0})


def test_repr_names_the_settings():
    assert repr(GraphMLPMixer(3, 8, 2)) == ("GraphMLPMixer(3, 8, num_layers=2, out_channels=8, num_patches=32, num_patch_layers=4)")
