"""What a model will cost, before anything is built."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from gump.linalg.low_rank_polar import CHUNK
from gump.linalg.tiles import TILE
from gump.line_graph import EulerianLineGraph

STATES_PER_LAYER = {"gcn": 2, "gin": 3, "graph": 3, "gcnii": 3}
"""How many tensors of the size of all arc states a layer keeps for its backward pass, by flavor."""

MORE_WITH_HUBS = {"gcn": 1, "gin": 1, "graph": 0, "gcnii": 0}
"""How many more where there are hubs: propagated states are then kept, and not computed again."""

KEEP = 2**26
"""How many numbers the attention keeps for the backward pass; where it would be more, none are kept, as :class:`gump.nn.Coin` does."""


@dataclass(frozen=True)
class MemoryEstimate:
    """What a step of :class:`gump.nn.GUMP` is predicted to take.

    Args:
        num_nodes: The number of vertices.
        num_arcs: The number of arcs.
        num_transitions: The number of entries of all dense coins: the squares of the degrees up to ``max_block``.
        num_hubs: The number of vertices above it.
        num_parameters: The number of the model's parameters.
        bytes: The most memory that tensors hold at a time: those of the step, the parameters and, in training, their gradients and the two
            moments that Adam keeps of each.
        time_s: How long the step takes, roughly, on the CPU of this machine.
        max_block: The degree up to which coins are dense.
        fitting_max_block: The largest ``max_block`` with which the step fits the budget, the largest degree if all coins may be dense; none
            if nothing fits, or without a budget.
    """

    num_nodes: int
    num_arcs: int
    num_transitions: int
    num_hubs: int
    num_parameters: int
    bytes: int
    time_s: float
    max_block: int
    fitting_max_block: int | None = None


def memory(
    edge_index_or_degrees: Tensor,
    hidden_channels: int,
    num_layers: int,
    max_block: int = 64,
    attention_channels: int = 32,
    score_rank: int = 8,
    training: bool = True,
    conv: str = "gcn",
    budget: int | None = None,
    in_channels: int | None = None,
) -> MemoryEstimate:
    r"""Predicts the memory and the time of one step of GUMP on a graph or batch, from its degrees alone.

    With :math:`N` vertices, :math:`A` arcs, :math:`T = \sum_v d_v^2` transitions over vertices that are not hubs, of which :math:`T_g` are in
    the largest group of equal degree, width :math:`F`, attention width :math:`k`, :math:`L` layers and :math:`P` parameters, the tensors of a
    training step with Adam in single precision hold at most

    .. math::
        16 P + 80 A + 4 \cdot 12 N F + 4 \max\{\, s L A F + (k + 15)\, T ,\;\; (k + 8)\, T + 2 k\, T_g \,\}

    bytes: the parameters, their gradients and two moments, and the states of the layers when the backward pass begins (:math:`s = 2`, in the
    other flavors than GCN 3), or the attention of the largest group near its end. Where :math:`k T` exceeds :math:`2^{26}` nothing of size
    :math:`k T` is kept. Without training, there are the parameters alone, states are counted once and attention one group at a time. Hubs
    have, in place of transitions, :math:`2r + 1` numbers for every arc a few times over, with the rank :math:`r` of their scores, one more
    state of their arcs, and in the GCN and GIN flavors one of all arcs, in every layer, and some forty matrices in double precision of
    :math:`(2r + 1)^2` entries for every hub, a part of the hubs at a time.

    The factors were read off the model with its default settings (one base layer, batch norm) on a CPU with MKL (without it, states are kept
    as where there are hubs); a test keeps them within a factor of 1.3 of the measured peaks on batches of TU datasets, Cora, stars and
    cliques. Not counted: the input features, a head that answers from the result, and what torch itself takes, some hundreds of megabytes.

    The time counts multiplications, bytes touched and calls, each at what it costs on the CPU of this machine with the threads that torch
    has, measured in some milliseconds on the first call. Take it for an order of magnitude; ``benchmarks/memory.py`` holds both
    against what is measured.

    Args:
        edge_index_or_degrees: The edges, as :meth:`gump.EulerianLineGraph.from_edge_index` takes them; or one degree for each vertex, a
            self-loop counted once.
        hidden_channels: The model's width.
        num_layers: The model's depth.
        max_block: The degree above which a vertex is a hub, whose coin is kept in low rank.
        attention_channels: The width of the attention.
        score_rank: The rank of the scores of hubs.
        training: Whether the step is of training, or of inference.
        conv: The flavor: ``"gcn"``, ``"gin"``, ``"graph"`` or ``"gcnii"``.
        budget: The bytes that are there, to be told which ``max_block`` fits them.
        in_channels: Width of the vertex features, by default that of the model; only the number of parameters depends on it.

    Shapes:
        - **edge_index:** :math:`(2, E)`
        - **degrees:** :math:`(N)`

    Example:
        >>> estimate = memory(torch.tensor([1000] + [1] * 1000), hidden_channels=64, num_layers=4, budget=10**9)
        >>> estimate.num_arcs, estimate.num_transitions, estimate.bytes // 10**6, estimate.fitting_max_block
        (2000, 1000, 11, 1000)
    """
    block_sizes, num_nodes = _block_sizes(edge_index_or_degrees)
    settings = {"hidden_channels": hidden_channels, "num_layers": num_layers, "attention_channels": attention_channels}
    bounded = {**settings, "score_rank": score_rank, "max_block": max_block, "budget": budget, "in_channels": in_channels}
    for name, value in bounded.items():
        if value is not None and value < 1:
            raise ValueError(f"'{name}' must be at least 1 (got {value})")
    if conv not in STATES_PER_LAYER:
        raise ValueError(f"'conv' must be one of {', '.join(STATES_PER_LAYER)} (got '{conv}')")
    rank = 2 * min(score_rank, attention_channels) + 1
    parts = _Parts(block_sizes, num_nodes, in_channels or hidden_channels, **settings, rank=rank, training=training, conv=conv)
    fitting = None
    if budget is not None:
        degrees = sorted({1, *block_sizes})
        up_to = [*(degree - 1 for degree in degrees[1:]), degrees[-1]]  # nothing changes before the next degree
        fitting = max((block for block in up_to if parts.bytes(block) <= budget), default=None)
    return MemoryEstimate(
        num_nodes=num_nodes,
        num_arcs=parts.num_arcs,
        num_transitions=sum(parts.transitions(max_block)),
        num_hubs=sum(count for degree, count in block_sizes.items() if degree > max_block),
        num_parameters=parts.num_parameters,
        bytes=parts.bytes(max_block),
        time_s=parts.time_s(max_block),
        max_block=max_block,
        fitting_max_block=fitting,
    )


@dataclass(frozen=True)
class _Parts:
    """The terms of the prediction."""

    block_sizes: Mapping[int, int]
    num_nodes: int
    in_channels: int
    hidden_channels: int
    num_layers: int
    attention_channels: int
    rank: int
    training: bool
    conv: str

    @property
    def num_arcs(self) -> int:
        return sum(degree * count for degree, count in self.block_sizes.items())

    @property
    def num_parameters(self) -> int:
        """Of a model with the default settings: a base layer, the attention, the layers, and a norm behind each of them and the base."""
        width, layers = self.hidden_channels, self.num_layers
        matrices = (layers + 1) * width**2  # the first layer reads both ends of an arc
        second = {"gin": layers * (width**2 + width + 1), "graph": matrices}.get(self.conv, 0)
        biases = 0 if self.conv == "gcnii" else layers * width
        attention = self.attention_channels * (4 * width + 1)
        return (self.in_channels + 1) * width + attention + matrices + biases + second + 2 * (layers + 1) * width

    def transitions(self, max_block: int) -> list[int]:
        """Of every group of dense coins."""
        return [count * degree**2 for degree, count in self.block_sizes.items() if degree <= max_block]

    def hubs(self, max_block: int) -> tuple[int, int]:
        """The number of hubs and of the rows to which their arcs are padded."""
        sizes = [(degree, count) for degree, count in self.block_sizes.items() if degree > max_block]
        return sum(count for _, count in sizes), sum(count * TILE * -(-degree // TILE) for degree, count in sizes)

    def bytes(self, max_block: int) -> int:
        """The larger of what the layers and what the coins need."""
        groups, (num_hubs, hub_rows) = self.transitions(max_block), self.hubs(max_block)
        total, largest, k, width = sum(groups), max(groups, default=0), self.attention_channels, self.hidden_channels
        state, rank = self.num_arcs * width, self.rank
        kept = k if k * total <= KEEP else 0
        at_once = 2 * rank**2 * min(num_hubs, max(CHUNK // rank**2, 1))  # in double precision
        if self.training:
            hub_states = self.num_layers * width * (hub_rows + 2 * rank * num_hubs)
            per_layer = STATES_PER_LAYER[self.conv] + (MORE_WITH_HUBS[self.conv] if num_hubs else 0)
            layers = per_layer * self.num_layers * state + (kept + 15) * total + hub_states
            coins = (kept + 8) * total + max(2 * kept, 10) * largest + 38 * at_once
            numbers = max(layers, coins) + 12 * self.num_nodes * width + 4 * rank * hub_rows
        else:
            layers = max(self.num_layers + 1, 4) * state + 9 * total + 2 * rank * hub_rows
            coins = max(kept, 8) * largest + total + 10 * at_once
            numbers = max(layers, coins) + 2 * self.num_nodes * width
        return 4 * numbers + 80 * self.num_arcs + (16 if self.training else 4) * self.num_parameters

    def time_s(self, max_block: int) -> float:
        """What is multiplied, touched and called in forward and, in training, in backward and by Adam, each at its price on this machine. The
        factors are fitted: they hold what a step does besides, too."""
        passes, layers, k, width = 3 if self.training else 1, self.num_layers, self.attention_channels, self.hidden_channels
        groups, (num_hubs, hub_rows), rank = self.transitions(max_block), self.hubs(max_block), self.rank
        cubes = sum(count * degree**3 for degree, count in self.block_sizes.items() if degree <= max_block)
        products = 9 * cubes + 4.5 * hub_rows * rank * (rank + 2 * layers * width) + 1000 * num_hubs * rank**3
        states = 18 * layers * self.num_arcs * width + 100 * self.num_nodes * width
        touched = 4 * (states + sum(groups) * (layers * width / 2 + 10 * k))
        calls = 150 * len(groups) + 15 * layers + 200
        per_product, per_byte, per_call = _speed(torch.get_num_threads())
        adam = 64 * self.num_parameters * per_byte + 10 * (4 * layers + 7) * per_call if self.training else 0.0
        return passes * (products * per_product + touched * per_byte + calls * per_call) + adam


@cache
def _speed(num_threads: int) -> tuple[float, float, float]:
    """Seconds per multiplication, per byte and per call on this machine."""
    matrix, narrow, large, small = torch.randn(4096, 64), torch.randn(64, 64), torch.randn(2**22), torch.randn(8)
    product = _median_time(lambda: matrix @ narrow) / (4096 * 64 * 64)
    other = torch.empty_like(large)  # made before, since the price of fresh memory varies
    touch = _median_time(lambda: torch.add(large, 1, out=other)) / (2 * 4 * large.numel())
    return product, touch, _median_time(lambda: small + small)


def _median_time(function: Callable[[], Any]) -> float:
    times = []
    for _ in range(15):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _block_sizes(edge_index_or_degrees: Tensor) -> tuple[dict[int, int], int]:
    """How many vertices have which degree, and how many there are."""
    given = edge_index_or_degrees
    if given.dim() == 2:
        line_graph = EulerianLineGraph.from_edge_index(given)
        return line_graph.block_sizes, line_graph.num_nodes
    if given.dim() != 1 or given.is_floating_point() or bool((given < 0).any()):
        raise ValueError(
            f"'edge_index_or_degrees' must have shape [2, num_edges], or hold a whole number for each vertex that is not negative "
            f"(got {list(given.shape)} of {given.dtype})"
        )
    degrees, counts = given.unique(return_counts=True)
    sizes = dict(zip(degrees.tolist(), counts.tolist(), strict=True))
    return {degree: count for degree, count in sizes.items() if degree > 0}, given.numel()
