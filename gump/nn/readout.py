"""From arc states back to vertices."""

from torch import Tensor

from gump.line_graph import EulerianLineGraph


def mean_of_incoming(h: Tensor, line_graph: EulerianLineGraph) -> Tensor:
    r"""Averages the states of the arcs that end at each vertex.

    .. math::
        \mathbf{h}_v = \frac{1}{|\mathcal{I}(v)|} \sum_{(u, v) \in \mathcal{I}(v)} \mathbf{h}_{(u, v)}

    Only arcs that were in the input count, which is the paper's filter for directed graphs. A vertex where none ends gets zero.

    Shapes:
        - **input:** :math:`(A, F)`
        - **output:** :math:`(N, F)`
    """
    target, listed = line_graph.arcs[1], line_graph.listed
    if line_graph.directed:
        h, target = h[listed], target[listed]
    total = h.new_zeros(line_graph.num_nodes, h.size(-1)).index_add(0, target, h)
    return total / target.bincount(minlength=line_graph.num_nodes).clamp_min(1).unsqueeze(-1)
