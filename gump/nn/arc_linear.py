"""Linear maps of arc features that never build the features."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gump.line_graph import EulerianLineGraph
from gump.nn.incidence import at_arcs
from gump.nn.unaltered import is_unaltered


class ArcFeatures(NamedTuple):
    r"""The initial arc states :math:`\mathbf{h}_{(i,j)} = [\mathbf{x}_i ; \mathbf{x}_j ; \mathbf{e}_{ij}]`, kept as what they are made of.

    Args:
        x: Vertex features.
        line_graph: The arcs.
        attr: Further columns of every row, such as ``line_graph.arc_attr(edge_attr)``.
        mask: Which arcs count; the others, which belong to padding, come out as anything.
    """

    x: Tensor
    line_graph: EulerianLineGraph
    attr: Tensor | None = None
    mask: Tensor | None = None

    def dense(self) -> Tensor:
        """Builds the rows."""
        source, target = self.line_graph.arcs
        rows = [self.x[source], self.x[target]]
        return torch.cat(rows if self.attr is None else [*rows, self.attr], dim=-1)


class ArcLinear(torch.nn.Linear):
    r"""A linear layer that also takes :class:`ArcFeatures`.

    Since :math:`\mathbf{W}[\mathbf{x}_i ; \mathbf{x}_j] = \mathbf{W}_1\mathbf{x}_i + \mathbf{W}_2\mathbf{x}_j`, the products are taken on the
    vertices, of which there are fewer than arcs, and gathered.

    Shapes:
        - **input:** :math:`(A, F_{in})`, or features that amount to it
        - **output:** :math:`(A, F_{out})`
    """

    def forward(self, h: Tensor | ArcFeatures) -> Tensor:
        """Applies the layer."""
        if isinstance(h, Tensor):
            return super().forward(h)
        out = self.product(h)
        return out if self.bias is None else out + self.bias

    def product(self, h: ArcFeatures) -> Tensor:
        """Applies the weights without the bias."""
        width = h.x.size(-1)
        check_arc_features(h, self.in_features)
        vertices = h.x @ torch.cat(self.weight[:, : 2 * width].split(width, dim=1)).t()
        first, second = vertices.split(self.out_features, dim=1)
        out = at_arcs(first, second, h.line_graph, h.mask)
        return out if h.attr is None else out + h.attr @ self.weight[:, 2 * width :].t()


def input_of(layer: torch.nn.Module, h: Tensor | ArcFeatures) -> Tensor | ArcFeatures:
    """What to give a layer: features as they are, or their rows if it has hooks or another is in its place, which expect a tensor."""
    if not isinstance(h, ArcFeatures) or is_unaltered(layer, ArcLinear):
        return h
    if isinstance(layer, torch.nn.Linear):
        check_arc_features(h, layer.in_features)
    return h.dense()


def check_vertices(x: Tensor, line_graph: EulerianLineGraph) -> None:
    """Refuses features that are not those of the vertices of a line graph."""
    if not isinstance(line_graph, EulerianLineGraph):
        raise TypeError(
            f"'line_graph' must be a gump.EulerianLineGraph (got {type(line_graph).__name__}); pass "
            "gump.EulerianLineGraph.from_edge_index(edge_index)"
        )
    if x.size(0) != line_graph.num_nodes:
        raise ValueError(
            f"'x' must have a row for each of the {line_graph.num_nodes} vertices of 'line_graph' (got {x.size(0)}); pass 'num_nodes' to "
            f"gump.EulerianLineGraph.from_edge_index"
        )


def check_arc_features(h: ArcFeatures, in_channels: int) -> None:
    """Refuses vertex features and arc attributes that are not those of the line graph, or do not make up arc features of the given width."""
    attributes = 0 if h.attr is None else h.attr.size(-1)
    if 2 * h.x.size(-1) + attributes != in_channels:
        raise ValueError(
            f"'in_channels' must be twice the width of 'x' plus that of the arc attributes, {2 * h.x.size(-1)} + {attributes} (got {in_channels})"
        )
    check_vertices(h.x, h.line_graph)
    if h.attr is not None and (h.attr.dim() != 2 or h.attr.size(0) != h.line_graph.num_arcs):
        raise ValueError(
            f"arc attributes must have a row for each of the {h.line_graph.num_arcs} arcs of 'line_graph' (got shape {list(h.attr.shape)}); "
            f"those of edges become those of arcs by gump.EulerianLineGraph.arc_attr"
        )
