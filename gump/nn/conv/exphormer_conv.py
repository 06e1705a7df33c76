"""Attention along the edges that it is given."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gump.nn.arguments import check_counts


class ExphormerConv(torch.nn.Module):
    r"""The sparse attention of `Exphormer <https://arxiv.org/abs/2303.06147>`_: a vertex attends to those from which an edge comes.

    .. math::
        \mathbf{x}'_i = \sum_{j \to i} \alpha_{ij} \mathbf{W}_V \mathbf{x}_j, \quad
        \alpha_{ij} = \mathrm{softmax}_{j \to i} \left( \mathrm{clamp} \left( \frac{1}{\sqrt{C}} \sum_c (\mathbf{W}_Q \mathbf{x}_i)_c
        (\mathbf{W}_K \mathbf{x}_j)_c (\mathbf{W}_E \mathbf{e}_{ij})_c, \pm 5 \right) \right)

    for each head with its :math:`C` channels. Weights sum to one; in the public code they fall short by the :math:`10^{-6}` that it adds
    to the denominator. A vertex where no edge ends gets zero.

    Args:
        channels: Width of the states of vertices and of edges, and of the result.
        heads: The number of attention heads, which divides ``channels``.
        clamp: Bound on the scores, of which exponentials are taken as they are.

    Shapes:
        - **x:** :math:`(N, C)`
        - **edge_index:** :math:`(2, E)`
        - **edge_attr:** :math:`(E, C)`
        - **edge_mask:** :math:`(E)`
        - **output:** :math:`(N, C)`
    """

    def __init__(self, channels: int, heads: int = 1, clamp: float = 5.0) -> None:
        super().__init__()
        check_counts(1, channels=channels, heads=heads)
        if channels % heads != 0:
            raise ValueError(f"'channels' must be a multiple of 'heads', {heads} (got {channels})")
        self.channels, self.heads, self.clamp = channels, heads, clamp
        self.lin_query = torch.nn.Linear(channels, channels, bias=False)
        self.lin_key = torch.nn.Linear(channels, channels, bias=False)
        self.lin_value = torch.nn.Linear(channels, channels, bias=False)
        self.lin_edge = torch.nn.Linear(channels, channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for lin in (self.lin_query, self.lin_key, self.lin_value, self.lin_edge):
            lin.reset_parameters()

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, edge_mask: Tensor | None = None) -> Tensor:
        """Averages over neighbors, by attention.

        Args:
            x: States of vertices.
            edge_index: The edges; targets attend to sources.
            edge_attr: States of the edges.
            edge_mask: Which edges count; the others are as if they were not listed.
        """
        source, target = edge_index
        alpha = self.attention(x, edge_index, edge_attr, edge_mask).unsqueeze(-1)
        value = self._heads(self.lin_value(x))
        return torch.zeros_like(value).index_add(0, target, alpha * value.index_select(0, source)).flatten(1)

    def attention(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, edge_mask: Tensor | None = None) -> Tensor:
        """Returns the attention weights of edges, one for each head. Takes what :meth:`forward` takes.

        Shapes:
            - **output:** :math:`(E, heads)`
        """
        source, target = edge_index
        query, key = self.lin_query(x).index_select(0, target), self.lin_key(x).index_select(0, source)
        score = self._heads(query * key * self.lin_edge(edge_attr)).sum(dim=-1) / math.sqrt(self.channels // self.heads)
        alpha = score.clamp(-self.clamp, self.clamp).exp()  # bounded, so the largest need not be subtracted before
        alpha = alpha if edge_mask is None else alpha * edge_mask.unsqueeze(-1)
        total = alpha.new_zeros(x.size(0), self.heads).index_add(0, target, alpha)
        return alpha / total.index_select(0, target).clamp_min(torch.finfo(alpha.dtype).tiny)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, heads={self.heads})"
