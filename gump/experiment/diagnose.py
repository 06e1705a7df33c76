"""What to know about a graph or a dataset before training on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import degree, to_undirected

from gump.diagnostics.bottleneck import Bottleneck, bottleneck
from gump.diagnostics.counted import counted
from gump.diagnostics.memory import MemoryEstimate, memory
from gump.diagnostics.verdict import Verdict, verdict
from gump.nn.coin import SCORE_RANK

BATCH = 64
"""The number of graphs in the batch whose cost is told."""

NUMBERS = {
    "num_nodes": "vertices",
    "num_edges": "edges, listed once",
    "num_components": "parts between which nothing passes",
    "diameter": "most hops between two vertices of the largest part",
    "spectral_gap": "0 where a walk mixes slowly, 1 to 2 on a clique",
    "conductance": "of the worst cut found: edges across, over arcs of the smaller side",
    "cut_edges": "across that cut; in L layers at most L times as many dimensions cross",
    "cut_nodes": "vertices on its smaller side",
    "crossing_share": "the most that crosses in diameter layers, of what equally many vertices behind it hold",
    "num_bridges": "edges without which the part would fall apart",
    "resistance": "effective resistance of the worst pair of vertices",
    "commute_time": "steps of a random walk from one to the other and back",
    "min_curvature": "least balanced Forman curvature of an edge",
    "mean_curvature": "mean over edges",
}
"""What is shown of a :class:`gump.diagnostics.Bottleneck`, and what it says."""


@dataclass(frozen=True)
class Diagnosis:
    """What was found, as a table and as sentences.

    Args:
        title: What was measured.
        columns: The heads of the table.
        rows: Its rows.
        notes: What to make of it, each with its subject: verdict, walk, depth, hubs if there are any, cost and, if asked for, what fits.
    """

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: dict[str, str]


def diagnose(
    graphs: Sequence[Data],
    title: str,
    index: int | None = None,
    num_sampled: int = 200,
    hidden_channels: int = 64,
    budget_gb: float | None = None,
    seed: int = 0,
) -> Diagnosis:
    """Measures one graph or many, and says in words what that means.

    Of many graphs, up to ``num_sampled`` are drawn; their medians are shown beside the graph with the least share that crosses its worst cut
    (of those, the one with the longest distance), where parts of less than one in twenty vertices do not count. Graphs without
    edges are left out. The depth for many is what nine of ten graphs need.

    Args:
        graphs: The graphs.
        title: What they are called.
        index: The one to measure; by default all.
        num_sampled: How many of them to measure at most.
        hidden_channels: The width of the model whose cost is told.
        budget_gb: Gigabytes to say the largest ``max_block`` for.
        seed: Of the draw.
    """
    if index is not None and not 0 <= index < len(graphs):
        raise ValueError(f"'index' must be from 0 to {len(graphs) - 1}, the graphs of {title} (got {index})")
    if num_sampled < 1 or hidden_channels < 1:
        raise ValueError(f"'num_sampled' and 'hidden_channels' must be at least 1 (got {num_sampled} and {hidden_channels})")
    if budget_gb is not None and not 0 < budget_gb < float("inf"):
        raise ValueError(f"'--memory' must be a number of gigabytes above 0 (got {budget_gb})")
    chosen = [index] if index is not None else list(range(len(graphs)))
    measured = {i: found for i in _sample(chosen, num_sampled, seed) if (found := _measure(graphs[i], single=len(chosen) == 1))}
    if not measured:
        raise ValueError(
            f"{title} must have a graph with an edge (got none among {min(len(chosen), num_sampled)} that were measured)"
        )
    judged = {i: verdict(found) for i, found in measured.items()}
    if len(chosen) == 1:
        [(number, found)] = measured.items()
        name = title if len(graphs) == 1 else f"{title}, graph {number}"
        rows = [[key, _shown(found, key), meaning] for key, meaning in NUMBERS.items()]
        depth, reason = judged[number].depth, judged[number].reason
        notes = {"verdict": judged[number].text, "walk": judged[number].walk}
        degrees, what = _degrees(graphs[number]), "the graph"
    else:
        worst = min(measured, key=lambda i: (measured[i].large_cut.share, -measured[i].diameter, i))
        name = f"{title}, {len(measured):,} of {counted(len(graphs), 'graph')}"
        rows = [[key, _median(measured.values(), key), _shown(measured[worst], key), meaning] for key, meaning in NUMBERS.items()]
        depth = sorted(v.depth for v in judged.values())[-(-9 * len(judged) // 10) - 1]
        reason = "the longest distance in nine of ten graphs is no longer"
        notes = {"verdict": _summary(judged, len(graphs)), "worst": f"graph {worst}, {judged[worst].text}"}
        batch = list(measured)[:BATCH]
        degrees, what = torch.cat([_degrees(graphs[i]) for i in batch]), f"a batch of {counted(len(batch), 'graph')}"
    budget = None if budget_gb is None else max(int(budget_gb * 1e9), 1)
    cost = memory(degrees, hidden_channels, depth, budget=budget, in_channels=_in_channels(graphs[next(iter(measured))]))
    notes["depth"] = f"{counted(depth, 'layer')}: {reason}"
    if cost.num_hubs:
        notes["hubs"] = _hubs(int(degrees.max()))
    notes["cost"] = _cost(cost, what, hidden_channels)
    if budget_gb is not None:
        notes["fits"] = _fits(cost, budget_gb, int(degrees.max()))
    columns = ["number", "value"] if len(chosen) == 1 else ["number", "median", f"graph {worst}"]
    return Diagnosis(name, [*columns, "what it says"], rows, notes)


def _sample(indices: list[int], most: int, seed: int) -> list[int]:
    order = torch.randperm(len(indices), generator=torch.Generator().manual_seed(seed))[:most]
    return [indices[i] for i in sorted(order.tolist())]


def _measure(data: Data, single: bool) -> Bottleneck | None:
    if bool((data.edge_index[0] == data.edge_index[1]).all()) and not single:
        return None
    return bottleneck(data.edge_index, int(data.num_nodes or 0))


def _degrees(data: Data) -> Tensor:
    edge_index: Tensor = to_undirected(data.edge_index, num_nodes=data.num_nodes)  # merges what is listed twice
    count: Tensor = degree(edge_index[0], data.num_nodes, dtype=torch.long)
    return count


def _in_channels(data: Data) -> int | None:
    """The width of vertex features; none where there are none, or categories, which are embedded in the width of the model."""
    return int(data.x.size(1)) if data.x is not None and data.x.is_floating_point() and data.x.size(1) else None


def _shown(found: Bottleneck, key: str) -> str:
    sampled = key.endswith("curvature") and 2 * found.curvature_edges < found.component_arcs
    note = f" ({counted(found.curvature_edges, 'edge')})" if sampled else ""
    at_most = "at most " if sampled and key == "min_curvature" else ""
    at_least = "at least " if key == "diameter" and not found.diameter_exact else ""
    return f"{at_most or at_least}{_number(getattr(found, key))}{note}"


def _median(found: Any, key: str) -> str:
    return _number(median(getattr(each, key) for each in found))


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _summary(judged: dict[int, Verdict], num_graphs: int) -> str:
    count, far = Counter(v.narrow for v in judged.values()), sum(v.far for v in judged.values())
    drawn = "" if len(judged) == num_graphs else f" measured, of {num_graphs:,}"
    return (
        f"of {counted(len(judged), 'graph')}{drawn}, no bottleneck in {count['no']:,}, a mild one in {count['mild']:,} and a bottleneck in "
        f"{count['yes']:,}; a long way for its size in {far:,}"
    )


def _cost(cost: MemoryEstimate, what: str, hidden_channels: int) -> str:
    hubs = "" if cost.num_hubs == 0 else f", {counted(cost.num_hubs, 'hub')} above degree {cost.max_block}"
    size = f"{counted(cost.num_arcs, 'arc')}, {counted(cost.num_transitions, 'transition')}{hubs}"
    return (
        f"about {_bytes(cost.bytes)} and {cost.time_s:.2g} s for a training step of GUMP with that depth and width {hidden_channels} on {what} "
        f"({size}, {counted(cost.num_parameters, 'parameter')} with Adam's moments); the time goes by the speed of this CPU as measured just "
        "now, with whatever else it is doing"
    )


def _hubs(degree: int) -> str:
    """What a coin of linear size does to what arrives at the largest hub, see :class:`gump.nn.Coin`."""
    returned = max(1 - 2 * (2 * SCORE_RANK + 1) / degree, 0) ** 2
    return (
        f"a vertex with {degree:,} neighbors returns at least {returned:.0%} of what comes in by an arc, on average over its arcs, to where it "
        "came from: a signal crosses it slowly, whatever the hops say"
    )


def _fits(cost: MemoryEstimate, budget_gb: float, max_degree: int) -> str:
    fitting = cost.fitting_max_block
    if fitting is None:
        return f"no max_block fits {budget_gb:g} GB; fewer layers, a smaller width or smaller batches may"
    return f"max_block={fitting} fits {budget_gb:g} GB" + (", all coins dense" if fitting >= max_degree else "")


def _bytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"
