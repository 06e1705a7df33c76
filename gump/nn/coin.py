"""The coin: the small orthogonal matrix that mixes the arcs which meet at a vertex."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from gump.kernels import runs_kernels
from gump.linalg import LowRankBlocks, Tiles, even_blocks, grover, low_rank_polar, polar_factor
from gump.linalg.perturbed_polar import perturbed, perturbed_bounds, perturbed_polar
from gump.linalg.polar import newton_schulz_quintics, quintics_within
from gump.line_graph import BlockGroup, EulerianLineGraph
from gump.nn.arc_linear import ArcFeatures, check_arc_features, check_vertices
from gump.nn.arguments import check_counts, check_name
from gump.nn.incidence import at_arcs
from gump.nn.pair_score import pair_scores
from gump.nn.unaltered import is_unaltered

SCORE_RANK, MAX_BLOCK = 8, 64
"""The rank of bilinear scores and the largest block by default. Blocks of 32 cost as much as a hub's form of this rank, blocks of 64 several
times that, see ``benchmarks/hubs.py``; and no graph of the TU datasets has a hub."""

LARGE = 2**30
"""Bytes below which nobody asks whether they are there."""

KEEP = 2**26
"""How many numbers the attention of all pairs may keep for the backward; where there are more, they are computed again."""

COINS = ("bounded", "polar", "newton_schulz", "near_identity", "perturbed", "grover", "scores", "ones")
AT_HUBS = ("bounded", "grover", "ones")
"""The coins that have a form which never builds a block."""

SCORES = ("additive", "bilinear")


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
    - ``"near_identity"``: :math:`\mathsf{U}[\mathbf{I} + \beta \mathbf{B}_v / \sqrt{1 + \lVert \mathbf{B}_v \rVert_F^2}]`, a control
      that is as orthogonal and as equivariant as the first, around a walk that turns back at every vertex.
    - ``"perturbed"``: what ``"bounded"`` projects, without the projection, a control that is near the Grover coin and not orthogonal.
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
    equivariant but not orthogonal; after so many steps that rounding has grown to order one it is not equivariant either, see
    :func:`gump.linalg.polar_factor`.

    **Hubs.** A block costs :math:`d^2` in memory and :math:`d^3` in time. Vertices of more than ``max_block`` neighbors get the bounded coin
    in closed form instead, see :func:`gump.linalg.low_rank_polar`, for :math:`O(d k^2)`. That needs scores of some rank :math:`k`, which
    those of equation 1 are not, but with the first :math:`k` channels of the same weights these are:

    .. math::
        (\mathbf{B}_v)_{ij} = \sum_{c=1}^{k} w_c \tanh(\mathbf{W}_s \mathbf{h}_i)_c \tanh(\mathbf{W}_t \mathbf{h}_j)_c.

    They are bounded by :math:`\lVert \mathbf{w} \rVert_1` and of order one, as those of equation 1 are: :math:`w_c` is drawn of order one
    over the square root of the number of channels, the scale of dot-product attention. With ``scores="bilinear"`` all vertices use them,
    and ``max_block`` is a matter of speed alone: the coins are the same. With ``scores="additive"`` hubs alone do, so there the model
    is another function for another ``max_block``, and a vertex that gains one neighbor and becomes a hub changes its coin by a jump.

    **What no hub coin can do.** A coin :math:`\pm\mathbf{I} + \text{rank } k` returns a state, on average over the arcs, with at least
    :math:`(1 - 2k/d)^2` of its energy to where it came from (for :math:`d > 2k`). *Proof.* All but k eigenvalues are :math:`\pm 1`, with one
    sign, and the others lie on the unit circle, so the trace is at least :math:`d - 2k` in absolute value, the diagonal at least
    :math:`1 - 2k/d` on average, and the mean of its squares at least the square of that. ∎ So a signal crosses a hub with many more
    neighbors than that slowly: the bounded coin is :math:`-\mathbf{I}` plus rank :math:`2k + 1`, the Grover coin plus rank one.

    Args:
        in_channels: Width of the arc features.
        attention_channels: The paper's :math:`d'`.
        kind: One of the names above.
        beta: How far the bounded coin, and those like it, may leave the Grover coin, or the identity, at least 0 and below 1.
        num_steps: The paper's :math:`K`, for ``"newton_schulz"``.
        negative_slope: Of the LeakyReLU.
        scores: ``"additive"`` for those of equation 1, ``"bilinear"`` for those of low rank.
        score_rank: The rank :math:`k` of bilinear scores, at most ``attention_channels``, of which they have no more.
        max_block: The most neighbors of a vertex that gets a block of its own, for ``"bounded"``, ``"grover"`` and ``"ones"``, which have a
            form for more. The other coins have blocks only, as long as memory lasts.

    Shapes:
        - **output:** for each of the line graph's groups of a degree up to ``max_block`` :math:`(\mathrm{num\_blocks}, d, d)`; row i belongs
          to the reverse of the i-th outgoing arc of the vertex, column j to its j-th outgoing arc. :meth:`hubs` has the others
    """

    def __init__(
        self,
        in_channels: int,
        attention_channels: int = 32,
        kind: str = "bounded",
        beta: float = 0.9,
        num_steps: int = 10,
        negative_slope: float = 0.01,
        scores: str = "additive",
        score_rank: int = SCORE_RANK,
        max_block: int = MAX_BLOCK,
    ) -> None:
        super().__init__()
        if kind not in COINS:
            raise ValueError(f"'coin' must be one of {', '.join(COINS)} (got '{kind}')")
        check_name("scores", scores, SCORES)
        check_counts(1, in_channels=in_channels, attention_channels=attention_channels, score_rank=score_rank, max_block=max_block)
        check_counts(0, num_steps=num_steps)
        if not 0 <= beta < 1:
            raise ValueError(f"'beta' must be at least 0 and below 1 (got {beta})")
        if not negative_slope >= 0:
            raise ValueError(f"'negative_slope' must be at least 0 (got {negative_slope})")
        self.kind, self.beta, self.num_steps, self.negative_slope = kind, beta, num_steps, negative_slope
        self.bilinear, self.max_block = scores == "bilinear", max_block if kind in AT_HUBS else sys.maxsize
        self.score_rank = min(score_rank, attention_channels)
        attention_channels = self.score_rank if self.bilinear else attention_channels
        self.in_channels, self.attention_channels = in_channels, attention_channels
        if self.has_scores:
            self.lin_source = torch.nn.Linear(in_channels, attention_channels, bias=False)
            self.lin_target = torch.nn.Linear(in_channels, attention_channels, bias=False)
            self.lin_score = torch.nn.Linear(attention_channels, 1, bias=False)

    @property
    def has_scores(self) -> bool:
        """Whether the coins depend on attention scores, and so on weights; the others depend on the degrees alone."""
        return self.kind not in ("grover", "ones")

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in self.children():
            module.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor, line_graph: EulerianLineGraph, arc_attr: Tensor | None = None) -> list[Tensor]:
        """Computes the coins of the vertices up to ``max_block`` from vertex features and arc attributes, ``line_graph.arc_attr(edge_attr)``."""
        check_vertices(x, line_graph)
        self._check_memory(line_graph, x)
        if not self.has_scores:
            like = x if x.dtype == torch.float64 else x.float()
            matrix = grover if self.kind == "grover" else _ones
            return [matrix(g.degree, like).expand(g.num_blocks, -1, -1) for g in self._dense_groups(line_graph)]
        return self.project_all(self.scores(x, line_graph, arc_attr))

    def hubs(self, x: Tensor, line_graph: EulerianLineGraph, arc_attr: Tensor | None = None) -> LowRankBlocks | None:
        """Computes the coins of the vertices above ``max_block``, if there are any, in a form that never builds a block."""
        sizes = {degree: count for degree, count in line_graph.block_sizes.items() if degree > self.max_block}
        if not sizes:
            return None
        tiles, dtype = Tiles.of(sizes, x.device), x.dtype if x.dtype == torch.float64 else torch.float32
        if self.kind == "grover":
            return even_blocks(tiles, -1.0, torch.full((tiles.num_blocks,), 2.0, device=x.device), dtype)
        if self.kind == "ones":
            return even_blocks(tiles, 0.0, line_graph.block_degree[-tiles.num_blocks :], dtype)
        first = line_graph.num_arcs - tiles.place.numel()
        left, right = self._bilinear_terms(x, line_graph, arc_attr, slice(first, None))
        with torch.autocast(x.device.type, enabled=False):
            return low_rank_polar(left, right, tiles, self.beta)

    def _dense_groups(self, line_graph: EulerianLineGraph) -> list[BlockGroup]:
        return [group for group in line_graph.groups if group.degree <= self.max_block]

    def _check_memory(self, line_graph: EulerianLineGraph, x: Tensor) -> None:
        """Refuses a graph whose coins cannot fit, before the allocator does, and names the vertex to blame."""
        if torch.compiler.is_compiling():  # which is not yet an answer about this graph
            return
        groups = self._dense_groups(line_graph)
        num_transitions = sum(g.num_blocks * g.degree**2 for g in groups)
        num_hub_arcs = line_graph.num_arcs - sum(g.num_blocks * g.degree for g in groups)
        at_hubs = 6 * (2 * self.score_rank + 1) * num_hub_arcs
        need = (8 * num_transitions + self._kept_pairs(num_transitions) + at_hubs) * x.element_size()
        if need > LARGE and need > (available := _available_memory(x.device)):
            degree = groups[-1].degree if groups else self.max_block
            own = 8 * degree**2 * x.element_size()
            helps = self.kind in AT_HUBS and degree > 2 * self.score_rank  # a hub's form is smaller than a block
            advice = f"pass a 'max_block' below {degree:,} to give hubs a coin of linear size" if helps else "make it smaller"
            if self.kind not in AT_HUBS and degree > MAX_BLOCK:
                advice += f", or take another coin: those of linear size at hubs are {', '.join(map(repr, AT_HUBS))}"
            if own < available / 2 or not groups:
                raise ValueError(
                    f"the coins of this batch would need {need / 1e9:.1f} GB ({available / 1e9:.1f} GB are available); {advice}"
                )
            vertex = int(line_graph.block_vertices[sum(g.num_blocks for g in groups) - 1])
            raise ValueError(
                f"vertex {vertex} has degree {degree:,}: its dense coin would need {own / 1e9:.1f} GB, all "
                f"dense coins {need / 1e9:.1f} GB ({available / 1e9:.1f} GB are available); {advice}"
            )

    def _kept_pairs(self, num_transitions: int) -> int:
        """How many numbers the attention keeps for the backward."""
        if not self.has_scores or self.bilinear:
            return 0
        pairs = 2 * num_transitions * self.attention_channels
        return pairs if pairs <= 2 * KEEP or self._altered else 0

    def scores(self, x: Tensor, line_graph: EulerianLineGraph, arc_attr: Tensor | None = None) -> list[Tensor]:
        r"""Computes the attention scores :math:`\mathbf{B}_v` of the vertices up to ``max_block``."""
        groups = self._dense_groups(line_graph)
        if not groups:
            return []
        sizes = [g.num_blocks * g.degree for g in groups]
        terms = self._bilinear_terms if self.bilinear else self._additive_terms
        rows, columns = terms(x, line_graph, arc_attr, slice(sum(sizes)))
        if not self.bilinear and self._altered:
            return self._called_pair_scores(rows, columns, groups)
        if not self.bilinear:
            keep = torch.compiler.is_compiling() or self._kept_pairs(sum(g.num_blocks * g.degree**2 for g in groups)) > 0
            listed = [(g.degree, g.num_blocks) for g in groups]
            return pair_scores(rows, columns, self.lin_score.weight[0], self.negative_slope, listed, keep)
        blocks = []
        for group, row, column in zip(groups, rows.split(sizes), columns.split(sizes), strict=True):
            shape = (group.num_blocks, group.degree, row.size(-1))
            with torch.autocast(x.device.type, enabled=False):
                blocks.append(row.view(shape) @ column.view(shape).mT)
        return blocks

    def _additive_terms(
        self, x: Tensor, line_graph: EulerianLineGraph, arc_attr: Tensor | None, arcs: slice
    ) -> tuple[Tensor, Tensor]:
        r"""The two terms inside the LeakyReLU, for every row and for every column of the blocks.

        At vertex :math:`v` they are :math:`\mathbf{W}_s[\mathbf{x}_u ; \mathbf{x}_v]` for the arc from u and
        :math:`\mathbf{W}_t[\mathbf{x}_v ; \mathbf{x}_w]` for the arc to w. What the column has of :math:`\mathbf{x}_v` is added to the rows
        instead, since only sums count.
        """
        check_arc_features(ArcFeatures(x, line_graph, arc_attr), self.in_channels)
        if self._altered:
            return self._called_terms(x, line_graph, arc_attr, arcs)
        source, target, width = self.lin_source.weight, self.lin_target.weight, x.size(-1)
        return self._terms(x, line_graph, arc_attr, arcs, source, target, source[:, width : 2 * width] + target[:, :width])

    def _bilinear_terms(
        self, x: Tensor, line_graph: EulerianLineGraph, arc_attr: Tensor | None, arcs: slice
    ) -> tuple[Tensor, Tensor]:
        """The two factors of the scores, for every row and for every column of the blocks."""
        check_arc_features(ArcFeatures(x, line_graph, arc_attr), self.in_channels)
        rank, width = self.score_rank, x.size(-1)
        if self._altered:
            rows, columns = self._called_terms(x, line_graph, arc_attr, arcs)
            terms, weight = (rows[:, :rank], columns[:, :rank]), self._called_weight(x)[:rank]
        else:
            source, target, weight = self.lin_source.weight[:rank], self.lin_target.weight[:rank], self.lin_score.weight[0, :rank]
            at_vertex = source[:, width : 2 * width], target[:, :width]
            terms = self._terms(x, line_graph, arc_attr, arcs, source, target, *at_vertex)
        dtype = x.dtype if x.dtype == torch.float64 else torch.float32
        left, right = (term.to(dtype).tanh() for term in terms)
        return left * weight.to(dtype), right

    def _terms(
        self,
        x: Tensor,
        line_graph: EulerianLineGraph,
        arc_attr: Tensor | None,
        arcs: slice,
        source: Tensor,
        target: Tensor,
        *at_vertex: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """What weights make of the arcs of a slice, for rows and for columns: of their neighbors, of their attributes and, with a matrix for
        the rows and perhaps one for the columns, of their vertices. Products are taken on the vertices, of which there are fewer, and gathered."""
        width = x.size(-1)
        products = x @ torch.cat([source[:, :width], target[:, width : 2 * width], *at_vertex]).t()
        from_neighbor, to_neighbor, *of_vertex = products.split(source.size(0), dim=1)
        rows = at_arcs(of_vertex[0], from_neighbor, line_graph, arcs=arcs)
        columns = at_arcs(of_vertex[1] if len(of_vertex) > 1 else None, to_neighbor, line_graph, arcs=arcs)
        if arc_attr is not None:
            rows = rows + arc_attr[line_graph.reverse[arcs]] @ source[:, 2 * width :].t()
            columns = columns + arc_attr[arcs] @ target[:, 2 * width :].t()
        return rows, columns

    @property
    def _altered(self) -> bool:
        """Whether a layer has hooks or another is in its place, so that all are called."""
        return not all(is_unaltered(layer, torch.nn.Linear) and layer.bias is None for layer in self.children())

    def _called_terms(
        self, x: Tensor, line_graph: EulerianLineGraph, arc_attr: Tensor | None, arcs: slice
    ) -> tuple[Tensor, Tensor]:
        """What the layers, called on the arc features, make of the arcs of a slice, for rows and for columns."""
        h = ArcFeatures(x, line_graph, arc_attr).dense()
        return self.lin_source(h[line_graph.reverse[arcs]]), self.lin_target(h[arcs])

    def _called_pair_scores(self, rows: Tensor, columns: Tensor, groups: list[BlockGroup]) -> list[Tensor]:
        """What :func:`gump.nn.pair_score.pair_scores` computes, by one call of the layer for all pairs."""
        pairs, sizes = [], [g.num_blocks * g.degree for g in groups]
        for group, row, column in zip(groups, rows.split(sizes), columns.split(sizes), strict=True):
            shape = (group.num_blocks, group.degree, row.size(-1))
            pair = row.reshape(shape).unsqueeze(2) + column.reshape(shape).unsqueeze(1)
            pairs.append(leaky_relu(pair, self.negative_slope).flatten(0, 2))
        scores = self.lin_score(torch.cat(pairs)).squeeze(-1).tanh()
        parts = scores.split([g.num_blocks * g.degree**2 for g in groups])
        return [part.view(g.num_blocks, g.degree, g.degree) for g, part in zip(groups, parts, strict=True)]

    def _called_weight(self, x: Tensor) -> Tensor:
        """The weights of bilinear scores, of which hubs need each by itself, as what the layer makes of unit vectors."""
        like = next(self.lin_score.parameters(), x)  # a pruned weight may have the type that the layer once had
        with torch.autocast(like.device.type, enabled=False):
            unit: Tensor = self.lin_score(torch.eye(self.attention_channels, dtype=like.dtype, device=like.device))
        return unit.squeeze(-1)

    def project_all(self, scores: list[Tensor]) -> list[Tensor]:
        """Makes coins of the scores of every degree, from the smallest: by a kernel, where there is one, of all that it takes in one launch;
        else bounded ones all together, which a compiler does by itself."""
        coins: list[Tensor] = []
        if self.kind in ("bounded", "newton_schulz") and runs_kernels(*scores):
            from gump.kernels.polar import bounded_factors, unit_iterates
            from gump.kernels.tiling import MAX_DEGREE

            small = [block for block in scores if block.size(-1) <= MAX_DEGREE]
            if small and self.kind == "bounded":
                coins = bounded_factors(small, quintics_within(perturbed_bounds(self.beta), torch.float32), self.beta)
            elif small:
                coins = unit_iterates(small, newton_schulz_quintics(self.num_steps))
        together = self.kind in ("bounded", "near_identity") and not torch.compiler.is_compiling()
        if together and not coins and all(block.device.type == "cpu" for block in scores):
            scores = [block if block.dtype == torch.float64 else block.float() for block in scores]
            return perturbed_polar(scores, [self._center(block) for block in scores], self.beta)
        return coins + [self.project(block) for block in scores[len(coins) :]]

    def project(self, scores: Tensor) -> Tensor:
        """Makes coins of the scores of one degree."""
        scores = scores if scores.dtype == torch.float64 else scores.float()
        if self.kind == "scores":
            return scores
        if self.kind == "perturbed":
            return self.perturbed(scores)
        if self.kind in ("bounded", "near_identity") and scores.size(-1) == 1:
            return 0 * scores + 1  # gradients of zero, and not none
        if self.kind == "polar":
            return polar_factor(scores, check_finite=False)
        if self.kind == "newton_schulz":
            return polar_factor(scores, num_steps=self.num_steps, check_finite=False)
        return polar_factor(self.perturbed(scores), bounds=perturbed_bounds(self.beta), check_finite=False)

    @property
    def waits_for_device(self) -> bool:
        """Whether the coins are computed in a way that depends on the numbers: the exact factor decomposes what its iteration leaves."""
        return self.kind == "polar"

    def perturbed(self, scores: Tensor) -> Tensor:
        r"""The matrix that the bounded coin projects, :math:`\mathbf{G} + \beta \mathbf{B} / \sqrt{1 + \lVert \mathbf{B} \rVert_F^2}`, or
        the one near the identity, which has that in the place of G."""
        return perturbed(scores, self._center(scores), self.beta)[0]

    def _center(self, scores: Tensor) -> Tensor:
        """What scores perturb: the Grover coin or the identity."""
        return (_identity if self.kind == "near_identity" else grover)(scores.size(-1), scores)

    def __repr__(self) -> str:
        beta = f", beta={self.beta}"
        setting = {"bounded": beta, "near_identity": beta, "perturbed": beta, "newton_schulz": f", num_steps={self.num_steps}"}.get(
            self.kind, ""
        )
        setting += ", scores='bilinear'" if self.bilinear and self.has_scores else ""
        setting += f", max_block={self.max_block}" if self.kind in AT_HUBS and self.max_block != MAX_BLOCK else ""
        return f"{type(self).__name__}('{self.kind}'{setting})"


def _identity(degree: int, like: Tensor) -> Tensor:
    return torch.eye(degree, dtype=like.dtype, device=like.device)


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
