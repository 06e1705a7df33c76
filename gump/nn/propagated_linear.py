"""Linear layers of propagated states, with what follows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gump.kernels.once_differentiable import once_differentiable
from gump.nn.arc_linear import ArcLinear
from gump.nn.linear import is_relu, linear
from gump.nn.propagation import Propagation, SparseOperator, check_states
from gump.nn.unaltered import is_unaltered


def propagated_linear(
    layer: torch.nn.Linear,
    h: Tensor,
    propagate: Propagation,
    scale: Tensor | None = None,
    act: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    r"""Computes ``act(layer(propagate(h, scale)))``, that is :math:`\sigma((\mathbf{U} + s) \mathbf{H} \mathbf{W} + \mathbf{b})`.

    Where the operator is one sparse matrix it is one step that keeps its input and its result for the backward and nothing in between: the
    propagated states cost less to compute again than to keep.

    Args:
        layer: The layer.
        h: The arc states.
        propagate: The operator.
        scale: What multiple of the states to add to the propagated ones; by default none.
        act: The nonlinearity that follows; by default none.

    Shapes:
        - **input:** :math:`(A, F_{in})`
        - **output:** :math:`(A, F_{out})`
    """
    operator = propagate.operator
    plain = is_unaltered(layer, torch.nn.Linear, ArcLinear)
    if operator is None or not plain or layer.bias is None or torch.is_autocast_enabled(h.device.type):
        return linear(layer, propagate(h, scale), propagate.mask, act)
    weight, bias = layer.weight, layer.bias
    if len({h.dtype, weight.dtype, operator.row_values.dtype}) > 1:
        return linear(layer, propagate(h, scale), propagate.mask, act)
    check_states(h, propagate.line_graph)
    relu = is_relu(act)
    out: Tensor = _PropagatedLinear.apply(operator.row_values, h, weight, bias, scale, operator, relu)
    return out if act is None or relu else act(out)


class _PropagatedLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        scale: Tensor | None,
        operator: SparseOperator,
        relu: bool,
    ) -> Tensor:
        out = torch.addmm(bias, _propagated(operator, values, h, scale), weight.t())
        out = out.relu_() if relu else out
        ctx.operator, ctx.relu = operator, relu
        ctx.save_for_backward(values, h, weight, scale, out if relu else None)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        values, h, weight, scale, out = ctx.saved_tensors
        for_values, for_h, for_weight, for_bias, for_scale, *_ = ctx.needs_input_grad
        grad = torch.ops.aten.threshold_backward(grad, out, 0) if ctx.relu else grad
        grad_weight = grad.t().mm(_propagated(ctx.operator, values, h, scale)) if for_weight else None
        grad_bias = grad.sum(0) if for_bias else None
        grad_values = grad_h = grad_scale = None
        grad = grad.mm(weight)
        if for_values:
            grad_values = ctx.operator.sample(grad, h)
        if for_h:
            grad_h = ctx.operator.transposed(grad)
            grad_h = grad_h if scale is None else grad_h.addcmul_(scale, grad)
        if for_scale:
            grad_scale = torch.dot(grad.reshape(-1), h.reshape(-1)).view_as(scale)
        return grad_values, grad_h, grad_weight, grad_bias, grad_scale, None, None


def _propagated(operator: SparseOperator, values: Tensor, h: Tensor, scale: Tensor | None) -> Tensor:
    out = operator(values, h)
    return out if scale is None else out.addcmul_(scale, h)
