"""From arc states back to vertices."""

import torch
from torch import Tensor

from gump.line_graph import EulerianLineGraph
from gump.nn.incidence import sum_of_incoming


def mean_of_incoming(h: Tensor, line_graph: EulerianLineGraph, mask: Tensor | None = None) -> Tensor:
    r"""Averages the states of the arcs that end at each vertex.

    .. math::
        \mathbf{h}_v = \frac{1}{|\mathcal{I}(v)|} \sum_{(u, v) \in \mathcal{I}(v)} \mathbf{h}_{(u, v)}

    Only arcs that were in the input count, which is the paper's filter for directed graphs, and of these those that a mask does not leave
    out as padding. A vertex where none ends gets zero.

    Shapes:
        - **input:** :math:`(A, F)`
        - **output:** :math:`(N, F)`
    """
    if line_graph.directed:
        listed = line_graph.listed.to(h.dtype).unsqueeze(-1)
        return sum_of_incoming(h * listed, line_graph) / sum_of_incoming(listed, line_graph).clamp_min(1)
    return sum_of_incoming(h, line_graph, mask) / sum_of_incoming(torch.ones_like(h[:, :1]), line_graph, mask).clamp_min(1)
