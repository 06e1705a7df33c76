"""Polar factors of many small blocks with known bounds: one block per lane, the whole iteration in registers."""

# mypy: allow-untyped-defs
# ruff: noqa: RUF005  (kernels have no unpacking)
from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gump.kernels import LAUNCHED

MAX_DEGREE = 6
"""The largest block that fits into a lane's registers. Larger ones would spill, and compile slowly."""

TILE, WARPS = 64, 2
"""Blocks per program and the warps that share them: one block per lane."""


@triton.jit
def _load(pointer, block, num_blocks, D: tl.constexpr, WIDTH: tl.constexpr):
    """The entries of the blocks, row by row, each a vector over the tile; read as one piece and then split."""
    SIZE: tl.constexpr = block.shape[0]
    entry = tl.arange(0, WIDTH)
    mask = (block < num_blocks)[:, None] & (entry < D * D)[None, :]
    parts = (tl.load(pointer + block[:, None] * (D * D) + entry[None, :], mask=mask, other=0.0),)
    for level in tl.static_range(WIDTH.bit_length() - 1):
        even = ()
        odd = ()
        for k in tl.static_range(2**level):  # part k holds the entries that leave the remainder k
            first, second = tl.split(tl.reshape(parts[k], [SIZE, WIDTH // 2 ** (level + 1), 2]))
            even = even + (first,)
            odd = odd + (second,)
        parts = even + odd
    entries = ()
    for k in tl.static_range(D * D):
        entries = entries + (tl.reshape(parts[k], [SIZE]),)
    return entries


@triton.jit
def _store(pointer, block, num_blocks, entries, D: tl.constexpr, WIDTH: tl.constexpr):
    """The way back: joins the vectors and writes them as one piece."""
    SIZE: tl.constexpr = block.shape[0]
    parts = ()
    for k in tl.static_range(WIDTH):
        parts = parts + (tl.reshape(entries[k if k < D * D else 0], [SIZE, 1]),)
    for level in tl.static_range(WIDTH.bit_length() - 1):
        joined = ()
        for k in tl.static_range(WIDTH // 2 ** (level + 1)):
            pair = tl.join(parts[k], parts[k + WIDTH // 2 ** (level + 1)])
            joined = joined + (tl.reshape(pair, [SIZE, 2 ** (level + 1)]),)
        parts = joined
    entry = tl.arange(0, WIDTH)
    mask = (block < num_blocks)[:, None] & (entry < D * D)[None, :]
    tl.store(pointer + block[:, None] * (D * D) + entry[None, :], parts[0], mask=mask)  # type: ignore[misc]


@triton.jit
def _inner(a, b, D: tl.constexpr):
    """The sum of all products of entries."""
    total = a[0] * b[0]
    for k in tl.static_range(1, D * D):
        total += a[k] * b[k]
    return total


@triton.jit
def _product(a, b, D: tl.constexpr):
    """Multiplies a and b."""
    entries = ()
    for i in tl.static_range(D):
        for j in tl.static_range(D):
            total = a[i * D] * b[j]
            for k in tl.static_range(1, D):
                total += a[i * D + k] * b[k * D + j]
            entries = entries + (total,)
    return entries


@triton.jit
def _mirrored(a, b, SIGN: tl.constexpr, D: tl.constexpr):
    """Multiplies a and b where the product is known to be symmetric (sign 1) or skew (sign -1): half of the work."""
    entries = ()
    for i in tl.static_range(D):
        for j in tl.static_range(D):
            if j < i:
                if SIGN > 0:
                    entries = entries + (entries[j * D + i],)
                else:
                    entries = entries + (-entries[j * D + i],)
            else:
                total = a[i * D] * b[j]
                for k in tl.static_range(1, D):
                    total += a[i * D + k] * b[k * D + j]
                entries = entries + (total,)
    return entries


@triton.jit
def _stretch(a, b, D: tl.constexpr):
    """The transpose of a times b where that is known to be symmetric."""
    entries = ()
    for i in tl.static_range(D):
        for j in tl.static_range(D):
            if j < i:
                entries = entries + (entries[j * D + i],)
            else:
                total = a[i] * b[j]
                for k in tl.static_range(1, D):
                    total += a[k * D + i] * b[k * D + j]
                entries = entries + (total,)
    return entries


@triton.jit
def _skew(a, b, D: tl.constexpr):
    """The transpose of a times b, minus its own transpose."""
    entries = ()
    for i in tl.static_range(D):
        for j in tl.static_range(D):
            if j < i:
                entries = entries + (-entries[j * D + i],)
            elif j == i:
                entries = entries + (tl.zeros_like(a[0]),)
            else:
                total = a[i] * b[j] - a[j] * b[i]
                for k in tl.static_range(1, D):
                    total += a[k * D + i] * b[k * D + j] - a[k * D + j] * b[k * D + i]
                entries = entries + (total,)
    return entries


@triton.jit
def _combined(a, b, alpha, beta, D: tl.constexpr):
    """Adds multiples of a and b."""
    entries = ()
    for k in tl.static_range(D * D):
        entries = entries + (alpha * a[k] + beta * b[k],)
    return entries


@triton.jit
def _shifted(a, shift, scale, D: tl.constexpr):
    """Scales a and adds a multiple of the identity."""
    entries = ()
    for i in tl.static_range(D):
        for j in tl.static_range(D):
            if i == j:
                entries = entries + (scale * a[i * D + j] + shift,)
            else:
                entries = entries + (scale * a[i * D + j],)
    return entries


@triton.jit
def _negated_inverse(a, D: tl.constexpr):
    """Sweeps every pivot of a symmetric positive definite matrix, which stays symmetric all the way to minus its inverse."""
    for p in tl.static_range(D):
        pivot = 1.0 / a[p * D + p]
        entries = ()
        for i in tl.static_range(D):
            for j in tl.static_range(D):
                if j < i:
                    entries = entries + (entries[j * D + i],)
                elif i == p and j == p:
                    entries = entries + (-pivot,)
                elif i == p or j == p:
                    entries = entries + (a[i * D + j] * pivot,)
                else:
                    entries = entries + (a[i * D + j] - a[i * D + p] * (a[p * D + j] * pivot),)
        a = entries
    return a


@triton.jit
def _perturbed(scores, scale, BETA: tl.constexpr, D: tl.constexpr):
    """The Grover coin plus the scaled scores."""
    entries = ()
    for i in tl.static_range(D):
        for j in tl.static_range(D):
            if i == j:
                entries = entries + ((2.0 / D - 1.0) + BETA * (scale * scores[i * D + j]),)
            else:
                entries = entries + (2.0 / D + BETA * (scale * scores[i * D + j]),)
    return entries


@triton.jit
def _factor_of_two(a):
    """The block plus or minus its cofactors, by the sign of its determinant, made a unit."""
    sign = tl.where(a[0] * a[3] - a[1] * a[2] < 0, -1.0, 1.0)
    x = a[0] + sign * a[3]
    y = a[1] - sign * a[2]
    norm = tl.sqrt_rn(x * x + y * y)
    norm = tl.where(norm == 0, 1.0, norm)  # only where there is no block
    x, y = tl.div_rn(x, norm), tl.div_rn(y, norm)
    return (x, y, -sign * y, sign * x)


@triton.jit
def _chosen(QUINTICS: tl.constexpr, PLACE: tl.constexpr, STEPS: tl.constexpr, step):
    """The coefficient of one step, so that the steps can be a loop, which compiles sooner than their repetition."""
    coefficient = 0.0
    for k in tl.static_range(STEPS):
        coefficient = tl.where(step == k, QUINTICS[3 * k + PLACE], coefficient)
    return coefficient


@triton.jit
def _factor(a, QUINTICS: tl.constexpr, STEPS: tl.constexpr, D: tl.constexpr):
    """Composes odd quintics of the singular values."""
    for step in range(STEPS):
        first = _chosen(QUINTICS, 0, STEPS, step)
        third = _chosen(QUINTICS, 1, STEPS, step)
        fifth = _chosen(QUINTICS, 2, STEPS, step)
        square = _stretch(a, a, D)
        weights = _combined(square, _mirrored(square, square, 1, D), third, fifth, D)
        a = _product(a, _shifted(weights, first, 1.0, D), D)
    return a


@triton.jit
def _pull_two(a, u, g):
    """A block of two can only turn, at a speed of one over the trace of its stretch."""
    trace = a[0] * u[0] + a[1] * u[1] + a[2] * u[2] + a[3] * u[3]
    speed = u[0] * g[1] - u[1] * g[0] + u[2] * g[3] - u[3] * g[2]
    speed = tl.div_rn(speed, tl.where(trace == 0, 1.0, trace))
    return (-speed * u[1], speed * u[0], -speed * u[3], speed * u[2])


@triton.jit
def _pull_three(a, u, g):
    """A skew matrix of three is a cross product, found from the adjugate of the trace minus the stretch."""
    r = _skew(u, g, 3)
    p = _stretch(u, a, 3)
    xx, yy, zz = p[4] + p[8], p[0] + p[8], p[0] + p[4]
    xy, xz, yz = -p[1], -p[2], -p[5]
    cxx, cxy, cxz = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    cyy, cyz, czz = xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy
    determinant = xx * cxx + xy * cxy + xz * cxz
    inverse = tl.div_rn(1.0, tl.where(determinant == 0, 1.0, determinant))
    x, y, z = -r[5] * inverse, r[2] * inverse, -r[1] * inverse
    x, y, z = cxx * x + cxy * y + cxz * z, cxy * x + cyy * y + cyz * z, cxz * x + cyz * y + czz * z
    return (
        u[1] * z - u[2] * y, u[2] * x - u[0] * z, u[0] * y - u[1] * x,
        u[4] * z - u[5] * y, u[5] * x - u[3] * z, u[3] * y - u[4] * x,
        u[7] * z - u[8] * y, u[8] * x - u[6] * z, u[6] * y - u[7] * x,
    )  # fmt: skip


@triton.jit
def _pull(a, u, g, SHIFT: tl.constexpr, ROUNDS: tl.constexpr, D: tl.constexpr):
    """Smith's method for the equation of Lyapunov, each round of which doubles the number of terms."""
    inverse = _negated_inverse(_shifted(_stretch(u, a, D), SHIFT, 1.0, D), D)
    solution = _mirrored(_product(inverse, _skew(u, g, D), D), inverse, -1, D)
    solution = _shifted(solution, 0.0, 2.0 * SHIFT, D)
    power = _shifted(inverse, 1.0, 2.0 * SHIFT, D)
    for _ in range(ROUNDS):
        solution = _combined(solution, _mirrored(_product(power, solution, D), power, -1, D), 1.0, 1.0, D)
        power = _mirrored(power, power, 1, D)
    return _product(u, solution, D)


@triton.jit(do_not_specialize=["num_blocks"])
def _forward(
    blocks, out, num_blocks, COIN: tl.constexpr, BETA: tl.constexpr, QUINTICS: tl.constexpr, STEPS: tl.constexpr, D: tl.constexpr,
    WIDTH: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    a = _load(blocks, block, num_blocks, D, WIDTH)
    if COIN:
        a = _perturbed(a, tl.rsqrt(1.0 + _inner(a, a, D)), BETA, D)
    if D == 2:
        a = _factor_of_two(a)
    else:
        a = _factor(a, QUINTICS, STEPS, D)
    _store(out, block, num_blocks, a, D, WIDTH)


@triton.jit(do_not_specialize=["num_blocks"])
def _backward(
    blocks, factors, grads, out, num_blocks, COIN: tl.constexpr, BETA: tl.constexpr, SHIFT: tl.constexpr, ROUNDS: tl.constexpr,
    D: tl.constexpr, WIDTH: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    b = _load(blocks, block, num_blocks, D, WIDTH)
    u = _load(factors, block, num_blocks, D, WIDTH)
    g = _load(grads, block, num_blocks, D, WIDTH)
    a = b
    if COIN:
        scale = tl.rsqrt(1.0 + _inner(b, b, D))
        a = _perturbed(b, scale, BETA, D)
    if D == 2:
        g = _pull_two(a, u, g)
    elif D == 3:
        g = _pull_three(a, u, g)
    else:
        g = _pull(a, u, g, SHIFT, ROUNDS, D)
    if COIN:
        radial = scale * scale * _inner(g, b, D)
        scale *= BETA
        entries = ()
        for k in tl.static_range(D * D):
            entries = entries + (scale * (g[k] - radial * b[k]),)
        g = entries
    _store(out, block, num_blocks, g, D, WIDTH)


class BoundedFactor(torch.autograd.Function):
    """The factor of blocks, or of the Grover coin perturbed by them where ``beta`` is given, with its implicit derivative."""

    @staticmethod
    def forward(blocks: Tensor, bounds: tuple[float, float], quintics: tuple[float, ...], beta: float | None) -> Tensor:
        """Runs all steps."""
        out = torch.empty_like(blocks)
        _launch(_forward, [blocks, out], beta, QUINTICS=quintics, STEPS=len(quintics) // 3)
        return out

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, tuple[float, float], tuple[float, ...], float | None], output: Tensor
    ) -> None:
        """Keeps the blocks and their factors."""
        blocks, ctx.bounds, _, ctx.beta = inputs
        ctx.save_for_backward(blocks, output)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        """Pulls a gradient back to the blocks."""
        return _Pulled.apply(*ctx.saved_tensors, grad, ctx.bounds, ctx.beta), None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None, None, None], blocks: Tensor, *settings: Any) -> tuple[Tensor, int]:
        """Takes the blocks of all replicas at once."""
        blocks = blocks.movedim(in_dims[0], 0).contiguous()
        return BoundedFactor.apply(blocks.flatten(0, 1), *settings).view(blocks.shape), 0


class _Pulled(torch.autograd.Function):
    """The gradient of blocks from that of their factors; a function of its own, so that ``torch.func`` can run over the backward too."""

    @staticmethod
    def forward(blocks: Tensor, factors: Tensor, grad: Tensor, bounds: tuple[float, float], beta: float | None) -> Tensor:
        out = torch.empty_like(blocks)
        shift, rounds = _doubling(*bounds)
        _launch(_backward, [blocks, factors, grad.contiguous(), out], beta, SHIFT=shift, ROUNDS=rounds)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        *tensors, bounds, beta = inputs
        flat = [
            (x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1).contiguous()
            for x, dim in zip(tensors, in_dims, strict=False)
        ]
        return _Pulled.apply(*flat, bounds, beta).unflatten(0, (info.batch_size, -1)), 0


def bounded_factor(
    blocks: Tensor, bounds: tuple[float, float], quintics: tuple[tuple[float, float, float], ...], beta: float | None = None
) -> Tensor:
    r"""Computes the polar factor of small blocks, or of bounded perturbations of the Grover coin, in one launch.

    What :func:`gump.linalg.polar_factor` computes with ``bounds``, in one pass over float32 blocks on a GPU. With ``beta`` the blocks are
    scores, and :math:`\mathbf{G} + \beta \mathbf{B} / \sqrt{1 + \lVert \mathbf{B} \rVert_F^2}` is built, projected and differentiated on the
    way, as :meth:`gump.nn.Coin.project` does it in steps. The function is compiled for each degree, for the largest in half a minute.

    Args:
        blocks: Square matrices of at most ``MAX_DEGREE`` rows, at least two.
        bounds: An interval that is known to hold every singular value of what is projected.
        quintics: Odd polynomials that bring the bounds to one, see :func:`gump.linalg.minimax_quintics`.
        beta: How far scores may lead from the Grover coin; none where the blocks themselves are projected.

    Shapes:
        - **blocks:** :math:`(n, d, d)`
        - **output:** :math:`(n, d, d)`
    """
    LAUNCHED.add("polar")
    if not 2 <= blocks.size(-1) <= MAX_DEGREE:
        raise ValueError(f"'blocks' must have 2 to {MAX_DEGREE} rows to fit into registers (got {blocks.size(-1)})")
    factors: Tensor = BoundedFactor.apply(blocks.contiguous(), bounds, tuple(x for quintic in quintics for x in quintic), beta)
    return factors


def _launch(kernel: Any, tensors: list[Tensor], beta: float | None, **settings: Any) -> None:
    """Runs a kernel over all blocks."""
    num_blocks, degree = tensors[0].shape[:2]
    if num_blocks == 0:
        return
    settings.update(COIN=beta is not None, BETA=beta or 0.0, D=degree, WIDTH=triton.next_power_of_2(degree * degree), SIZE=TILE)
    with torch.cuda.device_of(tensors[0]):
        kernel[(triton.cdiv(num_blocks, TILE),)](*tensors, num_blocks, **settings, num_warps=WARPS)


def _doubling(lower: float, upper: float) -> tuple[float, int]:
    """The shift that suits the bounds best in Smith's method, and how many rounds bring what it leaves out below rounding."""
    shift, rounds = (lower * upper) ** 0.5, 0
    remainder = ((upper - shift) / (upper + shift)) ** 2
    while remainder > 4 * torch.finfo(torch.float32).eps:
        remainder, rounds = remainder * remainder, rounds + 1
    return shift, rounds
