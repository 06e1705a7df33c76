"""Attention among patches."""

import pytest
import torch
from graphs import SYMMETRIC, random_graph, ring
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import AddRandomWalkPE

from gump.nn.models.graph_vit import GraphViT
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
    model = GraphViT(3, 8, 2, **{"heads": 2, "num_patch_layers": 2, "edge_dim": 2} | settings).double()
    for _ in range(3):
        run(model, graph("grid"))
    return model.eval()


def run(model, data):
    patches = {name: data.get(name) for name in Patches._fields}
    return model(data.x, data.edge_index, edge_attr=data.edge_attr, batch=data.get("batch"), **patches)


def relabeled(data, seed=0):
    """The same graph and patches with other numbers for the vertices, and the columns of edge_index in another order."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.randperm(data.num_nodes, generator=generator)
    order = torch.randperm(data.edge_index.size(1), generator=generator)
    other = data.clone()
    other.x, other.patch_index = data.x[label.argsort()], label[data.patch_index]
    other.edge_index, other.edge_attr = label[data.edge_index][:, order], data.edge_attr[order]
    other.patch_edge_column = order.argsort()[data.patch_edge_column]
    return other


def reordered(data, seed=0):
    """The same graph with its patches in another order."""
    order = torch.randperm(data.num_patch_vertices.size(1), generator=torch.Generator().manual_seed(seed))
    other = data.clone()
    vertex_sizes, edge_sizes = data.num_patch_vertices[0], data.num_patch_edges[0]

    def moved(values, sizes):
        parts = values.split(sizes.tolist())
        return torch.cat([parts[p] for p in order])

    other.patch_index = moved(data.patch_index, vertex_sizes)
    other.patch_edge = moved(data.patch_edge, edge_sizes)
    other.patch_edge_column = moved(data.patch_edge_column, edge_sizes)
    other.num_patch_vertices, other.num_patch_edges = vertex_sizes[order][None], edge_sizes[order][None]
    other.patch_adjacency = data.patch_adjacency[:, order][:, :, order]
    other.patch_pe = data.patch_pe[:, order]
    return other


def slow_row(model, data):
    """Patch by patch and head by head, over the patches that have vertices."""
    patches = Patches(*(data.get(name) for name in Patches._fields))
    tokens, has_vertices = model.encoder(data.x, data.edge_index, None, data.edge_attr, None, patches)
    real = has_vertices[0].nonzero().flatten()
    z, shared = list(tokens[0][real]), data.patch_adjacency[0][real][:, real]
    for layer in model.layers:
        normed = [layer.attention_norm(token) for token in z]
        query, key, value = zip(*(layer.query_key_value(token).chunk(3) for token in normed), strict=True)
        new = []
        for p in range(len(z)):
            heads = []
            for h in range(0, 8, 4):
                score = torch.stack([query[p][h : h + 4] @ k[h : h + 4] / 2 for k in key]).exp()
                weight = score / score.sum()
                if model.attention == "hadamard":
                    weight = weight * shared[p]
                heads.append(sum(w * v[h : h + 4] for w, v in zip(weight, value, strict=True)))
            mixed = z[p] + layer.out(torch.cat(heads))
            new.append(mixed + layer.lin2(layer.lin1(layer.mlp_norm(mixed)).relu()))
        z = new
    return torch.stack(z).mean(0)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("attention", ["hadamard", "standard"])
def test_a_row_is_what_a_loop_over_patches_computes(name, attention):
    model, data = build(attention=attention), graph(name)
    assert (run(model, data)[0] - slow_row(model, data)).abs().max() < 1e-12


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("equal_features", [True, False])
@pytest.mark.parametrize("exchange", [True, False])
def test_relabeling_vertices_with_their_patches_changes_nothing(name, equal_features, exchange):
    model, data = build(exchange=exchange), graph(name, equal_features)
    assert (run(model, relabeled(data)) - run(model, data)).abs().max() < 1e-10


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("attention", ["hadamard", "standard"])
def test_the_order_of_patches_does_not_matter(name, attention):
    model, data = build(attention=attention), graph(name)
    other = reordered(data)
    assert any(not torch.equal(other[key], data[key]) for key in ("patch_index", "num_patch_vertices"))
    assert (run(model, other) - run(model, data)).abs().max() < 1e-10


def test_more_empty_patches_change_nothing():
    model, data = build(), graph("ring")
    more = data.clone()
    more.num_patch_vertices = torch.nn.functional.pad(data.num_patch_vertices, (1, 2))
    more.num_patch_edges = torch.nn.functional.pad(data.num_patch_edges, (1, 2))
    more.patch_adjacency = torch.nn.functional.pad(data.patch_adjacency, (1, 2, 1, 2))
    more.patch_pe = torch.nn.functional.pad(data.patch_pe, (0, 0, 1, 2), value=7.0)
    assert (run(model, more) - run(model, data)).abs().max() < 1e-12


@pytest.mark.parametrize("exchange", [True, False])
def test_a_batch_of_graphs_equals_its_members(exchange):
    model, data_list = build(exchange=exchange), [graph(name) for name in GRAPHS]
    together = run(model, Batch.from_data_list(data_list))
    assert together.shape == (len(GRAPHS), 8)
    assert (together - torch.cat([run(model, data) for data in data_list])).abs().max() < 1e-12


def test_values_come_from_patches_that_overlap_or_in_standard_attention_from_all():
    data = AddPatches(6, method="bfs")(Data(x=torch.randn(24, 3).double(), edge_index=ring(24)[0]))
    apart = data.patch_adjacency[0] == 0
    assert apart.any()
    reached = {}
    for attention in ("hadamard", "standard"):
        layer = build(attention=attention).layers[0]
        with torch.no_grad():
            layer.query_key_value.weight[:16] = 0  # the softmax is flat, and what is left comes through the values
        tokens = torch.randn(1, 6, 8, dtype=torch.float64, requires_grad=True)
        weight = data.patch_adjacency.double().unsqueeze(1) if attention == "hadamard" else None
        out = layer(tokens, torch.ones(1, 6, dtype=torch.bool), weight)
        rows = [torch.autograd.grad(out[0, p].sum(), tokens, retain_graph=True)[0][0].abs().sum(1) > 0 for p in range(6)]
        reached[attention] = torch.stack(rows)
    assert torch.equal(reached["hadamard"], ~apart)
    assert reached["standard"].all()


@pytest.mark.parametrize("norm", ["batch", "layer", None])
@pytest.mark.parametrize("exchange", [True, False])
def test_a_step_on_a_batch_lowers_the_loss_and_every_gradient_is_finite(norm, exchange):
    data_list = [AddRandomWalkPE(4, attr_name=None)(graph(name)) for name in GRAPHS]
    for data in data_list:
        data.x = data.x.double()
    batch = Batch.from_data_list(data_list)
    torch.manual_seed(0)
    model = GraphPredictor(GraphViT(7, 16, 2, edge_dim=2, norm=norm, exchange=exchange), 3).double()
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


def test_a_graph_without_vertices_gets_a_finite_row():
    empty = Data(x=torch.empty(0, 3).double(), edge_index=NO_EDGES, edge_attr=torch.empty(0, 2).double())
    data_list = [graph("ring"), AddPatches(6, method="bfs")(empty), graph("grid")]
    out = run(build(), Batch.from_data_list(data_list))
    assert out.isfinite().all()
    assert out[1].abs().max() == 0


def test_new_weights_are_drawn_for_every_parameter():
    model = build(exchange=True, out_channels=2)
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 7.0)
    model.reset_parameters()
    assert all((parameter != 7).all() for parameter in model.parameters())


def test_the_width_of_edge_attributes_is_told():
    assert (GraphViT(3, 16, 1).edge_dim, GraphViT(3, 16, 1, edge_dim=4).edge_dim) == (0, 4)


def test_the_width_of_the_result_is_told():
    assert GraphViT.pools
    assert (GraphViT(3, 16, 1).out_channels, GraphViT(3, 16, 1, 5).out_channels) == (16, 5)
    assert run(build(out_channels=5), graph("ring")).shape == (1, 5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, r"'hidden_channels' must be a multiple of 'heads' = 3 \(got 8\)"),
        ({"heads": 0}, r"'heads' must be at least 1 \(got 0\)"),
        ({"num_layers": 0}, r"'num_layers' must be at least 1 \(got 0\)"),
        ({"attention": "kernel"}, r"'attention' must be one of 'hadamard', 'standard' \(got 'kernel'\)"),
        ({"norm": "graph"}, r"'norm' must be one of 'batch', 'layer', None \(got 'graph'\)"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        GraphViT(**{"in_channels": 3, "hidden_channels": 8, "num_layers": 1} | settings)


def test_a_plain_graph_is_refused():
    with pytest.raises(ValueError, match=r"'patch_index' must be given \(got None\); apply gump.transforms.AddPatches"):
        GraphViT(3, 8, 1)(torch.ones(3, 3), NO_EDGES)


def test_repr_names_the_settings():
    assert repr(GraphViT(3, 8, 2)) == (
        "GraphViT(3, 8, num_layers=2, out_channels=8, heads=8, attention='hadamard', num_patch_layers=4)"
    )
