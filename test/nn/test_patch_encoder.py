"""Tokens of patches: what they see, and what they are."""

import pytest
import torch
from graphs import path
from patched_graphs import GRAPHS, patched_graph
from torch_geometric.data import Batch, Data
from torch_geometric.utils import subgraph

from gump.nn.patch_encoder import PatchEncoder, Patches, mean_over_patches
from gump.transforms.add_patches import AddPatches


def graph(name, num_patches=4, walk_length=3):
    return patched_graph(name, num_patches=num_patches, walk_length=walk_length)


def encoder(**settings):
    """With batch norms that have seen something, so that they do not pass for the identity."""
    torch.manual_seed(0)
    model = PatchEncoder(3, 8, 3, **{"patch_pe_dim": 3, "edge_dim": 2} | settings).double()
    for _ in range(3):
        run(model, graph("grid"))
    return model.eval()


def run(model, data):
    patches = Patches(*(data.get(name) for name in Patches._fields))
    return model(data.x, data.edge_index, data.get("edge_weight"), data.edge_attr, patches)


def slow_token(model, data, p):
    """The token of one patch, as if the patch were a graph of its own."""
    sizes = data.num_patch_vertices.flatten().tolist()
    members = data.patch_index.split(sizes)[p]
    order = torch.full((data.num_nodes,), -1)
    order[members] = torch.arange(len(members))
    edge_index, edge_attr = subgraph(members, data.edge_index, data.edge_attr, num_nodes=data.num_nodes)
    extra = () if model.edge_dim == 0 else (model.edge_lin(edge_attr),)
    h = model.vertex_lin(data.x[members])
    for conv, norm, lin in zip(model.convs, model.norms, model.lins, strict=True):
        h = lin(h + norm(conv(h, order[edge_index], *extra)).relu())
    return h.mean(0) + model.patch_lin(data.patch_pe[0, p].double())


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("settings", [{}, {"edge_dim": 0}, {"norm": "layer"}, {"norm": None}])
def test_a_token_is_that_of_its_patch_alone(name, settings):
    model, data = encoder(**settings), graph(name)
    tokens, has_vertices = run(model, data)
    for p, size in enumerate(data.num_patch_vertices[0].tolist()):
        expected = slow_token(model, data, p) if size > 0 else torch.zeros(8).double()
        assert (tokens[0, p] - expected).abs().max() < 1e-12
        assert bool(has_vertices[0, p]) == (size > 0)


def reach(model, data):
    """Whether each token feels each vertex."""
    data = data.clone()
    data.x.requires_grad_()
    tokens, _ = run(model, data)
    rows = [torch.autograd.grad(token.sum(), data.x, retain_graph=True)[0].abs().sum(1) > 0 for token in tokens[0]]
    return torch.stack(rows)


def members(data):
    member = torch.zeros(data.num_patch_vertices.numel(), data.num_nodes, dtype=torch.bool)
    patch = torch.arange(len(member)).repeat_interleave(data.num_patch_vertices.flatten())
    member[patch, data.patch_index] = True
    return member


def test_messages_stay_within_patches_unless_these_exchange():
    edge_index, num_nodes = path(16)
    x = torch.randn(num_nodes, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    data = AddPatches(4, method="bfs", walk_length=3)(Data(x=x, edge_index=edge_index))
    alone, exchanging = (reach(encoder(edge_dim=0, exchange=e, act="gelu"), data) for e in (False, True))
    member = members(data)
    assert torch.equal(alone, member)
    assert (exchanging & ~member).any()
    assert (member & ~exchanging).sum() == 0


def test_exchange_averages_a_vertex_over_its_patches_after_adding_the_patch():
    model, data = encoder(edge_dim=0, exchange=True), graph("grid")
    patch = torch.arange(4).repeat_interleave(data.num_patch_vertices[0])
    index, sizes = data.patch_index, data.num_patch_vertices[0].tolist()
    edge_patch = torch.arange(4).repeat_interleave(data.num_patch_edges[0])
    place = {(int(p), int(v)): s for s, (p, v) in enumerate(zip(patch, index, strict=True))}
    ends = data.edge_index[:, data.patch_edge_column]
    edges = torch.tensor([[place[int(p), int(v)] for p, v in zip(edge_patch, end, strict=True)] for end in ends])
    h = model.vertex_lin(data.x)[index]
    for k in range(3):
        if k > 0:
            means = torch.stack([part.mean(0) for part in h.split(sizes)])
            h = h + model.exchange_norms[k - 1](model.exchange_lins[k - 1](means)).relu()[patch]
            h = torch.stack([h[index == v].mean(0) for v in index])
        h = model.lins[k](h + model.norms[k](model.convs[k](h, edges)).relu())
    expected = torch.stack([part.mean(0) for part in h.split(sizes)]) + model.patch_lin(data.patch_pe[0].double())
    assert (run(model, data)[0][0] - expected).abs().max() < 1e-12


@pytest.mark.parametrize("exchange", [False, True])
def test_empty_patches_make_no_difference_in_training(exchange):
    model = encoder(exchange=exchange).train()
    few, many = (run(model, graph("star", num_patches))[0].sum(1) for num_patches in (6, 32))  # which has six vertices
    assert (few - many).abs().max() < 1e-12


@pytest.mark.parametrize("exchange", [False, True])
def test_a_batch_equals_its_members(exchange):
    model, data_list = encoder(exchange=exchange), [graph(name) for name in GRAPHS]
    tokens, has_vertices = run(model, Batch.from_data_list(data_list))
    alone = [run(model, data) for data in data_list]
    assert (tokens - torch.cat([t for t, _ in alone])).abs().max() < 1e-12
    assert torch.equal(has_vertices, torch.cat([h for _, h in alone]))


def test_edge_weights_count_as_an_attribute_where_there_is_room():
    model, data = encoder(), graph("grid")
    weighted = data.clone()
    weighted.edge_weight, weighted.edge_attr = data.edge_attr[:, 1], data.edge_attr[:, :1]
    assert torch.equal(run(model, weighted)[0], run(model, data)[0])


def test_the_mean_leaves_out_empty_patches():
    tokens = torch.tensor([[[1.0], [2.0], [9.0]], [[5.0], [5.0], [5.0]]])
    assert mean_over_patches(tokens, torch.tensor([[True, True, False], [False, False, False]])).tolist() == [[1.5], [0.0]]


@pytest.mark.parametrize("missing", [name for name in Patches._fields if name != "patch_pe"])
def test_a_graph_without_patches_is_refused(missing):
    model, data = encoder(), graph("grid")
    del data[missing]
    with pytest.raises(ValueError, match=f"'{missing}' must be given \\(got None\\); apply gump.transforms.AddPatches"):
        run(model, data)


def test_other_widths_are_refused():
    with pytest.raises(ValueError, match=r"'patch_pe' must have 'patch_pe_dim' = 3 columns \(got 5\); .* walk_length=3"):
        run(encoder(), graph("grid", walk_length=5))
    with pytest.raises(ValueError, match=r"'patch_pe' must have 'patch_pe_dim' = 3 columns \(got None\)"):
        run(encoder(), graph("grid", walk_length=0))
    data = graph("grid")
    data.edge_attr = data.edge_attr[:, :1]
    with pytest.raises(ValueError, match=r"'edge_dim' must be the number of edge attributes \(got 2\); the edges came with 1"):
        run(encoder(), data)
    with pytest.raises(ValueError, match=r"'num_layers' must be at least 1 \(got 0\)"):
        PatchEncoder(3, 8, 0)


def test_repr_names_the_settings():
    assert repr(PatchEncoder(3, 8, 2)) == "PatchEncoder(3, 8, num_layers=2, patch_pe_dim=8, edge_dim=0, exchange=False)"
