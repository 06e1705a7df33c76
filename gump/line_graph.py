"""The one structure that everything reads: arcs, their reverses, and the blocks where arcs meet."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

_T = TypeVar("_T")
_P = ParamSpec("_P")

_STALE = (
    "'data' must carry the line graph of its own edges (got one of other edges); apply gump.transforms.AddLineGraph after every "
    "transform that changes edges or vertices"
)
_MIXED = "'data' must have line graphs of one kind (got some with directed=True and some with False); apply one AddLineGraph to all"
_BEFOREHAND = (
    "'line_graph' must be given to a model that is exported, or compiled with fullgraph=True (got None), as its shapes depend on the edges; pass "
    "line_graph=gump.EulerianLineGraph.from_edge_index(edge_index, num_nodes)"
)
_MAX_NODES = 3_037_000_499  # whose square an integer of 64 bits holds
_REDUCTIONS = ("mean", "sum", "add", "mul", "min", "max", "any")


def _beforehand(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Keeps a function whose shapes depend on numbers out of compiled models, which then come in two parts, and out of exported ones."""

    @wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        if torch.compiler.is_exporting():
            raise ValueError(_BEFOREHAND)
        return function(*args, **kwargs)

    return torch.compiler.disable(checked, reason=_BEFOREHAND)


class _kept(Generic[_T]):
    """A property that is computed once, and outside inference mode, since what is made there could not be used in training later. While a model
    is compiled or exported, nothing is kept: there are no numbers yet."""

    def __init__(self, function: Callable[[Any], _T]) -> None:
        self._function, self._name, self.__doc__ = function, function.__name__, function.__doc__

    def __get__(self, instance: Any, owner: type) -> _T:
        if instance is None:
            return self  # type: ignore[return-value]
        if torch.compiler.is_compiling():
            return self._function(instance)
        with torch.inference_mode(False):
            value = instance.__dict__[self._name] = self._function(instance)
        return value


class BlockGroup(NamedTuple):
    """The blocks of one degree: ``num_blocks`` vertices with ``degree`` outgoing arcs each, in consecutive rows."""

    degree: int
    num_blocks: int
    first_arc: int
    first_transition: int

    @property
    def arcs(self) -> slice:
        """The rows of the group's outgoing arcs, one vertex after the other."""
        return slice(self.first_arc, self.first_arc + self.num_blocks * self.degree)


class CompressedTransitions(NamedTuple):
    """Transitions grouped by one of their ends, as a compressed sparse matrix holds them.

    The transitions of arc ``a`` are ``pointer[a]`` to ``pointer[a + 1]``; ``arc`` is their other end and ``order`` their place among
    the flattened blocks.
    """

    pointer: Tensor
    arc: Tensor
    order: Tensor


class Incidence(NamedTuple):
    """The arcs at every vertex: those that begin at ``v`` are ``outgoing[pointer[v] : pointer[v + 1]]``, and that part of ``incoming`` are
    their reverses, which end there."""

    pointer: Tensor
    outgoing: Tensor
    incoming: Tensor


@dataclass(frozen=True, eq=False)
class EulerianLineGraph:
    r"""The Eulerian line graph :math:`\mathsf{L}(G')` of a graph (Algorithm 1 of `Graph Unitary Message Passing
    <https://openreview.net/forum?id=dvNMDkSBIA>`_), in the form in which it is computed with.

    Every edge :math:`\{u, v\}` becomes the two *arcs* :math:`(u, v)` and :math:`(v, u)`, which are the nodes of
    :math:`\mathsf{L}(G')`. Arcs are sorted by the degree of their source, then by source, then by target. So the outgoing arcs of
    a vertex are consecutive rows, the vertices of one degree are consecutive blocks, and a batch of :math:`d \times d` blocks is
    a view of a tensor over arcs. The i-th *incoming* arc of a vertex is the reverse of its i-th outgoing arc.

    A self-loop is one arc and its own reverse; an isolated vertex owns no arc; a graph without edges is legal. For an undirected
    graph nothing is lost: :meth:`to_edge_index` reads it back.

    Args:
        arcs: Source and target of every arc.
        reverse: The arc that runs the other way.
        num_nodes: The number of vertices.
        block_sizes: For every degree that occurs, ascending, how many vertices have it.
        edge_arc: For every column of the input's ``edge_index`` the arc that it became.
        listed: Whether the arc itself, not only its reverse, was in the input.
        directed: Whether the orientation of the input's edges means something.
        reduce: How the attributes of duplicate columns are merged, in the words of :func:`torch_geometric.utils.scatter`.

    Shapes:
        - **arcs:** :math:`(2, A)`
        - **reverse, listed:** :math:`(A)`
        - **edge_arc:** :math:`(E)`

    Example:
        >>> EulerianLineGraph.from_edge_index(torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        EulerianLineGraph(num_nodes=3, num_arcs=4, num_transitions=6, max_degree=2)
    """

    arcs: Tensor
    reverse: Tensor
    num_nodes: int
    block_sizes: dict[int, int]
    edge_arc: Tensor
    listed: Tensor
    directed: bool = False
    reduce: str = "mean"

    @classmethod
    @_beforehand
    def from_edge_index(
        cls, edge_index: Tensor, num_nodes: int | None = None, directed: bool = False, reduce: str = "mean"
    ) -> EulerianLineGraph:
        """Builds the line graph of a graph given by its edges.

        Both readings merge duplicate columns and give every edge both orientations; they differ in :attr:`listed`, which tells a
        directed model which arcs are real.

        Args:
            edge_index: The edges. An undirected edge may be listed in one orientation or in both, and more than once.
            num_nodes: The number of vertices; by default one more than the largest that occurs.
            directed: Whether the orientation of a column means something. If not, every arc counts as listed.
            reduce: How :meth:`arc_attr` merges the attributes of duplicate columns.
        """
        num_nodes = _checked_num_nodes(edge_index, num_nodes)
        source, target = edge_index
        both = torch.cat([source * num_nodes + target, target * num_nodes + source])
        keys, position = both.unique(return_inverse=True)
        edge_arc, mate = position[: edge_index.size(1)], position[edge_index.size(1) :]
        arcs = torch.stack([keys // max(num_nodes, 1), keys % max(num_nodes, 1)])
        reverse = torch.empty_like(keys)
        reverse[edge_arc] = mate
        reverse[mate] = edge_arc
        listed = torch.full_like(keys, not directed, dtype=torch.bool).index_fill_(0, edge_arc, True)
        return cls._sorted_by_degree(arcs, reverse, num_nodes, edge_arc, listed, directed, reduce)

    @classmethod
    def from_data(cls, data: Data, reduce: str = "mean") -> EulerianLineGraph:
        """Reads the line graph that :class:`gump.transforms.AddLineGraph` put on a ``Data``, also after batching.

        What needs the edges sorted was done once, by the transform. Only the grouping by degree is done here, since it depends
        on what else is in the batch.
        """
        if "arc_index" not in data or "arc_directed" not in data:
            raise ValueError("'data' must carry a line graph (got none); apply gump.transforms.AddLineGraph to it first")
        arcs, reverse, edge_arc = data.arc_index, data.arc_reverse, data.edge_arc
        if data.edge_index is None:
            raise ValueError("'data' must have its edges as 'edge_index' (got none), of which the line graph is")
        directed, *others = torch.as_tensor(data.arc_directed).reshape(-1).tolist()  # of every graph of a batch
        if (not directed) in others:
            raise ValueError(_MIXED)
        fits = edge_arc.shape == data.edge_index.shape[1:] and arcs.shape == (2, *reverse.shape)
        fits = fits and (arcs.numel() == 0 or int(arcs.max()) < int(data.num_nodes or 0))
        counted = [(reverse, edge_arc)]
        if fits and data.batch is not None:  # from the first arc of each graph, unless the transform has seen them as one
            graph = data.batch[arcs[0]]
            num_arcs = graph.bincount(minlength=int(data.batch[-1:].sum()) + 1)
            first_arc = num_arcs.cumsum(0) - num_arcs
            counted.insert(0, (reverse + first_arc[graph], edge_arc + first_arc[data.batch[data.edge_index[0]]]))
        found = next((each for each in counted if fits and _lists(arcs, *each, data.edge_index)), None)
        if found is None:
            raise ValueError(_STALE)
        reverse, edge_arc = found
        listed = torch.full_like(reverse, not directed, dtype=torch.bool).index_fill_(0, edge_arc, True)
        return cls._sorted_by_degree(arcs, reverse, int(data.num_nodes or 0), edge_arc, listed, directed, reduce)

    @classmethod
    @torch.inference_mode(False)  # what is made there could not be used in training later
    def _sorted_by_degree(
        cls, arcs: Tensor, reverse: Tensor, num_nodes: int, edge_arc: Tensor, listed: Tensor, directed: bool, reduce: str
    ) -> EulerianLineGraph:
        """Moves vertices of one degree next to each other. The arcs of one source must be consecutive already.

        What makes no sense is refused here and not by the class, which torch's trees put together of anything, such as numbers of dimensions.
        """
        if reduce not in _REDUCTIONS:
            raise ValueError(f"'reduce' must be one of {', '.join(map(repr, _REDUCTIONS))} (got {reduce!r})")
        degree = arcs[0].bincount(minlength=num_nodes)
        sizes = enumerate(degree.bincount().tolist())
        order = degree[arcs[0]].argsort(stable=True)
        rank = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=order.device))
        return cls(
            arcs=arcs[:, order],
            reverse=rank[reverse[order]],
            num_nodes=num_nodes,
            block_sizes={d: count for d, count in sizes if d > 0 and count > 0},
            edge_arc=rank[edge_arc],
            listed=listed[order],
            directed=directed,
            reduce=reduce,
        )

    @property
    def num_arcs(self) -> int:
        """The number of nodes of the line graph: two per edge, one per self-loop."""
        return self.arcs.size(1)

    @property
    def num_transitions(self) -> int:
        r"""The number of edges of the line graph, :math:`M_L = \sum_v d_v^2`."""
        return sum(count * degree**2 for degree, count in self.block_sizes.items())

    @property
    def num_blocks(self) -> int:
        """The number of vertices that are not isolated."""
        return sum(self.block_sizes.values())

    @property
    def max_degree(self) -> int:
        """The side of the largest block; zero without edges."""
        return max(self.block_sizes, default=0)

    @property
    def device(self) -> torch.device:
        """Where the structure lies."""
        return self.arcs.device

    @_kept
    def groups(self) -> tuple[BlockGroup, ...]:
        """The blocks by degree, ascending, in the order in which their arcs are stored."""
        groups, arc, transition = [], 0, 0
        for degree, count in self.block_sizes.items():
            groups.append(BlockGroup(degree, count, arc, transition))
            arc, transition = arc + count * degree, transition + count * degree**2
        return tuple(groups)

    @_kept
    def block_vertices(self) -> Tensor:
        """The vertex of every block, in the order of :attr:`groups`."""
        return torch.cat([self.arcs[0, g.first_arc : g.arcs.stop : g.degree] for g in self.groups] or [self.arcs[0]])

    @_kept
    def block_degree(self) -> Tensor:
        """The degree of every block's vertex, in the order of :attr:`groups`."""
        return torch.cat([torch.full((g.num_blocks,), g.degree, device=self.device) for g in self.groups] or [self.reverse])

    @_kept
    def arc_block(self) -> Tensor:
        """The block of every arc's source: the one in which the arc is a column and its reverse a row."""
        block = torch.arange(self.num_blocks, device=self.device)
        return block.repeat_interleave(self.block_degree, output_size=self.num_arcs)

    @_kept
    def arc_degree(self) -> Tensor:
        """The degree of every arc's source."""
        return torch.cat(
            [torch.full((g.num_blocks * g.degree,), g.degree, device=self.device) for g in self.groups] or [self.reverse]
        )

    @_kept
    def _first_column(self) -> Tensor:
        """The first outgoing arc of every arc's source: the first column of its block."""
        return (self.block_degree.cumsum(0) - self.block_degree)[self.arc_block]

    @_kept
    def _first_in_row(self) -> Tensor:
        """Where the block row of every arc's reverse begins among the flattened blocks."""
        return self.arc_degree.cumsum(0) - self.arc_degree

    @_kept
    def incidence(self) -> Incidence:
        """The arcs at every vertex, as a list for all: to be summed over without adding row by row."""
        degree = self.arcs[0].bincount(minlength=self.num_nodes)
        pointer = torch.nn.functional.pad(degree.cumsum(0), (1, 0))
        first = torch.zeros_like(degree)
        first[self.block_vertices] = self.block_degree.cumsum(0) - self.block_degree
        place = torch.arange(self.num_arcs, device=self.device)
        outgoing = place + (first - pointer[:-1]).repeat_interleave(degree, output_size=self.num_arcs)
        return Incidence(pointer.int(), outgoing.int(), self.reverse[outgoing].int())

    @_kept
    def num_incoming(self) -> Tensor:
        """How many arcs that were in the input end at every vertex."""
        return torch.zeros(self.num_nodes, dtype=torch.long, device=self.device).index_add_(0, self.arcs[1], self.listed.long())

    def transitions(self) -> Tensor:
        r"""Lists the edges of :math:`\mathsf{L}(G')` as an ``edge_index`` over arcs: all pairs :math:`((u, v), (v, w))`.

        They come block by block and row by row, in the order in which blocks flatten: for a list ``blocks`` with one
        ``[num_blocks, d, d]`` tensor for each of :attr:`groups`, ``torch.cat([b.flatten() for b in blocks])`` are the weights
        :math:`A_{(u,v),(v,w)}`. Arc :math:`(u, v)` *gathers* from :math:`(v, w)`.

        Shapes:
            - **output:** :math:`(2, M_L)`
        """
        row = torch.arange(self.num_arcs, device=self.device).repeat_interleave(self.arc_degree, output_size=self.num_transitions)
        column = torch.arange(self.num_transitions, device=self.device) + (self._first_column - self._first_in_row)[row]
        return torch.stack([self.reverse[row], column])

    def compressed(self, max_degree: int) -> tuple[CompressedTransitions, CompressedTransitions]:
        """Groups the transitions at vertices up to a degree, by the arc that gathers and by the arc that is gathered from.

        Vertices above it are hubs, of whose transitions there are too many to list.
        """
        max_degree = max((degree for degree in self.block_sizes if degree <= max_degree), default=0)
        if max_degree not in self._compressed:
            with torch.inference_mode(False):
                self._compressed[max_degree] = self._by_row(max_degree), self._by_column(max_degree)
        return self._compressed[max_degree]

    @_kept
    def _compressed(self) -> dict[int, tuple[CompressedTransitions, CompressedTransitions]]:
        return {}

    def _by_row(self, max_degree: int) -> CompressedTransitions:
        degree = self.arc_degree.index_select(0, self.reverse)
        degree = degree * (degree <= max_degree)
        num_transitions = sum(g.num_blocks * g.degree**2 for g in self.groups if g.degree <= max_degree)
        pointer = torch.nn.functional.pad(degree.cumsum(0), (1, 0)).int()
        row = torch.arange(self.num_arcs, device=self.device).repeat_interleave(degree, output_size=num_transitions)
        place = torch.arange(num_transitions, device=self.device, dtype=torch.int)
        first_column = self._first_column.int().index_select(0, self.reverse) - pointer[:-1]
        first_in_row = self._first_in_row.int().index_select(0, self.reverse) - pointer[:-1]
        return CompressedTransitions(pointer, first_column.index_select(0, row) + place, first_in_row.index_select(0, row) + place)

    def _by_column(self, max_degree: int) -> CompressedTransitions:
        index, order = [self.reverse[:0].int()], [self.reverse[:0].int()]
        for group in self.groups:
            if group.degree > max_degree:
                break
            n, d = group.num_blocks, group.degree
            index.append(self.reverse[group.arcs].int().view(n, 1, d).expand(n, d, d).reshape(-1))
            place = torch.arange(group.first_transition, group.first_transition + n * d * d, device=self.device, dtype=torch.int)
            order.append(place.view(n, d, d).mT.reshape(-1))
        degree = self.arc_degree * (self.arc_degree <= max_degree)
        pointer = torch.nn.functional.pad(degree.cumsum(0), (1, 0))
        return CompressedTransitions(pointer.int(), torch.cat(index), torch.cat(order))

    def to_edge_index(self) -> Tensor:
        """Reads the graph back: the listed arcs, sorted by source, then target."""
        arcs = self.arcs[:, self.listed]
        return arcs[:, (arcs[0] * self.num_nodes + arcs[1]).argsort()]

    def arc_attr(self, edge_attr: Tensor) -> Tensor:
        """Carries attributes of the input's edges over to the arcs.

        An arc takes the attributes of the columns that list it, merged by :attr:`reduce`. An arc that no column lists takes those
        of its reverse; so attributes that depend on the orientation, such as a displacement, survive where both are listed. The
        type of the attributes stays; a mean of integers that differ is cut off.

        Shapes:
            - **input:** :math:`(E, *)`
            - **output:** :math:`(A, *)`
        """
        self.check_edge_rows("edge_attr", edge_attr)
        attr = scatter(edge_attr, self.edge_arc, dim_size=self.num_arcs, reduce=self.reduce).to(edge_attr.dtype)
        own = torch.zeros(self.num_arcs, dtype=torch.bool, device=self.device).index_fill_(0, self.edge_arc, True)
        return torch.where(own.view(-1, *[1] * (attr.dim() - 1)), attr, attr[self.reverse])

    def check_edge_rows(self, name: str, rows: Tensor) -> None:
        """Refuses what has not one row for each of the input's edges; ``name`` is what the caller calls it."""
        if rows.size(0) != self.edge_arc.numel():
            raise ValueError(f"'{name}' must have one row for each of the {self.edge_arc.numel()} edges (got {rows.size(0)})")

    @torch.inference_mode(False)
    def to(self, device: torch.device | str) -> EulerianLineGraph:
        """Copies the structure to a device."""
        return replace(self, **{name: getattr(self, name).to(device) for name in ("arcs", "reverse", "edge_arc", "listed")})

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # of which the rest can be computed again

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_nodes={self.num_nodes}, num_arcs={self.num_arcs}, "
            f"num_transitions={self.num_transitions}, max_degree={self.max_degree})"
        )


torch.export.register_dataclass(EulerianLineGraph, serialized_type_name="gump.EulerianLineGraph")  # as an input of exported models
torch.serialization.add_safe_globals([EulerianLineGraph])  # with which an example of it is stored


def _checked_num_nodes(edge_index: Tensor, num_nodes: int | None) -> int:
    """Judges the input of :meth:`EulerianLineGraph.from_edge_index` and fills in what was left out."""
    check_edge_index(edge_index)
    if num_nodes is not None and not _is_count(num_nodes):
        raise ValueError(f"'num_nodes' must be an integer that is not negative (got {num_nodes!r})")
    smallest, largest = (0, -1) if edge_index.numel() == 0 else map(int, edge_index.aminmax())
    num_nodes = largest + 1 if num_nodes is None else int(num_nodes)
    if smallest < 0 or largest >= num_nodes:
        wrong = smallest if smallest < 0 else largest
        raise ValueError(f"'edge_index' must name vertices from 0 to num_nodes - 1 = {num_nodes - 1} (got {wrong})")
    if num_nodes > _MAX_NODES:
        raise ValueError(
            f"'num_nodes' must be at most {_MAX_NODES:,} (got {num_nodes:,}); number the vertices that occur from 0 on"
        )
    return num_nodes


def _is_count(value: Any) -> bool:
    try:
        return operator.index(value) >= 0
    except TypeError:  # tensors have an __index__ whatever their type
        return False


def check_edge_index(edge_index: Tensor) -> None:
    """Refuses what is not a list of edges, without a look at its values."""
    if not isinstance(edge_index, Tensor):
        raise ValueError(f"'edge_index' must be a tensor (got {type(edge_index).__name__}); pass torch.as_tensor(edge_index)")
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(f"'edge_index' must have shape [2, num_edges] (got {list(edge_index.shape)})")
    if edge_index.dtype != torch.long:
        advice = "" if edge_index.is_floating_point() else "; call .long()"
        raise ValueError(f"'edge_index' must hold integers of type torch.long (got {edge_index.dtype}){advice}")


def _lists(arcs: Tensor, reverse: Tensor, edge_arc: Tensor, edge_index: Tensor) -> bool:
    """Whether edges are those of the arcs: each at its own, none of the arcs or their reverses left out, and the arcs as they were laid out."""
    num_arcs = arcs.size(1)
    if edge_arc.numel() == 0 or num_arcs == 0:
        return edge_arc.numel() == num_arcs
    inside = (edge_arc < num_arcs).all() & (reverse < num_arcs).all()
    edge_arc, reverse = edge_arc.clamp(max=num_arcs - 1), reverse.clamp(max=num_arcs - 1)
    listed = torch.zeros(num_arcs, dtype=torch.bool, device=arcs.device).index_fill_(0, edge_arc, True)
    paired = (arcs[:, edge_arc] == edge_index).all() & (arcs[:, reverse] == arcs.flip(0)).all()
    num_runs = (arcs[0, 1:] != arcs[0, :-1]).sum() + 1  # of one source each
    together = num_runs == (arcs[0].bincount() > 0).sum()
    return bool(inside & paired & together & (listed | listed[reverse]).all())  # waits for the device once
