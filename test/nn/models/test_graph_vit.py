"""Attention among patches."""

import pytest
import torch
from graphs import ring
from patched_graphs import GRAPHS, patched_graph, run
from torch_geometric.data import Data

from gump.nn.models.graph_vit import GraphViT
from gump.nn.patch_encoder import Patches
from gump.transforms.add_patches import AddPatches


def build(**settings):
    """With batch norms that have seen something, so that they do not pass for the identity."""
    torch.manual_seed(0)
    model = GraphViT(3, 8, 2, **{"heads": 2, "num_patch_layers": 2, "edge_dim": 2} | settings).double()
    for _ in range(3):
        run(model, patched_graph("grid"))
    return model.eval()


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
    tokens, has_vertices = model.encoder(data.x, data.edge_index, None, data.edge_attr, patches)
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
    model, data = build(attention=attention), patched_graph(name)
    assert (run(model, data)[0] - slow_row(model, data)).abs().max() < 1e-12


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("attention", ["hadamard", "standard"])
def test_the_order_of_patches_does_not_matter(name, attention):
    model, data = build(attention=attention), patched_graph(name)
    other = reordered(data)
    assert any(not torch.equal(other[key], data[key]) for key in ("patch_index", "num_patch_vertices"))
    assert (run(model, other) - run(model, data)).abs().max() < 1e-10


def test_more_empty_patches_change_nothing():
    model, data = build(), patched_graph("ring")
    more = data.clone()
    more.num_patch_vertices = torch.nn.functional.pad(data.num_patch_vertices, (1, 2))
    more.num_patch_edges = torch.nn.functional.pad(data.num_patch_edges, (1, 2))
    more.patch_adjacency = torch.nn.functional.pad(data.patch_adjacency, (1, 2, 1, 2))
    more.patch_pe = torch.nn.functional.pad(data.patch_pe, (0, 0, 1, 2), value=7.0)
    assert (run(model, more) - run(model, data)).abs().max() < 1e-12


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, r"'hidden_channels' must be a multiple of 'heads' = 3 \(got 8\)"),
        ({"heads": 0}, r"'heads' must be at least 1 \(got 0\)"),
        ({"attention": "kernel"}, r"'attention' must be one of 'hadamard', 'standard' \(got 'kernel'\)"),
        ({"norm": "graph"}, r"'norm' must be one of 'batch', 'layer', None \(got 'graph'\)"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        GraphViT(**{"in_channels": 3, "hidden_channels": 8, "num_layers": 1} | settings)


def test_repr_names_the_settings():
    assert repr(GraphViT(3, 8, 2)) == (
        "GraphViT(3, 8, num_layers=2, out_channels=8, heads=8, attention='hadamard', num_patch_layers=4)"
    )
