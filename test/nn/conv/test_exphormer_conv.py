import pytest
import torch
from graphs import random_graph
from torch_geometric.utils import coalesce

from gump.nn.conv.exphormer_conv import ExphormerConv


def inputs(seed: int = 0, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    edge_index, num_nodes = random_graph(seed)
    edge_index = coalesce(edge_index)
    torch.manual_seed(seed)
    return torch.randn(num_nodes, 8).double(), edge_index, scale * torch.randn(edge_index.size(1), 8).double()


@pytest.mark.parametrize("heads", [1, 2, 8])
@pytest.mark.parametrize("scale", [1.0, 100.0])  # the second is clamped
def test_it_equals_dense_attention_under_a_mask(heads: int, scale: float) -> None:
    x, edge_index, edge_attr = inputs(scale=scale)
    conv, n, width = ExphormerConv(8, heads).double(), x.size(0), 8 // heads
    mask, e = torch.zeros(n, n, dtype=torch.bool), torch.zeros(n, n, 8).double()
    mask[edge_index[1], edge_index[0]] = True
    e[edge_index[1], edge_index[0]] = edge_attr
    q, k, v = conv.lin_query(x), conv.lin_key(x), conv.lin_value(x)
    products = (q.unsqueeze(1) * k.unsqueeze(0) * conv.lin_edge(e)).view(n, n, heads, width).sum(-1) / width**0.5
    scores = products.clamp(-5, 5).masked_fill(~mask.unsqueeze(-1), -torch.inf)
    alpha = scores.softmax(dim=1).nan_to_num(0)
    expected = torch.cat([alpha[:, :, h] @ v[:, h * width : (h + 1) * width] for h in range(heads)], dim=1)
    assert (conv(x, edge_index, edge_attr) - expected).abs().max() < 1e-12


def test_weights_of_every_vertex_sum_to_one_and_a_vertex_without_neighbors_gets_zero() -> None:
    x, edge_index, edge_attr = inputs()
    conv = ExphormerConv(8, 2).double()
    alpha = conv.attention(x, edge_index, edge_attr)
    total = torch.zeros(x.size(0), 2).double().index_add(0, edge_index[1], alpha)
    has_neighbors = torch.zeros(x.size(0), dtype=torch.bool).index_fill(0, edge_index[1], True)
    assert not has_neighbors.all()
    assert (total[has_neighbors] - 1).abs().max() < 1e-12
    assert bool((conv(x, edge_index, edge_attr)[~has_neighbors] == 0).all())


def test_masked_edges_are_as_if_not_listed() -> None:
    x, edge_index, edge_attr = inputs()
    conv = ExphormerConv(8, 2).double()
    mask = torch.arange(edge_index.size(1)) % 3 > 0
    out = conv(x, edge_index, edge_attr, mask)
    assert (out - conv(x, edge_index[:, mask], edge_attr[mask])).abs().max() < 1e-12
    out.sum().backward()
    assert all(p.grad.isfinite().all() for p in conv.parameters())


def test_heads_must_divide_channels() -> None:
    with pytest.raises(ValueError, match=r"'channels' must be a multiple of 'heads', 3 \(got 8\)"):
        ExphormerConv(8, 3)


def test_repr() -> None:
    assert repr(ExphormerConv(8, 2)) == "ExphormerConv(8, heads=2)"
