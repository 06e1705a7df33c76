"""The propagation operator: a coin at every vertex, then the shift."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor

from gump.kernels import runs_kernels
from gump.kernels.once_differentiable import once_differentiable
from gump.linalg import LowRankBlocks
from gump.line_graph import CompressedTransitions, EulerianLineGraph
from gump.nn.arc_linear import ArcFeatures
from gump.nn.arguments import can_look, is_transformed
from gump.nn.rows import add_rows, flat_index, put_rows, replicas_first, select_rows

BATCHED: Any = torch._C._parse_dispatch_key("Batched")
"""The mark of gradients that ``torch.autograd.grad`` takes with ``is_grads_batched=True``."""


class Propagation:
    r"""The operator :math:`\mathsf{U}[\mathbf{A}_w]` on arc states, in two moves.

    .. math::
        \mathbf{H} \leftarrow \mathrm{shift}(\mathrm{coin} \cdot \mathbf{H})

    The *coin* multiplies the outgoing arcs of every vertex, which are consecutive rows, by the vertex's block. The *shift* hands
    every arc what its reverse holds. Row :math:`(u, v)` so gathers from all :math:`(v, w)`.

    Where torch has MKL, a CPU holds both moves in one sparse matrix, several times faster than products of many tiny blocks; on a GPU a
    kernel makes both in one pass; elsewhere the blocks of one degree are one batched product. All compute the same. The blocks of hubs,
    whose arcs come last, are multiplied in the form in which they are kept.

    Args:
        blocks: For each of the line graph's groups, up to the first of a hub, the blocks of that degree. They need not be orthogonal.
        line_graph: The arcs on which the states live.
        sparse: Whether to hold the operator as one sparse matrix; by default where that is faster. In what is compiled or exported it never is.
        hubs: The blocks of the other groups, if there are any.
        mask: Which arcs count; the others, which belong to padding, come out as zero.

    Shapes:
        - **blocks:** :math:`(\mathrm{num\_blocks}, d, d)` each
        - **input:** :math:`(A, F)`
        - **output:** :math:`(A, F)`
    """

    def __init__(
        self,
        blocks: list[Tensor],
        line_graph: EulerianLineGraph,
        sparse: bool | None = None,
        hubs: LowRankBlocks | None = None,
        mask: Tensor | None = None,
    ) -> None:
        num_groups = len(blocks) + (0 if hubs is None else len(hubs.tiles.sizes))
        if num_groups != len(line_graph.groups):
            raise ValueError(
                f"'blocks' and 'hubs' must cover the {len(line_graph.groups)} degrees of 'line_graph' (got {num_groups}); the coin "
                f"that made the blocks makes the hubs, see gump.nn.Coin.hubs"
            )
        for group, block in zip(line_graph.groups, blocks, strict=False):  # those of hubs have no blocks
            if tuple(block.shape) != (group.num_blocks, group.degree, group.degree):
                raise ValueError(
                    f"'blocks' must have shape {[group.num_blocks, group.degree, group.degree]} for the vertices of degree {group.degree} in "
                    f"'line_graph' (got {list(block.shape)}); compute them with this line graph"
                )
        self.blocks, self.line_graph, self.hubs, self.mask = blocks, line_graph, hubs, mask
        self._sparse: SparseOperator | None = None
        self._flat: tuple[Tensor, tuple[tuple[int, int], ...]] | None = None  # the entries of all blocks, where a kernel reads them
        self._num_dense = sum(g.num_blocks * g.degree for g in line_graph.groups[: len(blocks)])  # arcs that hubs do not own
        self._wants_sparse = sparse
        faster = not is_transformed() and line_graph.device.type == "cpu" and torch.backends.mkl.is_available()
        if blocks and (faster if sparse is None else sparse) and not torch.compiler.is_compiling():
            values = torch.cat([b.flatten() for b in blocks])
            self._sparse = SparseOperator(values, *line_graph.compressed(line_graph.groups[len(blocks) - 1].degree))

    @property
    def sparse(self) -> bool:
        """Whether the operator is one sparse matrix, but for hubs. Under ``torch.func`` only if that was asked for."""
        return self._sparse is not None and (self._wants_sparse is True or not is_transformed())

    def __call__(self, h: Tensor, scale: Tensor | None = None) -> Tensor:
        """Propagates one step; with ``scale`` adds that multiple of what was there, as GIN does."""
        check_states(h, self.line_graph)
        if not self.blocks and self.hubs is None:
            return h if scale is None else torch.addcmul(h, scale, h)
        own = self.blocks[0].dtype if self.hubs is None else self.hubs.core.dtype
        dtype = own if torch.is_autocast_enabled(h.device.type) else h.dtype
        with torch.autocast(h.device.type, enabled=False):  # rounding to half precision would undo what the projection did
            h = h.to(own)
            if self.hubs is None and not self.sparse and self._has_kernel(h):
                return self._by_kernel(h, scale).to(dtype)
            out = self._propagated(h)
            out = out if scale is None else torch.addcmul(out, scale, h)
            if self.mask is not None:  # or what padding holds might grow with every layer
                out = torch.where(self.mask.unsqueeze(-1), out, torch.zeros((), dtype=out.dtype, device=out.device))
            return out.to(dtype)

    def _propagated(self, h: Tensor) -> Tensor:
        if not self.blocks or not (self.sparse or self._has_kernel(h)):
            return self.shift(self.coin(h))
        if self.hubs is None:
            return self._in_one_pass(h)
        h, at_hubs = _Split.apply(h, self._num_dense)
        mixed = self.hubs(at_hubs)
        return put_rows(self._in_one_pass(h), self.line_graph.reverse[self._num_dense :], mixed)

    def _in_one_pass(self, h: Tensor) -> Tensor:
        """Makes both moves at once, but for hubs: what the reverses of their arcs get is not said."""
        if self.sparse and self._sparse is not None:
            out: Tensor = _SparseProduct.apply(self._sparse.row_values, h, self._sparse)
            return out
        return self._by_kernel(h)

    @property
    def operator(self) -> SparseOperator | None:
        """The sparse matrix, if it is all that there is to the operator: no hubs, and no padding to leave out."""
        return self._sparse if self.sparse and self.hubs is None and self.mask is None else None

    def _has_kernel(self, h: Tensor) -> bool:
        if not runs_kernels(h, *self.blocks):
            return False
        from gump.kernels.tiling import MAX_DEGREE

        return self.blocks[-1].size(-1) <= MAX_DEGREE

    def _by_kernel(self, h: Tensor, scale: Tensor | None = None) -> Tensor:
        from gump.kernels.coin_shift import coin_shift
        from gump.kernels.tiling import flatten

        if self._flat is None or (torch.is_grad_enabled() and self.blocks[0].requires_grad and not self._flat[0].requires_grad):
            self._flat = flatten(self.blocks)  # anew, if the last time nobody wanted gradients
        return coin_shift(h, self.line_graph.reverse, *self._flat, scale, self.mask)

    def coin(self, h: Tensor) -> Tensor:
        """Mixes the outgoing arcs of every vertex."""
        groups = self.line_graph.groups[: len(self.blocks)]
        *rows, at_hubs = h.split([*(g.num_blocks * g.degree for g in groups), h.size(0) - self._num_dense])
        mixed = [b @ r.view(g.num_blocks, g.degree, -1) for g, b, r in zip(groups, self.blocks, rows, strict=True)]
        mixed = [m.view(-1, h.size(-1)) for m in mixed]
        return torch.cat(mixed if self.hubs is None else [*mixed, self.hubs(at_hubs)])

    def shift(self, h: Tensor) -> Tensor:
        """Flips every arc to its reverse."""
        return _Involution.apply(h, self.line_graph.reverse)

    def values(self) -> Tensor:
        """The weights of the transitions, in the order of :meth:`gump.EulerianLineGraph.transitions`."""
        return torch.cat([b.flatten() for b in self.blocks + ([] if self.hubs is None else self.hubs.dense())])

    def matrix(self) -> Tensor:
        """The operator as a sparse matrix in coordinate form: row ``(u, v)``, column ``(v, w)``. The blocks of hubs are built for it."""
        size = (self.line_graph.num_arcs, self.line_graph.num_arcs)
        if not self.line_graph.groups:
            return torch.zeros(size, device=self.line_graph.device).to_sparse()
        return torch.sparse_coo_tensor(self.line_graph.transitions(), self.values(), size, check_invariants=False).coalesce()


def check_propagation(propagate: object, h: Tensor | ArcFeatures) -> None:
    """Refuses what is not the operator, and the operator of other arcs than the features are of."""
    if not isinstance(propagate, Propagation):
        raise TypeError(
            "'propagate' must be a gump.nn.Propagation, made of coins and a line graph "
            f"(got {type(propagate).__name__}); gump.nn.GUMP takes x and edge_index"
        )
    if not isinstance(h, ArcFeatures) or h.line_graph is propagate.line_graph:
        return
    ours, theirs = h.line_graph.arcs, propagate.line_graph.arcs
    if can_look(ours) and can_look(theirs) and not torch.equal(ours, theirs):
        raise ValueError("'h' must be features of the arcs of 'propagate' (got those of another line graph)")


def check_states(h: Tensor, line_graph: EulerianLineGraph) -> None:
    """Refuses states that are not those of the arcs of a line graph."""
    if h.dim() != 2:
        raise ValueError(f"'h' must have shape [num_arcs, channels] (got {list(h.shape)})")
    if h.size(0) != line_graph.num_arcs:
        raise ValueError(f"'h' must have a row for each of the {line_graph.num_arcs} arcs of 'line_graph' (got {h.size(0)})")
    if not h.is_floating_point():
        raise ValueError(f"'h' must be real floating-point states (got {h.dtype}); call .float()")


def _is_batched(grad: Tensor) -> bool:
    """Whether a gradient stands for many, as under ``torch.func.vmap`` and where ``torch.autograd`` takes those of many results at once."""
    return torch._C._functorch.is_batchedtensor(grad) or torch._C._dispatch_keys(grad).has(BATCHED)


class _Involution(torch.autograd.Function):
    """Permutes rows by a permutation that is its own inverse, so that the backward is the same gather."""

    @staticmethod
    def forward(x: Tensor, index: Tensor) -> Tensor:
        return x.index_select(0, index)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Involution.apply(grad, ctx.saved_tensors[0]), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], x: Tensor, index: Tensor) -> tuple[Tensor, int]:
        x, index = replicas_first(info, in_dims[0], x), replicas_first(info, in_dims[1], index)
        return _Involution.apply(x.flatten(0, 1), flat_index(index, x.size(1))).view(x.shape), 0


class _Split(torch.autograd.Function):
    """Hands out all states, of which the first are used, and those of the rest. What comes back for either is one gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(h: Tensor, first: int) -> tuple[Tensor, Tensor]:
        return h.view_as(h), h[first:]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: tuple[Tensor, Tensor]) -> None:
        ctx.first = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor, grad_rest: Tensor) -> tuple[Tensor, None]:
        return torch.cat([grad[: ctx.first], grad_rest]), None


class SparseOperator:
    """The coins of all vertices and the shift as one sparse matrix, compressed by rows for the forward and by columns for the backward.

    Args:
        values: The entries of the flattened blocks, one after the other.
        by_row: The transitions grouped by the arc that gathers.
        by_column: The transitions grouped by the arc that is gathered from.
    """

    def __init__(self, values: Tensor, by_row: CompressedTransitions, by_column: CompressedTransitions) -> None:
        _silence_beta_warning()
        self.row_values = values.index_select(0, by_row.order)
        self._column_values = values.detach().index_select(0, by_column.order)
        self._by_row, self._by_column = by_row, by_column
        self._matrix = _compressed(by_row, self.row_values.detach())

    def __call__(self, row_values: Tensor, h: Tensor) -> Tensor:
        """Multiplies states by the matrix, whose entries are given in the order of its rows."""
        return _product(self._by_row, row_values, h)

    def transposed(self, grad: Tensor) -> Tensor:
        """Pulls a gradient back to the states."""
        if _is_batched(grad):  # of which torch's sparse products know nothing
            arc, other = _ends(self._by_column)
            return add_rows(self._column_values.unsqueeze(-1) * select_rows(grad, other), arc, grad.size(0))
        return _product(self._by_column, self._column_values, grad)

    def sample(self, grad: Tensor, h: Tensor) -> Tensor:
        """Pulls a gradient back to the entries, in the order of the rows."""
        if _is_batched(grad):
            arc, other = _ends(self._by_row)
            return (select_rows(grad, arc) * select_rows(h, other)).sum(-1)
        return torch.sparse.sampled_addmm(self._matrix, grad.contiguous(), h.t(), beta=0.0).values()


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, row_values: Tensor, h: Tensor, operator: SparseOperator) -> Tensor:
        ctx.operator = operator
        ctx.save_for_backward(h, row_values)
        return operator(row_values, h)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        h, _ = ctx.saved_tensors
        for_values, for_h, _ = ctx.needs_input_grad
        return ctx.operator.sample(grad, h) if for_values else None, ctx.operator.transposed(grad) if for_h else None, None


def _compressed(layout: CompressedTransitions, values: Tensor) -> Tensor:
    size = (layout.pointer.numel() - 1,) * 2
    return torch.sparse_csr_tensor(layout.pointer, layout.arc, values, size, check_invariants=False)


def _ends(layout: CompressedTransitions) -> tuple[Tensor, Tensor]:
    """The two arcs of every transition, that by which they are grouped first."""
    number = torch.arange(layout.pointer.numel() - 1, device=layout.pointer.device)
    return number.repeat_interleave(layout.pointer.diff(), output_size=layout.arc.numel()), layout.arc.long()


def _product(layout: CompressedTransitions, values: Tensor, h: Tensor) -> Tensor:
    """A sparse matrix times dense rows, in single precision as weighted bags of rows."""
    if h.dtype == torch.float32:
        return torch.embedding_bag(h.contiguous(), layout.arc, layout.pointer, False, 0, False, values, True)[0]
    return torch.empty_like(h).addmm_(_compressed(layout, values), h, beta=0.0)


@cache
def _silence_beta_warning() -> None:
    """Takes torch's one warning that compressed tensors are in beta, so that users do not wonder about it."""
    with warnings.catch_warnings(action="ignore"):
        torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1), check_invariants=False)
