"""The coin: the small orthogonal matrix that mixes the arcs which meet at a vertex."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from gump.kernels import runs_kernels
from gump.linalg import grover, polar_factor
from gump.linalg.polar import quintics_within
from gump.line_graph import EulerianLineGraph
from gump.nn.arc_linear import check_width
from gump.nn.incidence import at_arcs
from gump.nn.pair_score import pair_score

LARGE = 2**30
"""Bytes below which nobody asks whether they are there."""

COINS = ("bounded", "polar", "newton_schulz", "grover", "scores", "ones")


class Coin(torch.nn.Module):
    r"""Turns arc features into one small matrix per vertex.

    First come the attention scores of equation 1, for every pair of an incoming arc :math:`i` and an outgoing arc :math:`j` of
    vertex :math:`v`,

    .. math::
        (\mathbf{B}_v)_{ij} = \tanh(\mathbf{w}^{\top} \mathrm{LeakyReLU}(\mathbf{W}_s \mathbf{h}_i + \mathbf{W}_t \mathbf{h}_j)),

    and then, by name:

    - ``"bounded"``: :math:`\mathsf{U}[\mathbf{G} + \beta \mathbf{B}_v / \sqrt{1 + \lVert \mathbf{B}_v \rVert_F^2}]`, the polar factor of a
      bounded perturbation of the Grover coin :math:`\mathbf{G} = \tfrac{2}{d} \mathbf{1}\mathbf{1}^{\top} - \mathbf{I}`.
    - ``"polar"``: :math:`\mathsf{U}[\mathbf{B}_v]`, the paper's projection without its approximation.
    - ``"newton_schulz"``: ``num_steps`` of the paper's iteration on :math:`\mathbf{B}_v` (Algorithm 2).
    - ``"grover"``: the constant :math:`\mathbf{G}`, a control that ignores the features.
    - ``"scores"``: :math:`\mathbf{B}_v` itself, the ablation without projection.
    - ``"ones"``: the binary adjacency of the line graph, the ablation without weights.

    **What the bounded coin guarantees.** Orthogonal and permutation-equivariant on every block, whatever the features. *Proof.* G is
    orthogonal and the perturbation has spectral norm at most :math:`\beta \lVert\mathbf{B}\rVert_F / \sqrt{1 + \lVert\mathbf{B}\rVert_F^2} < \beta`;
    by Weyl's inequality every singular value lies in :math:`(1 - \beta, 1 + \beta)`. So the matrix has full rank, its polar factor is
    unique and orthogonal, and a permutation :math:`\boldsymbol{\Pi}` of the neighbors, under which B becomes
    :math:`\boldsymbol{\Pi}\mathbf{B}\boldsymbol{\Pi}^{\top}`, leaves G as it is and so takes :math:`\mathbf{U}` to
    :math:`\boldsymbol{\Pi}\mathbf{U}\boldsymbol{\Pi}^{\top}`. The derivative with respect to B is bounded by :math:`\beta / (1 - \beta)`. ∎

    **What it gives up.** Only orthogonal matrices within a rotation of :math:`\arcsin \beta` of the Grover coin are reached (64 degrees at
    0.9); a vertex with one neighbor always reflects with :math:`+1`; and equivariance holds when rows and columns are permuted
    together, as a relabeling of the graph does, not separately as in the paper's Proposition 2. On blocks without full rank, which two
    neighbors with equal features already cause, the exact projection is orthogonal but not equivariant, and Newton-Schulz is
    equivariant but not orthogonal.

    Args:
        in_channels: Width of the arc features.
        attention_channels: The paper's :math:`d'`.
        kind: One of the names above.
        beta: How far the bounded coin may leave the Grover coin, at least 0 and below 1.
        num_steps: The paper's :math:`K`, for ``"newton_schulz"``.
        negative_slope: Of the LeakyReLU.

    Shapes:
        - **output:** for each of the line graph's groups :math:`(\mathrm{num\_blocks}, d, d)`; row i belongs to the reverse of the
          i-th outgoing arc of the vertex, column j to its j-th outgoing arc
    """

    def __init__(
        self,
        in_channels: int,
        attention_channels: int = 32,
        kind: str = "bounded",
        beta: float = 0.9,
        num_steps: int = 10,
        negative_slope: float = 0.01,
    ) -> None:
        super().__init__()
        if kind not in COINS:
            raise ValueError(f"'coin' must be one of {', '.join(COINS)} (got '{kind}')")
        if not 0 <= beta < 1:
            raise ValueError(f"'beta' must be at least 0 and below 1 (got {beta})")
        self.kind, self.beta, self.num_steps, self.negative_slope = kind, beta, num_steps, negative_slope
        if kind not in ("grover", "ones"):
            self.lin_source = torch.nn.Linear(in_channels, attention_channels, bias=False)
            self.lin_target = torch.nn.Linear(in_channels, attention_channels, bias=False)
            self.lin_score = torch.nn.Linear(attention_channels, 1, bias=False)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in self.children():
            module.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor, line_graph: EulerianLineGraph, arc_attr: Tensor | None = None) -> list[Tensor]:
        """Computes the coins of all vertices from vertex features and arc attributes."""
        self._check_memory(line_graph, x)
        if self.kind in ("grover", "ones"):
            like = x if x.dtype == torch.float64 else x.float()
            matrix = grover if self.kind == "grover" else _ones
            return [matrix(g.degree, like).expand(g.num_blocks, -1, -1) for g in line_graph.groups]
        return [self.project(b) for b in self.scores(x, line_graph, arc_attr)]

    def _check_memory(self, line_graph: EulerianLineGraph, x: Tensor) -> None:
        """Refuses a graph whose coins cannot fit, before the allocator does, and names the vertex to blame."""
        per_transition = 4 + (2 * self.lin_score.in_features if hasattr(self, "lin_score") else 0)
        need = line_graph.num_transitions * per_transition * x.element_size()
        if need > LARGE and need > (available := _available_memory(x.device)):
            vertex, degree = int(line_graph.block_vertices[-1]), line_graph.max_degree
            own = degree**2 * per_transition * x.element_size()
            if own < available / 2:
                raise ValueError(
                    f"the coins of this batch would need {need / 1e9:.1f} GB ({available / 1e9:.1f} GB are available); make it smaller"
                )
            raise ValueError(
                f"vertex {vertex} has degree {degree:,}: its dense coin would need {own / 1e9:.1f} GB, all coins {need / 1e9:.1f} GB "
                f"({available / 1e9:.1f} GB are available); remove such edges or sample neighbors"
            )

    def scores(self, x: Tensor, line_graph: EulerianLineGraph, arc_attr: Tensor | None = None) -> list[Tensor]:
        r"""Computes the attention scores :math:`\mathbf{B}_v` of equation 1."""
        if not line_graph.groups:
            return []
        check_width(x, arc_attr, self.lin_source.in_features)
        rows, columns = self._terms(x, line_graph, arc_attr)
        sizes = [g.num_blocks * g.degree for g in line_graph.groups]
        blocks = []
        for group, row, column in zip(line_graph.groups, rows.split(sizes), columns.split(sizes), strict=True):
            shape = (group.num_blocks, group.degree, row.size(-1))
            blocks.append(pair_score(row.view(shape), column.view(shape), self.lin_score.weight[0], self.negative_slope))
        return blocks

    def _terms(self, x: Tensor, line_graph: EulerianLineGraph, arc_attr: Tensor | None) -> tuple[Tensor, Tensor]:
        r"""The two terms inside the LeakyReLU, for every row and for every column of the blocks.

        At vertex :math:`v` they are :math:`\mathbf{W}_s[\mathbf{x}_u ; \mathbf{x}_v]` for the arc from u and
        :math:`\mathbf{W}_t[\mathbf{x}_v ; \mathbf{x}_w]` for the arc to w. Products are taken on the vertices, of which there are
        fewer than arcs, and gathered; what the column has of :math:`\mathbf{x}_v` is added to the rows instead, since only sums count.
        """
        width = x.size(-1)
        source, target = self.lin_source.weight, self.lin_target.weight
        at_vertex = source[:, width : 2 * width] + target[:, :width]
        products = x @ torch.cat([source[:, :width], at_vertex, target[:, width : 2 * width]]).t()
        from_neighbor, from_vertex, to_neighbor = products.split(source.size(0), dim=1)
        rows = at_arcs(from_vertex, from_neighbor, line_graph)
        columns = at_arcs(None, to_neighbor, line_graph)
        if arc_attr is not None:
            rows = rows + arc_attr[line_graph.reverse] @ source[:, 2 * width :].t()
            columns = columns + arc_attr @ target[:, 2 * width :].t()
        return rows, columns

    def project(self, scores: Tensor) -> Tensor:
        """Makes coins of the scores of one degree."""
        scores = scores if scores.dtype == torch.float64 else scores.float()
        if self.kind == "scores":
            return scores
        if self.kind == "bounded" and scores.size(-1) == 1:
            return torch.ones_like(scores)
        if self.kind == "polar":
            return polar_factor(scores, check_finite=False)
        if self.kind == "newton_schulz":
            return polar_factor(scores, num_steps=self.num_steps, check_finite=False)
        bounds = (1 - self.beta, 1 + self.beta)
        if runs_kernels(scores):
            from gump.kernels.polar import MAX_DEGREE, bounded_factor

            if scores.size(-1) <= MAX_DEGREE:
                return bounded_factor(scores, bounds, quintics_within(bounds, scores.dtype), self.beta)
        return polar_factor(self.perturbed(scores), bounds=bounds, check_finite=False)

    def perturbed(self, scores: Tensor) -> Tensor:
        r"""The matrix that the bounded coin projects, :math:`\mathbf{G} + \beta \mathbf{B} / \sqrt{1 + \lVert \mathbf{B} \rVert_F^2}`."""
        scale = (1 + scores.square().sum((-2, -1), keepdim=True)).rsqrt()
        return torch.addcmul(grover(scores.size(-1), scores), scale, scores, value=self.beta)

    def __repr__(self) -> str:
        setting = {"bounded": f", beta={self.beta}", "newton_schulz": f", num_steps={self.num_steps}"}.get(self.kind, "")
        return f"{type(self).__name__}('{self.kind}'{setting})"


def _ones(degree: int, like: Tensor) -> Tensor:
    return like.new_ones(degree, degree)


def _available_memory(device: torch.device) -> float:
    """The bytes that can still be had on a device, as far as the system tells."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return float(torch.cuda.mem_get_info(device)[0] + cached)
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(1024 * float(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return float("inf")
