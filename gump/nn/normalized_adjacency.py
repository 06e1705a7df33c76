"""The adjacency matrix that graph convolutions multiply with."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing

from gump.nn.arguments import check_both_directions
from gump.nn.neighbors import Neighbors
from gump.nn.rows import add_rows, select_rows


def normalized_adjacency(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    num_nodes: int,
    dtype: torch.dtype,
    self_loops: bool = True,
    member: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Divides every edge by the square roots of the degrees at its ends, as graph convolutional networks (`Kipf & Welling, ICLR 2017
    <https://openreview.net/forum?id=SJU4ayYgl>`_) do.

    .. math::
        \hat{\mathbf{A}} = \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}

    What PyG's ``gcn_norm`` computes, for a model to compute once and give to all its layers, in a form that `torch.func.vmap` can run: no
    shape depends on the values of a tensor. A self-loop that is there already keeps its weight; its column then stays with weight zero,
    and the weight is found in the loop that is appended. Of several self-loops at a vertex the mean counts. Where negative weights make a degree
    negative, entries are no numbers.

    Args:
        edge_index: The edges, those of an undirected graph in both directions.
        edge_weight: Weights, by default one.
        num_nodes: The number of vertices.
        dtype: The type of the result.
        self_loops: Whether every vertex gets a self-loop of weight one first.
        member: Which edges count; by default all.

    Shapes:
        - **edge_index:** :math:`(2, E)`
        - **edge_weight:** :math:`(E)`
        - **output:** :math:`(2, E + N)` and :math:`(E + N)`, or :math:`(2, E)` and :math:`(E)` without self-loops

    Example:
        >>> index, weight = normalized_adjacency(torch.tensor([[0, 1], [1, 0]]), None, 3, torch.float)
        >>> torch.sparse_coo_tensor(index, weight, (3, 3)).to_dense()
        tensor([[0.5000, 0.5000, 0.0000],
                [0.5000, 0.5000, 0.0000],
                [0.0000, 0.0000, 1.0000]])
    """
    source, target = edge_index
    weight = torch.ones_like(source, dtype=dtype) if edge_weight is None else edge_weight.reshape(-1).to(dtype)
    weight = weight if member is None else weight * member
    zeros = torch.zeros(num_nodes, dtype=dtype, device=edge_index.device)
    if self_loops:
        is_loop = (source == target).to(dtype)
        count = zeros.scatter_add(0, target, is_loop if member is None else is_loop * member)
        total = zeros.scatter_add(0, target, is_loop * weight)
        loops = torch.arange(num_nodes, device=edge_index.device)
        edge_index = torch.cat([edge_index, loops.expand(2, -1)], dim=1)
        weight = torch.cat([weight * (1 - is_loop), torch.where(count > 0, total / count.clamp(min=1), 1)])
        source, target = edge_index
    degree = zeros.scatter_add(0, target, weight)
    scale = torch.where(degree != 0, degree, 1).rsqrt() * (degree != 0)
    return edge_index, scale.index_select(0, source) * weight * scale.index_select(0, target)


def symmetric_adjacency(x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """The normalized adjacency matrix without self-loops, for convolutions that are unitary because it is symmetric: edges must be listed in both
    directions. Takes features, real or complex, for their number and precision."""
    check_both_directions(edge_index, edge_weight, x.size(0))
    dtype = x.real.dtype if x.is_complex() else x.dtype
    return normalized_adjacency(edge_index, edge_weight, x.size(0), dtype, self_loops=False)


def propagate(x: Tensor, edge_index: Tensor, edge_weight: Tensor | None, num_targets: int | None = None) -> Tensor:
    r"""Multiplies features with a sparse matrix, :math:`\mathbf{x}'_i = \sum_{j \to i} w_{ji} \mathbf{x}_j`.

    PyG's scatter, going backward, gathers single entries, and so it does forward for models side by side, with an index for each; this gathers
    and adds rows in both directions.

    Args:
        x: Features of the sources.
        edge_index: Where the entries are.
        edge_weight: The entries; all one, if there are none.
        num_targets: How many rows the result has; by default as many as ``x``.

    Shapes:
        - **x:** :math:`(N, F)`
        - **edge_index:** :math:`(2, E)`
        - **edge_weight:** :math:`(E)`
        - **output:** :math:`(N, F)`

    Example:
        >>> propagate(torch.tensor([[1.0], [10.0]]), torch.tensor([[0, 1, 1], [1, 0, 1]]), torch.tensor([2.0, 1.0, 1.0]))
        tensor([[10.],
                [12.]])
    """
    source, target = edge_index
    rows = select_rows(x, source)
    rows = rows if edge_weight is None else edge_weight.unsqueeze(-1) * rows
    return add_rows(rows, target, x.size(0) if num_targets is None else num_targets)


def propagate_by_rows(
    conv: MessagePassing,
    edge_index: Tensor | Neighbors,
    *,
    x: Tensor | tuple[Tensor, Tensor],
    edge_weight: Tensor | None = None,
    size: tuple[int, int] | None = None,
) -> Tensor:
    """In place of the ``propagate`` of a PyG convolution that sums over neighbors: the same by :func:`propagate`, but for PyG's explainers, which
    look into messages.

    Args:
        conv: The convolution.
        edge_index: The edges, or a matrix that a kernel multiplies with.
        x: Features of all vertices, or of sources and of targets.
        edge_weight: What rows of sources are multiplied with.
        size: For explainers alone.
    """
    if conv.explain:
        out: Tensor = MessagePassing.propagate(conv, edge_index, size, x=x, edge_weight=edge_weight)
        return out
    sources, targets = (x, x) if isinstance(x, Tensor) else x
    if isinstance(edge_index, Neighbors):
        return edge_index(sources)
    return propagate(sources, edge_index, edge_weight, targets.size(0))
