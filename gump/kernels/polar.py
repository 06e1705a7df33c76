"""Polar factors of many small blocks with known bounds: one block per lane, the whole iteration in registers."""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

MAX_DEGREE = 8
"""The largest block that fits into a lane's registers."""

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
            even = even + (first,)  # noqa: RUF005
            odd = odd + (second,)  # noqa: RUF005
        parts = even + odd
    entries = ()
    for k in tl.static_range(D * D):
        entries = entries + (tl.reshape(parts[k], [SIZE]),)  # noqa: RUF005
    return entries


@triton.jit
def _store(pointer, block, num_blocks, entries, D: tl.constexpr, WIDTH: tl.constexpr):
    """The way back: joins the vectors and writes them as one piece."""
    SIZE: tl.constexpr = block.shape[0]
    parts = ()
    for k in tl.static_range(WIDTH):
        parts = parts + (tl.reshape(entries[k if k < D * D else 0], [SIZE, 1]),)  # noqa: RUF005
    for level in tl.static_range(WIDTH.bit_length() - 1):
        joined = ()
        for k in tl.static_range(WIDTH // 2 ** (level + 1)):
            pair = tl.join(parts[k], parts[k + WIDTH // 2 ** (level + 1)])
            joined = joined + (tl.reshape(pair, [SIZE, 2 ** (level + 1)]),)  # noqa: RUF005
        parts = joined
    entry = tl.arange(0, WIDTH)
    mask = (block < num_blocks)[:, None] & (entry < D * D)[None, :]
    tl.store(pointer + block[:, None] * (D * D) + entry[None, :], parts[0], mask=mask)


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
            entries = entries + (total,)  # noqa: RUF005
    return entries


@triton.jit
def _mirrored(a, b, SIGN: tl.constexpr, D: tl.constexpr):
    """Multiplies a and b where the product is known to be symmetric (sign 1) or skew (sign -1): half of the work."""
    entries = ()
    for i in tl.static_range(D):
        for j in tl.static_range(D):
            if j < i:
                if SIGN > 0:
                    entries = entries + (entries[j * D + i],)  # noqa: RUF005
                else:
                    entries = entries + (-entries[j * D + i],)  # noqa: RUF005
            else:
                total = a[i * D] * b[j]
                for k in tl.static_range(1, D):
                    total += a[i * D + k] * b[k * D + j]
                entries = entries + (total,)  # noqa: RUF005
    return entries


@triton.jit
def _gram(a, b, SIGN: tl.constexpr, D: tl.constexpr):
    """Twice the symmetric or skew part of the transpose of a times b."""
    entries = ()
    for i in tl.static_range(D):
        for j in tl.static_range(D):
            if j < i:
                if SIGN > 0:
                    entries = entries + (entries[j * D + i],)  # noqa: RUF005
                else:
                    entries = entries + (-entries[j * D + i],)  # noqa: RUF005
            else:
                total = a[i] * b[j] + SIGN * (a[j] * b[i])
                for k in tl.static_range(1, D):
                    total += a[k * D + i] * b[k * D + j] + SIGN * (a[k * D + j] * b[k * D + i])
                entries = entries + (total,)  # noqa: RUF005
    return entries


@triton.jit
def _combined(a, b, ALPHA: tl.constexpr, BETA: tl.constexpr, D: tl.constexpr):
    """Adds multiples of a and b."""
    entries = ()
    for k in tl.static_range(D * D):
        entries = entries + (ALPHA * a[k] + BETA * b[k],)  # noqa: RUF005
    return entries


@triton.jit
def _shifted(a, SHIFT: tl.constexpr, SCALE: tl.constexpr, D: tl.constexpr):
    """Scales a and adds a multiple of the identity."""
    entries = ()
    for i in tl.static_range(D):
        for j in tl.static_range(D):
            if i == j:
                entries = entries + (SCALE * a[i * D + j] + SHIFT,)  # noqa: RUF005
            else:
                entries = entries + (SCALE * a[i * D + j],)  # noqa: RUF005
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
                    entries = entries + (entries[j * D + i],)  # noqa: RUF005
                elif i == p and j == p:
                    entries = entries + (-pivot,)  # noqa: RUF005
                elif i == p or j == p:
                    entries = entries + (a[i * D + j] * pivot,)  # noqa: RUF005
                else:
                    entries = entries + (a[i * D + j] - a[i * D + p] * (a[p * D + j] * pivot),)  # noqa: RUF005
        a = entries
    return a


@triton.jit
def _perturbed(scores, scale, BETA: tl.constexpr, D: tl.constexpr):
    """The Grover coin plus the scaled scores."""
    entries = ()
    for i in tl.static_range(D):
        for j in tl.static_range(D):
            if i == j:
                entries = entries + ((2.0 / D - 1.0) + BETA * (scale * scores[i * D + j]),)  # noqa: RUF005
            else:
                entries = entries + (2.0 / D + BETA * (scale * scores[i * D + j]),)  # noqa: RUF005
    return entries


@triton.jit
def _factor_of_two(a):
    """The block plus or minus its cofactors, by the sign of its determinant, made a unit."""
    sign = tl.where(a[0] * a[3] - a[1] * a[2] < 0, -1.0, 1.0)
    x = a[0] + sign * a[3]
    y = a[1] - sign * a[2]
    norm = tl.sqrt_rn(x * x + y * y)
    x = tl.where(norm == 0, 1.0, tl.div_rn(x, norm))
    y = tl.where(norm == 0, 0.0, tl.div_rn(y, norm))
    return (x, y, -sign * y, sign * x)


@triton.jit
def _factor(a, QUINTICS: tl.constexpr, STEPS: tl.constexpr, D: tl.constexpr):
    """Composes odd quintics of the singular values."""
    for step in tl.static_range(STEPS):
        square = _gram(a, a, 1, D)  # twice the square
        weights = _mirrored(square, square, 1, D)
        weights = _combined(square, weights, 0.5 * QUINTICS[3 * step + 1], 0.25 * QUINTICS[3 * step + 2], D)
        a = _product(a, _shifted(weights, QUINTICS[3 * step], 1.0, D), D)
    return a


@triton.jit
def _pull_two(a, u, g):
    """A block of two can only turn, at a speed of one over the trace of its stretch."""
    trace = a[0] * u[0] + a[1] * u[1] + a[2] * u[2] + a[3] * u[3]
    speed = u[0] * g[1] - u[1] * g[0] + u[2] * g[3] - u[3] * g[2]
    speed = tl.where(trace > 0, tl.div_rn(speed, trace), 0.0)
    return (-speed * u[1], speed * u[0], -speed * u[3], speed * u[2])


@triton.jit
def _pull_three(a, u, g):
    """A skew matrix of three is a cross product, found from the adjugate of the trace minus the stretch."""
    r = _gram(u, g, -1, 3)
    p = _gram(u, a, 1, 3)  # twice the stretch
    xx, yy, zz = 0.5 * (p[4] + p[8]), 0.5 * (p[0] + p[8]), 0.5 * (p[0] + p[4])
    xy, xz, yz = -0.5 * p[1], -0.5 * p[2], -0.5 * p[5]
    cxx, cxy, cxz = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    cyy, cyz, czz = xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy
    inverse = tl.div_rn(1.0, xx * cxx + xy * cxy + xz * cxz)
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
    inverse = _negated_inverse(_shifted(_gram(u, a, 1, D), SHIFT, 0.5, D), D)
    skew = _gram(u, g, -1, D)
    solution = _mirrored(_product(inverse, skew, D), inverse, -1, D)
    solution = _shifted(solution, 0.0, 2.0 * SHIFT, D)
    power = _shifted(inverse, 1.0, 2.0 * SHIFT, D)
    for step in tl.static_range(ROUNDS):
        solution = _combined(solution, _mirrored(_product(power, solution, D), power, -1, D), 1.0, 1.0, D)
        if step < ROUNDS - 1:
            power = _mirrored(power, power, 1, D)
    return _product(u, solution, D)


@triton.jit
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


@triton.jit
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
            entries = entries + (scale * (g[k] - radial * b[k]),)  # noqa: RUF005
        g = entries
    _store(out, block, num_blocks, g, D, WIDTH)
