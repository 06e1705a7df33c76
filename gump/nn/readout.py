"""From arc states back to vertices."""

import torch
from torch import Tensor

from gump.line_graph import EulerianLineGraph
from gump.nn.rows import add_rows


def mean_of_incoming(h: Tensor, line_graph: EulerianLineGraph) -> Tensor:
    r"""Averages the states of the arcs that end at each vertex.

    .. math::
        \mathbf{h}_v = \frac{1}{|\mathcal{I}(v)|} \sum_{(u, v) \in \mathcal{I}(v)} \mathbf{h}_{(u, v)}

    Only arcs that were in the input count, which is the paper's filter for directed graphs. A vertex where none ends gets zero.

    Shapes:
        - **input:** :math:`(A, F)`
        - **output:** :math:`(N, F)`
    """
    target, num_nodes = line_graph.arcs[1], line_graph.num_nodes
    if line_graph.directed:
        listed = line_graph.listed.to(h.dtype).unsqueeze(-1)
        return add_rows(h * listed, target, num_nodes) / add_rows(listed, target, num_nodes).clamp_min(1)
    return add_rows(h, target, num_nodes) / add_rows(torch.ones_like(h[:, :1]), target, num_nodes).clamp_min(1)
