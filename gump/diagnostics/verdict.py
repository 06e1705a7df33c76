"""What the numbers of a graph mean, in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gump.diagnostics.bottleneck import Bottleneck
from gump.diagnostics.counted import counted

NO_BOTTLENECK, BOTTLENECK = 0.5, 0.25
"""At least this share crosses the worst cut where there is no bottleneck; less than this where there is one."""

MAX_DEPTH = 100
"""The deepest model that the paper shows."""

LARGE = 200
"""From how many vertices on a random graph is as one of any size."""


@dataclass(frozen=True)
class Verdict:
    """Whether a graph has a bottleneck, and how deep a model for it should be.

    Args:
        narrow: ``"no"``, ``"mild"`` or ``"yes"``: whether much lies behind few edges.
        far: Whether the longest distance is long for a graph of this size.
        depth: The number of layers to begin with.
        text: The verdict in a sentence or two.
        reason: Why this depth.
        walk: What spectral gap and commute time say.
    """

    narrow: str
    far: bool
    depth: int
    text: str
    reason: str
    walk: str


def verdict(measured: Bottleneck) -> Verdict:
    r"""Judges a graph by its worst cut and by its longest distance.

    **Narrow.** With :math:`L` layers at most :math:`L c` dimensions cross a cut of :math:`c` edges, whatever the model's coins. Of what equally
    many vertices behind it on either side hold, one dimension for each arc, that is the share of a :class:`gump.diagnostics.Cut` at a depth
    equal to the diameter. On a clique, which nobody would say has a bottleneck, it is above 1/2, :math:`n / (2n - 2)` for even :math:`n`; on
    paths, rings, square grids and stars it is 1 or nearly so at every size, on long grids above 1/2, and on large random regular graphs
    above 0.9. On two cliques of :math:`k` vertices with an edge or a path of any length between them it is
    :math:`3 / (k^2 - k + 1)`, below 1/4 from :math:`k = 4` on; on a clique with a path of as many vertices or more it is
    :math:`(k + 1) / (k^2 - k + 1)`, below 1/4 from :math:`k = 6` on; on a binary tree, the other standard example, it falls below 1/4
    at 31 vertices. Hence: no bottleneck from 1/2 on, one below half of that, and a mild one between.

    The cut that counts is the worst with one in twenty vertices on either side at least. Where a smaller part hangs on fewer edges, the text
    says so, with its number of vertices, but the verdict is on the rest.

    **Far.** A random cubic graph, the sparsest that mixes well, has a diameter of about :math:`\log_2 n` (`Bollobás and Fernandez de la Vega
    1982 <https://doi.org/10.1007/BF02579310>`_). A graph is far where its diameter exceeds twice :math:`\log_2 n + 1`: paths from 10 vertices
    on, rings from 22, square grids from 81; no clique, star or expander. Where the way is longer than the suggested depth, the text
    says what crosses in that many layers.

    **Depth.** The diameter, so that every vertex can hear every other; at least 2, since shallower models are no test of depth, and at most
    100. A question about nearer vertices needs fewer layers. A wave passes, so more layers than the distance do not help by themselves.

    **Walk.** A random walk that rests half of the time forgets where it began in about :math:`2 / \lambda` steps, with the spectral gap
    :math:`\lambda`; one that never rests may not forget at all, for on a tree or an even ring every other step is on the same side. It needs
    the commute time from one of the two worst vertices to the other and back. A large random cubic graph of :math:`n` vertices has about 35, since
    its gap is near :math:`1 - 2 \sqrt{2} / 3` (`Friedman 2008 <https://arxiv.org/abs/cs/0405020>`_), and :math:`5 n`, which was measured. Both
    are long where much lies behind few edges and where it is a long way alike, so that they do not tell the two apart.

    What it does not see: what the question is. A bottleneck that no answer has to pass does no harm. Nor a bar between two parts that has
    vertices of its own hanging on it: they count as something that it joins.

    Args:
        measured: What :func:`gump.diagnostics.bottleneck` found.

    Example:
        >>> from gump.diagnostics.bottleneck import bottleneck
        >>> verdict(bottleneck(torch.combinations(torch.arange(6)).t())).narrow
        'no'
    """
    share, hops = measured.large_cut.share, measured.diameter
    narrow = "no" if share >= NO_BOTTLENECK else "mild" if share >= BOTTLENECK else "yes"
    usual = math.log2(measured.component_nodes)
    far = hops > 2 * (usual + 1)
    depth = min(max(hops, 2), MAX_DEPTH)
    text = _small_part(measured) + _text(measured, narrow, far, usual, depth)
    if measured.num_components > 1:
        text += f". This is the largest of {measured.num_components:,} parts, between which nothing passes"
    return Verdict(narrow, far, depth, text, _reason(measured, depth), _walk(measured))


def _small_part(measured: Bottleneck) -> str:
    """What hangs on few edges without being much."""
    if measured.cut.share >= BOTTLENECK or measured.cut == measured.large_cut:
        return ""
    behind, hang = measured.cut.nodes / measured.component_nodes, "hangs" if measured.cut.nodes == 1 else "hang"
    edges = counted(measured.cut.edges, "edge")
    return f"{_percent(behind)} of the vertices ({measured.cut.nodes:,} of {measured.component_nodes:,}) {hang} on {edges}; for the rest, "


def _text(measured: Bottleneck, narrow: str, far: bool, usual: float, depth: int) -> str:
    cut, hops = measured.large_cut, counted(measured.diameter, "hop")
    distance = hops if measured.diameter_exact else f"at least {hops}"
    behind = f"{cut.nodes:,} of {counted(measured.component_nodes, 'vertex')}"
    edges, layers = counted(cut.edges, "edge"), counted(measured.diameter, "layer")
    suggested = f", but no more than {_percent(cut.share_in(depth))} in the suggested {depth}" if depth < measured.diameter else ""
    if narrow == "no":
        lets = (
            f"the narrowest cut found ({edges}, {behind} behind it) lets up to {_percent(cut.share)} of what equally many vertices hold through "
            f"in {layers}{suggested}"
        )
        if far:
            usually = f"where a random graph of this size has about {usual:.0f}"
            return f"no bottleneck but a long way: the farthest vertices are {distance} apart, {usually}; {lets}"
        if measured.diameter_exact:
            part = " of the largest part" if measured.num_components > 1 else ""
            return f"no bottleneck: any two vertices{part} are within {distance}, and {lets}"
        return f"no bottleneck: the farthest vertices are {distance} apart, and {lets}"
    kind = "a bottleneck" if narrow == "yes" else "a mild bottleneck"
    if suggested:
        suggested = f"; in the suggested {depth} layers vertices that are farther apart hear nothing of each other"
    longest = "the longest distance" if measured.diameter_exact else "a distance that occurs"
    return (
        f"{kind}: {behind} are joined to the rest by {edges}, and in {layers}, {longest}, at most {_percent(cut.share)} of the "
        "dimensions that equally many vertices behind it hold on the denser side, in a walk on arcs, get across, whatever its coins; "
        f"more layers or rewiring let more through{suggested}{f'; and a long way, {distance}' if far else ''}"
    )


def _reason(measured: Bottleneck, depth: int) -> str:
    bound, part = "" if measured.diameter_exact else "at least ", " in the largest part" if measured.num_components > 1 else ""
    longest = f"the longest distance{part} is {bound}{counted(measured.diameter, 'hop')}"
    if depth < measured.diameter:
        return f"{longest}, but deeper models than {MAX_DEPTH} layers are untried; vertices farther apart do not hear each other"
    if depth > measured.diameter:
        return f"any two vertices{part} are neighbors; one layer more lets them answer"
    if not measured.diameter_exact:
        return f"{longest}: with fewer layers some vertices do not hear each other, and some may need more"
    return f"{longest}, so that every vertex {'of it ' if part else ''}hears every other"


def _walk(measured: Bottleneck) -> str:
    steps = counted(round(2 / max(measured.spectral_gap, 1e-12)), "step")
    source, target = measured.pair
    random = ""
    if measured.component_nodes >= LARGE:
        known = f"35 and {5 * measured.component_nodes:,}"
        random = f"; on a random graph of this size with three edges at each vertex it would be about {known}"
    return (
        f"a random walk that rests half of the time forgets where it began in about {steps} (2 / spectral gap), and one that never rests "
        f"takes {measured.commute_time:,.0f} from vertex {source:,} to vertex {target:,} and back (commute time){random}; few edges and a long way "
        "make both long alike"
    )


def _percent(share: float) -> str:
    return "0.1%" if 0 < share < 0.001 else f"{share:.1%}".replace(".0%", "%")  # these are bounds from above
