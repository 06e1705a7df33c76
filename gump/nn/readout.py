"""From arc states back to vertices."""

import torch
from torch import Tensor

from gump.line_graph import EulerianLineGraph
from gump.nn.arguments import can_look
from gump.nn.incidence import sum_of_incoming
from gump.nn.propagation import check_states


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
    check_states(h, line_graph)
    listed = line_graph.listed.to(h.dtype).unsqueeze(-1) if line_graph.directed else None
    total = sum_of_incoming(h if listed is None else h * listed, line_graph, mask)
    if mask is None and can_look(line_graph.arcs):
        return total / line_graph.num_incoming.clamp(min=1).unsqueeze(-1)
    return total / sum_of_incoming(torch.ones_like(h[:, :1]) if listed is None else listed, line_graph, mask).clamp_min(1)
