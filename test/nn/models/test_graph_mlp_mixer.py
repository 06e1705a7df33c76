"""MLPs over patches."""

import pytest
import torch
from graphs import barbell
from patched_graphs import GRAPHS, patched_graph, run
from torch_geometric.data import Data

from gump.nn.models.graph_mlp_mixer import GraphMLPMixer
from gump.nn.patch_encoder import Patches
from gump.transforms.add_patches import AddPatches


def build(**settings):
    """With batch norms that have seen something, so that they do not pass for the identity."""
    torch.manual_seed(0)
    model = GraphMLPMixer(3, 8, 2, **{"num_patches": 6, "num_patch_layers": 2, "edge_dim": 2} | settings).double()
    for _ in range(3):
        run(model, patched_graph("grid"))
    return model.eval()


def slow_row(model, data):
    """Channel by channel over the patches that have vertices, then patch by patch."""
    patches = Patches(*(data.get(name) for name in Patches._fields))
    tokens, has_vertices = model.encoder(data.x, data.edge_index, None, data.edge_attr, patches)
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
    model, data = build(), patched_graph(name)
    assert (run(model, data)[0] - slow_row(model, data)).abs().max() < 1e-12


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
    model, data = build(), patched_graph("one vertex")
    empty = data.num_patch_vertices == 0
    assert empty.sum() == 5
    other = data.clone()
    other.patch_pe = torch.where(empty.unsqueeze(-1), 7.0, data.patch_pe)
    assert torch.equal(run(model, other), run(model, data))


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


def test_another_number_of_patches_is_refused():
    with pytest.raises(ValueError, match=r"'num_patches' must be that of gump.transforms.AddPatches, 4 \(got 6\)"):
        run(build(), patched_graph("ring", num_patches=4))


def test_there_must_be_patches():
    with pytest.raises(ValueError, match=r"'num_patches' must be at least 1 \(got 0\)"):
        GraphMLPMixer(3, 8, 1, num_patches=0)


def test_repr_names_the_settings():
    assert repr(GraphMLPMixer(3, 8, 2)) == ("GraphMLPMixer(3, 8, num_layers=2, out_channels=8, num_patches=32, num_patch_layers=4)")
