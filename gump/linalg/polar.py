"""The orthogonal factor of many small matrices at once, exact or by the paper's iteration."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from gump.kernels import runs_kernels
from gump.kernels.once_differentiable import once_differentiable
from gump.linalg.minimax import NEWTON_SCHULZ, Quintic, minimax_quintics
from gump.linalg.unitarity import check_blocks, unitarity_error

SMALLEST_RATIO = 1e-7
"""Blocks whose smallest singular value is below this fraction of their norm go to the singular value decomposition."""

CUSHION, SAFETY = 0.024, 1.001
"""What keeps a schedule for a wide interval stable in floating point, see :func:`gump.linalg.minimax_quintics`."""

SMALL, MANY = 6, 1300
"""Blocks up to this size, and together of more numbers than this, go by arithmetic along the batch on a CPU; of fewer, the calls cost more."""

AT_ONCE = 2**16
"""Of so many numbers all iterates are kept while a gradient goes back through them, so that their number does not show in the memory."""

UNITARY = 1024
"""How many units of rounding the unitarity error of a factor may have before it is an error; of blocks within bounds it has about 30 at most."""


def polar_factor(
    blocks: Tensor, num_steps: int | None = None, bounds: tuple[float, float] | None = None, check_finite: bool = True
) -> Tensor:
    r"""Computes the orthogonal matrix closest to each block: exactly, or by a fixed number of the paper's steps.

    .. math::
        \mathsf{U}[\mathbf{B}] = \mathbf{B} (\mathbf{B}^{\top} \mathbf{B})^{-1/2}
            = \arg\min_{\mathbf{U}^{\top}\mathbf{U} = \mathbf{I}} \lVert \mathbf{B} - \mathbf{U} \rVert_F

    **Exact** (the default). For :math:`d = 1` it is a sign, for :math:`d = 2` a closed form. Above, a composition of odd quintics
    drives all singular values to one by products alone, and blocks that are still not orthogonal to rounding are decomposed in
    float64. With ``bounds`` the quintics are fitted to them, nothing is left to flag, and nothing waits for the device; a block with a singular
    value outside of them gets a matrix that is far from orthogonal.
    The backward solves :math:`\mathbf{P}\mathbf{Y} + \mathbf{Y}\mathbf{P} = \mathbf{U}^{\top}\mathbf{G} -
    \mathbf{G}^{\top}\mathbf{U}` with :math:`\mathbf{P} = \mathbf{U}^{\top}\mathbf{B}` and returns :math:`\mathbf{U}\mathbf{Y}`.

    **Newton-Schulz** (Algorithm 2, ``num_steps`` :math:`= K`). From :math:`\mathbf{X}_0 = \mathbf{B} / \lVert \mathbf{B} \rVert_F`,

    .. math::
        \mathbf{X}_{t+1} = \tfrac{15}{8} \mathbf{X}_t - \tfrac{5}{4} \mathbf{X}_t \mathbf{X}_t^{\top} \mathbf{X}_t
            + \tfrac{3}{8} \mathbf{X}_t (\mathbf{X}_t^{\top} \mathbf{X}_t)^2.

    A small singular value grows by 15/8 a step, so ten steps bring it to one only from about :math:`10^{-2}`, and a zero stays zero:
    :func:`unitarity_error` says what is left. Rounding in the place of a zero grows alike. So where rows are equal but for rounding, the
    iterate follows permutations to some 1e-5 in single precision after ten steps, and after thirty not at all. The backward is exact for the
    iterate that was returned, converged or not: it goes back through the steps, which it makes again.

    Both keep at most two matrices per block for the backward, however many steps there were, and both are differentiable once.

    What the exact factor cannot do: where singular values vanish the closest orthogonal matrix is not unique. The result is still
    orthogonal and the gradient finite (zero along what is undetermined), but the choice depends on the order of rows and columns,
    so it is not permutation-equivariant there. A number that is zero has the factor one.

    Args:
        blocks: Real square matrices. Half precisions are computed and returned in float32, also under autocast.
        num_steps: The number of Newton-Schulz steps; none for the exact factor.
        bounds: An interval that is known to hold every singular value; for the exact factor only.
        check_finite: Whether to refuse NaN and infinity, and factors that are not orthogonal because ``bounds`` do not hold, which costs a
            pass and a wait for the device each. Without it a block that is not finite may, on a GPU, spoil others of its size.

    Shapes:
        - **input:** :math:`(*, d, d)`
        - **output:** :math:`(*, d, d)`

    Example:
        >>> polar_factor(torch.tensor([[0.0, 2.0], [-3.0, 0.0]]))
        tensor([[ 0.,  1.],
                [-1.,  0.]])
    """
    check_blocks(blocks, check_finite)
    if num_steps is not None and not isinstance(num_steps, Integral):
        raise ValueError(f"'num_steps' must be an integer (got {num_steps!r})")
    if num_steps is not None and num_steps < 0:
        raise ValueError(f"'num_steps' must not be negative (got {num_steps})")
    if bounds is not None and not 0 < bounds[0] <= bounds[1]:
        raise ValueError(f"'bounds' must satisfy 0 < bounds[0] <= bounds[1] (got {bounds})")
    if num_steps is not None and bounds is not None:
        raise ValueError("'bounds' must be left out with 'num_steps' (got both); they fit the steps of the exact factor")
    with torch.autocast(blocks.device.type, enabled=False):
        matrices = blocks if blocks.dtype == torch.float64 else blocks.float()
        matrices = matrices.reshape(-1, *blocks.shape[-2:])
        if num_steps is not None and _has_kernel(matrices):
            from gump.kernels.polar import unit_iterates

            (factor,) = unit_iterates([matrices], newton_schulz_quintics(num_steps))
        elif num_steps is not None:
            factor = _NewtonSchulz.apply(matrices, num_steps)
        elif bounds is not None and _has_kernel(matrices):
            from gump.kernels.polar import bounded_factors

            (factor,) = bounded_factors([matrices], quintics_within(bounds, matrices.dtype))
        else:
            factor = _PolarFactor.apply(matrices, bounds)
        if check_finite and bounds is not None:
            _check_within(factor.detach(), bounds)
        return factor.view(blocks.shape)


def _has_kernel(blocks: Tensor) -> bool:
    if not runs_kernels(blocks):
        return False
    from gump.kernels.tiling import MAX_DEGREE

    return blocks.size(-1) <= MAX_DEGREE


def _check_within(factor: Tensor, bounds: tuple[float, float]) -> None:
    """Refuses a factor that is not orthogonal by more than rounding, as blocks beyond the bounds have it."""
    worst = float(unitarity_error(factor).max())
    if not worst <= UNITARY * torch.finfo(factor.dtype).eps:
        raise ValueError(
            f"'bounds' must hold every singular value of 'blocks' (got {bounds}, which leave a unitarity error of {worst:.2g}); leave them out "
            f"if none are known"
        )


def quintics_within(bounds: tuple[float, float], dtype: torch.dtype) -> tuple[Quintic, ...]:
    """The quintics that :func:`polar_factor` composes where bounds are known, for a precision."""
    return minimax_quintics(*bounds, _rounding(dtype), CUSHION, SAFETY)


torch.compiler.assume_constant_result(quintics_within)  # no tensors are in it, and what it does with NumPy is not for compilers


def newton_schulz_quintics(num_steps: int) -> tuple[Quintic, ...]:
    """The quintics of the paper's iteration."""
    return (NEWTON_SCHULZ,) * num_steps


def factor_within(blocks: Tensor, bounds: tuple[float, float]) -> Tensor:
    """The exact factor of blocks whose singular values lie between bounds."""
    if blocks.size(-1) == 1:
        return _sign(blocks)
    factor = _polar_of_two(blocks) if blocks.size(-1) == 2 else _iterate(blocks, quintics_within(bounds, blocks.dtype))
    return factor.clone() if factor is blocks else factor  # nothing to iterate where the bounds are one


class _PolarFactor(torch.autograd.Function):
    """The exact factor with its implicit derivative."""

    @staticmethod
    def forward(blocks: Tensor, bounds: tuple[float, float] | None) -> Tensor:
        if bounds is not None:
            return factor_within(blocks, bounds)
        if blocks.size(-1) == 1:
            return _sign(blocks)
        return _polar_of_two(_normalized(blocks)[0]) if blocks.size(-1) == 2 else _polar_with_fallback(blocks)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, tuple[float, float] | None], output: Tensor) -> None:
        ctx.bounds = inputs[1]
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], blocks: Tensor, bounds: tuple[float, float] | None) -> tuple[Tensor, int]:
        blocks = blocks.movedim(in_dims[0], 0)
        return _PolarFactor.apply(blocks.flatten(0, 1), bounds).view(blocks.shape), 0

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        blocks, factor = ctx.saved_tensors
        with torch.autocast(blocks.device.type, enabled=False):
            if ctx.bounds is not None:
                return grad_within(blocks, factor, grad, ctx.bounds), None
            unit, norm = _normalized(blocks)
            return torch.where(norm == 0, 0, grad_within(unit, factor, grad, None) / norm), None


class _NewtonSchulz(torch.autograd.Function):
    """The K-step iterate with its exact derivative."""

    @staticmethod
    def forward(blocks: Tensor, num_steps: int) -> Tensor:
        unit = _normalized(blocks)[0]
        return _iterate(unit, newton_schulz_quintics(num_steps))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
        ctx.num_steps = inputs[1]
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], blocks: Tensor, num_steps: int) -> tuple[Tensor, int]:
        blocks = blocks.movedim(in_dims[0], 0)
        return _NewtonSchulz.apply(blocks.flatten(0, 1), num_steps).view(blocks.shape), 0

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        with torch.autocast(grad.device.type, enabled=False):
            unit, norm = _normalized(ctx.saved_tensors[0])
            at_once = max(AT_ONCE // unit[0].numel(), 1)
            parts = zip(unit.split(at_once), grad.split(at_once), strict=True)
            grad = torch.cat([_back_through_steps(*part, ctx.num_steps) for part in parts])
            radial = (grad * unit).sum((-2, -1), keepdim=True) * unit
            return torch.where(norm > 0, (grad - radial) / norm, 0), None


def _back_through_steps(x: Tensor, grad: Tensor, num_steps: int) -> Tensor:
    """Pulls a gradient with respect to the last iterate back to the first."""
    a, b, c = NEWTON_SCHULZ
    iterates = [x]
    for _ in range(num_steps - 1):
        iterates.append(_iterate(iterates[-1], (NEWTON_SCHULZ,)))
    for x in reversed(iterates[:num_steps]):
        square, product = x.mT @ x, x.mT @ grad
        inner = b * product + c * (product @ square + square @ product)  # the gradient with respect to the square
        outer = torch.baddbmm(square, square, square, beta=b, alpha=c)
        grad = torch.baddbmm(grad, grad, outer, beta=a) + x @ (inner + inner.mT)
    return grad


def _sign(numbers: Tensor) -> Tensor:
    return torch.where(numbers < 0, -1.0, torch.ones_like(numbers)) + 0 * numbers  # the last lets NaN through


def _rounding(dtype: torch.dtype) -> float:
    return 4 * torch.finfo(dtype).eps


def _normalized(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Divides by the Frobenius norm, whatever its size; a zero block stays zero."""
    largest = blocks.abs().amax((-2, -1), keepdim=True)
    scaled = torch.where(largest > 0, blocks / largest, blocks)
    norm = torch.linalg.matrix_norm(scaled, keepdim=True)
    return torch.where(norm > 0, scaled / norm, scaled), norm * largest


def _iterate(x: Tensor, quintics: tuple[Quintic, ...]) -> Tensor:
    r"""Applies odd quintics to the singular values: :math:`\mathbf{X} (a + b \mathbf{S} + c \mathbf{S}^2)` with
    :math:`\mathbf{S} = \mathbf{X}^{\top}\mathbf{X}`."""
    if x.device.type == "cpu" and x.size(-1) <= SMALL and (torch.compiler.is_compiling() or x.numel() > MANY):
        return _iterate_batch_last(x, quintics)
    for a, b, c in quintics:
        square = x.mT @ x
        x = torch.baddbmm(x, x, torch.baddbmm(square, square, square, beta=b, alpha=c), beta=a)
    return x


def _iterate_batch_last(x: Tensor, quintics: tuple[Quintic, ...]) -> Tensor:
    """The same for many small blocks on a CPU, where arithmetic along the batch beats a call of the matrix product per block."""
    x = x.permute(1, 2, 0).contiguous()  # [d, d, num_blocks]
    for a, b, c in quintics:
        square = (x.unsqueeze(1) * x.unsqueeze(2)).sum(0)
        inner = (square.unsqueeze(2) * square.unsqueeze(0)).sum(1).mul_(c).add_(square, alpha=b)
        x = (x.unsqueeze(2) * inner.unsqueeze(0)).sum(1).add_(x, alpha=a)
    return x.permute(2, 0, 1).contiguous()


def _polar_of_two(blocks: Tensor) -> Tensor:
    r"""For :math:`d = 2` the factor is proportional to :math:`\mathbf{B} \pm \mathrm{cof}(\mathbf{B})`, with the sign of the determinant."""
    checkers = 2 * torch.eye(2, dtype=blocks.dtype, device=blocks.device) - 1
    cofactor = blocks.flip(-2, -1) * checkers
    determinant = (blocks[..., :1, :] * cofactor[..., :1, :]).sum(-1, keepdim=True)
    total = torch.addcmul(blocks, cofactor, torch.ones_like(determinant).copysign(determinant))
    norm = total[..., :1, :].norm(dim=-1, keepdim=True)
    return torch.where(norm == 0, torch.eye(2, dtype=blocks.dtype, device=blocks.device), total / norm)


def _grad_of_two(blocks: Tensor, factor: Tensor, grad: Tensor) -> Tensor:
    r"""For :math:`d = 2` the factor can only turn: along :math:`\mathbf{U}\mathbf{J}`, :math:`\mathbf{J}` a quarter turn, at the speed
    :math:`1 / \mathrm{tr}\,\mathbf{P}`."""
    turned = torch.stack([-factor[..., 1], factor[..., 0]], -1)
    trace = (factor * blocks).sum((-2, -1), keepdim=True)
    return torch.where(trace > 0, (turned * grad).sum((-2, -1), keepdim=True) / trace, 0) * turned


def _grad_of_three(blocks: Tensor, factor: Tensor, grad: Tensor, full_rank: bool) -> Tensor:
    r"""A skew 3 x 3 matrix is a cross product: with :math:`\mathbf{Y} = [\mathbf{y}]_\times` the equation for Y reads
    :math:`(\mathrm{tr}\,\mathbf{P} - \mathbf{P})\,\mathbf{y} = \sum_i \mathbf{g}_i \times \mathbf{u}_i` over rows, solved by Cramer's
    rule. Blocks of rank one leave one direction of y undetermined, along which it is zero."""
    cross = torch.linalg.cross
    right = cross(grad, factor).sum(-2)
    stretch = factor.mT @ blocks
    trace = stretch.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    matrix, right = trace * torch.eye(3, dtype=blocks.dtype, device=blocks.device) - stretch, right.unsqueeze(-2)
    cofactor, determinant = _cofactor(matrix)
    least = _rounding(blocks.dtype) * trace**3
    if not full_rank:
        size = cofactor.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
        kernel = torch.where((determinant > least) | (size == 0), 0, cofactor / size)  # a projection, onto what is undetermined
        right = right - right @ kernel
        cofactor, determinant = _cofactor(matrix + trace * kernel)
    return cross(factor, torch.where(determinant > least, right @ cofactor / determinant, 0))


def _cofactor(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The inverse of 3 x 3 matrices times their determinants, transposed, and these."""
    first, second, third = matrix.unbind(-2)
    cross = torch.linalg.cross
    cofactor = torch.stack([cross(second, third), cross(third, first), cross(first, second)], -2)
    return cofactor, (first * cofactor[..., 0, :]).sum(-1)[..., None, None]


def _polar_with_fallback(blocks: Tensor) -> Tensor:
    """Iterates on all blocks, then decomposes those that are still not orthogonal."""
    tol = _rounding(blocks.dtype)
    factor = _iterate(_normalized(blocks)[0] / SAFETY, quintics_within((SMALLEST_RATIO, 1.0), blocks.dtype))
    flagged = ~(unitarity_error(factor) < 4 * tol) & blocks.isfinite().all(-1).all(-1)  # others are no numbers already
    if torch.compiler.is_compiling():  # without numbers there is nothing to choose by: all blocks are decomposed, some in vain
        identity = torch.eye(blocks.size(-1), dtype=torch.float64, device=blocks.device)
        left, _, right = torch.linalg.svd(torch.where(flagged[..., None, None], blocks.double(), identity))
        return torch.where(flagged[..., None, None], (left @ right).to(factor.dtype), factor)
    if bool(flagged.any()):
        left, _, right = torch.linalg.svd(blocks[flagged].double())
        factor[flagged] = (left @ right).to(factor.dtype)
    return factor


def grad_within(blocks: Tensor, factor: Tensor, grad: Tensor, bounds: tuple[float, float] | None) -> Tensor:
    """Pulls a gradient with respect to the factor back to the blocks; without bounds their norm must be one."""
    if blocks.size(-1) == 1:
        return torch.zeros_like(blocks)
    if blocks.size(-1) == 2:
        return _grad_of_two(blocks, factor, grad)
    if blocks.size(-1) == 3:
        return _grad_of_three(blocks, factor, grad, full_rank=bounds is not None)
    product = factor.mT @ grad
    stretch = factor.mT @ blocks
    return factor @ _solve_lyapunov((stretch + stretch.mT) / 2, product - product.mT, bounds)


def _solve_lyapunov(stretch: Tensor, skew: Tensor, bounds: tuple[float, float] | None) -> Tensor:
    r"""Solves :math:`\mathbf{P}\mathbf{Y} + \mathbf{Y}\mathbf{P} = \mathbf{R}` for symmetric P without negative eigenvalues and skew R."""
    if bounds is not None:
        return _solve_lyapunov_by_doubling(stretch, skew, *bounds)
    finite = stretch.isfinite().all(-1).all(-1)[..., None, None]
    sigma, basis = torch.linalg.eigh(torch.where(finite, stretch, 0))
    total = sigma.unsqueeze(-1) + sigma.unsqueeze(-2)
    floor = 4 * sigma.size(-1) * torch.finfo(sigma.dtype).eps * sigma[..., -1:, None]
    rotated = torch.where(total > floor, basis.mT @ skew @ basis / total, 0)
    return torch.where(finite, basis @ rotated @ basis.mT, torch.nan)


def _solve_lyapunov_by_doubling(stretch: Tensor, skew: Tensor, lower: float, upper: float) -> Tensor:
    r"""Smith's method: with :math:`\mathbf{K} = (\mathbf{P} + q)^{-1}` and :math:`\mathbf{A} = \mathbf{I} - 2q\mathbf{K}`, the solution is
    :math:`\sum_k \mathbf{A}^k (2q \mathbf{K}\mathbf{R}\mathbf{K}) \mathbf{A}^k`, and each round doubles the number of its terms."""
    shift = (lower * upper) ** 0.5
    identity = torch.eye(stretch.size(-1), dtype=stretch.dtype, device=stretch.device)
    inverse = _inverse(stretch + shift * identity, lower + shift, upper + shift)
    power = identity - 2 * shift * inverse
    solution = 2 * shift * (inverse @ skew @ inverse)
    remainder = ((upper - shift) / (upper + shift)) ** 2
    while remainder > _rounding(stretch.dtype):
        solution = torch.baddbmm(solution, power @ solution, power)
        power = power @ power
        remainder *= remainder
    return solution


def _inverse(matrices: Tensor, lower: float, upper: float) -> Tensor:
    """Inverts symmetric matrices whose eigenvalues lie between bounds. On a GPU by Newton's iteration, since it is products alone: torch's
    own inverse of many matrices cannot be recorded into a CUDA graph."""
    if matrices.device.type == "cpu":
        return torch.linalg.inv_ex(matrices).inverse
    identity = torch.eye(matrices.size(-1), dtype=matrices.dtype, device=matrices.device)
    inverse = (2 / (lower + upper) * identity).expand_as(matrices)
    error = (upper - lower) / (upper + lower)
    while error > _rounding(matrices.dtype):
        inverse = torch.baddbmm(2 * inverse, inverse @ matrices, inverse, alpha=-1)
        error *= error
    return torch.baddbmm(2 * inverse, inverse @ matrices, inverse, alpha=-1)
