"""What the numbers of a graph mean, in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gump.diagnostics.bottleneck import Bottleneck

NO_BOTTLENECK, BOTTLENECK = 0.5, 0.25
"""At least this share crosses the worst cut where there is no bottleneck; less than this where there is one."""

MAX_DEPTH = 100
"""The deepest model that the paper shows."""


@dataclass(frozen=True)
class Verdict:
    """Whether a graph has a bottleneck, and how deep a model for it should be.

    Args:
        narrow: ``"no"``, ``"mild"`` or ``"yes"``: whether much lies behind few edges.
        far: Whether the longest distance is long for a graph of this size.
        depth: The number of layers to begin with.
        text: The verdict in a sentence or two.
        reason: Why this depth.
    """

    narrow: str
    far: bool
    depth: int
    text: str
    reason: str


def verdict(measured: Bottleneck) -> Verdict:
    r"""Judges a graph by its worst cut and by its longest distance.

    **Narrow.** With :math:`L` layers at most :math:`L c` dimensions cross a cut of :math:`c` edges, whatever the model's coins. Of what equally
    many vertices of either side hold, one dimension for each arc, that is :attr:`Bottleneck.crossing_share` at a depth equal to the
    diameter. On a clique, which nobody would say has a bottleneck, it is above 1/2, :math:`n / (2n - 2)` for even :math:`n`; on paths, rings,
    grids and stars it is 1 or nearly so at every size, and on random regular graphs above 0.9. On two cliques of :math:`k` vertices with an edge
    between them it is :math:`3 / (k^2 - k + 1)`, below 1/4 from :math:`k = 4` on; on a clique with a path of as many vertices it is
    :math:`(k + 1) / (k^2 - k + 1)`, below 1/4 from :math:`k = 6` on; on a binary tree, the other standard example, it falls below 1/4 at 63
    vertices. Hence: no bottleneck from 1/2 on, one below half of that, and a mild one between.

    **Far.** A random cubic graph, the sparsest that mixes well, has a diameter of about :math:`\log_2 n` (`Bollobás and Fernandez de la Vega
    1982 <https://doi.org/10.1007/BF02579310>`_). A graph is far where its diameter exceeds twice :math:`\log_2 n + 1`: paths from 10 vertices
    on, rings from 22, square grids from 81; no clique, star or expander.

    **Depth.** The diameter, so that every vertex can hear every other; at least 2, since shallower models are no test of depth, and at most
    100. A question about nearer vertices needs fewer layers. A wave passes, so more layers than the distance do not help by themselves.

    What it does not see: what the question is. A bottleneck that no answer has to pass does no harm. Nor how many vertices suffer: a short
    tail of a clique is told as a bottleneck too, with the number of vertices behind it.

    Args:
        measured: What :func:`gump.diagnostics.bottleneck` found.

    Example:
        >>> from gump.diagnostics.bottleneck import bottleneck
        >>> verdict(bottleneck(torch.combinations(torch.arange(6)).t())).narrow
        'no'
    """
    share, hops = measured.crossing_share, measured.diameter
    narrow = "no" if share >= NO_BOTTLENECK else "mild" if share >= BOTTLENECK else "yes"
    usual = math.log2(measured.component_nodes)
    far = hops > 2 * (usual + 1)
    depth = min(max(hops, 2), MAX_DEPTH)
    return Verdict(narrow, far, depth, _text(measured, narrow, far, usual), _reason(measured, depth))


def _text(measured: Bottleneck, narrow: str, far: bool, usual: float) -> str:
    at_least = "" if measured.diameter_exact else "at least "
    distance = f"{at_least}{_count(measured.diameter, 'hop')}"
    behind = f"{measured.cut_nodes:,} of {_count(measured.component_nodes, 'vertex')}"
    edges, share = _count(measured.cut_edges, "edge"), f"{measured.crossing_share:.1%}".replace(".0%", "%")
    if narrow == "no":
        lets = (
            f"the narrowest cut found ({edges}, {behind} behind it) lets up to {share} of what equally many vertices hold through in as many "
            "layers"
        )
        if far:
            text = (
                f"no bottleneck but a long way: the farthest vertices are {distance} apart, where a random graph of this size has about "
                f"{usual:.0f}; {lets}"
            )
        elif measured.diameter_exact:
            text = f"no bottleneck: any two vertices are within {distance}, and {lets}"
        else:
            text = f"no bottleneck: the farthest vertices found are {_count(measured.diameter, 'hop')} apart, and {lets}"
    else:
        kind = "a bottleneck" if narrow == "yes" else "a mild bottleneck"
        text = (
            f"{kind}: {behind} are joined to the rest by {edges}, and in {_count(measured.diameter, 'layer')}, the longest distance, at most "
            f"{share} of the dimensions that equally many vertices of the denser side hold in a walk on arcs get across, whatever its coins; "
            "more layers or rewiring let more through"
        )
        text += f"; and a long way, {distance}" if far else ""
    if measured.num_components > 1:
        text += f". This is the largest of {measured.num_components:,} parts, between which nothing passes"
    return text


def _reason(measured: Bottleneck, depth: int) -> str:
    if depth < measured.diameter:
        return f"the longest distance is {measured.diameter:,} hops, but deeper models than {MAX_DEPTH} layers are untried"
    if depth > measured.diameter:
        return "any two vertices are neighbors; one layer more lets them answer"
    at_least = "" if measured.diameter_exact else "found "
    return f"the longest distance {at_least}is {_count(measured.diameter, 'hop')}, so that every vertex hears every other"


def _count(number: int, noun: str) -> str:
    plural = {"vertex": "vertices"}.get(noun, f"{noun}s")
    return f"{number:,} {noun if number == 1 else plural}"
