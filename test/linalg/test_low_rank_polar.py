"""The orthogonal factor of large matrices that differ from the Grover coin by low rank."""

import sys

import pytest
import torch

from gump.linalg import Tiles, grover, low_rank_polar, polar_factor, unitarity_error

RANK = 4
TIES = ["none", "pairs", "all", "canceling", "near", "no_left", "nothing", "dependent", "huge", "tiny"]
SIZES = {1: 1, 2: 2, 3: 1, 30: 2, 64: 1, 65: 1, 200: 1}


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def factors(sizes, ties, rank=RANK):
    """Two factors of scores, of which rows are equal, columns are missing, or large terms cancel."""
    num_rows = sum(size * count for size, count in sizes.items())
    left, right = normal(num_rows, rank), normal(num_rows, rank, seed=1)
    pairs, one = torch.arange(num_rows) // 2, torch.zeros(num_rows, dtype=torch.long)
    across = right[:1] - (right[0] @ left[0]) / left[0].square().sum() * left[:1]  # orthogonal to the first row of left
    return {
        "none": (left, right),
        "pairs": (left[pairs], right[pairs]),
        "all": (left[one], right[one]),
        "canceling": (left[one], across[one]),
        "near": (left[:1] + 1e-4 * left, across + 1e-4 * right),
        "no_left": (0 * left, right),
        "nothing": (0 * left, 0 * right),
        "dependent": (left[:, :1] @ normal(1, rank, seed=2), right[:, :1] @ normal(1, rank, seed=3)),
        "huge": (1e4 * left, 1e3 * right),
        "tiny": (1e-6 * left, right),
    }[ties]


def perturbed(left, right, sizes, beta):
    """The matrices that are to be projected, built."""
    blocks, first = [], 0
    for size, count in sizes.items():
        for _ in range(count):
            scores = left[first : first + size] @ right[first : first + size].t()
            blocks.append(grover(size, scores) + beta * scores / (1 + scores.square().sum()).sqrt())
            first += size
    return blocks


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("ties", TIES)
def test_it_is_the_factor_of_the_singular_value_decomposition(ties, beta):
    left, right = factors(SIZES, ties)
    ours = [block for group in low_rank_polar(left, right, Tiles.of(SIZES), beta).dense() for block in group]
    for block, matrix in zip(ours, perturbed(left, right, SIZES, beta), strict=True):
        u, _, v = torch.linalg.svd(matrix)
        torch.testing.assert_close(block, u @ v, rtol=0, atol=1e-10)


@pytest.mark.parametrize("ties", [name for name in TIES if name not in ("huge", "tiny")])
def test_gradients_are_those_of_the_built_matrix(ties):
    sizes = {3: 1, 30: 2, 70: 1}
    leaves = [x.clone().requires_grad_() for x in factors(sizes, ties)]
    weights = [normal(size, size, seed=size) for size, count in sizes.items() for _ in range(count)]
    ours = [block for group in low_rank_polar(*leaves, Tiles.of(sizes), 0.9).dense() for block in group]
    theirs = [polar_factor(matrix.unsqueeze(0), bounds=(0.1, 1.9))[0] for matrix in perturbed(*leaves, sizes, 0.9)]
    results = [
        torch.autograd.grad(sum((w * b).sum() for w, b in zip(weights, blocks, strict=True)), leaves) for blocks in (ours, theirs)
    ]
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rank", [1, 8, 32])
@pytest.mark.parametrize("ties", TIES)
def test_in_float32_it_is_orthogonal(ties, rank):
    sizes = {100: 1, 400: 1}
    left, right = (x.float() for x in factors(sizes, ties, rank))
    coins = low_rank_polar(left, right, Tiles.of(sizes), 0.9)
    assert max(unitarity_error(block).max() for block in coins.dense()) < 1e-5
    h = normal(500, 3).float()
    back = coins._replace(core=coins.core.mT)(coins(h))
    assert (back - h).norm() < 1e-5 * h.norm()


@pytest.mark.parametrize("ties", ["none", "all", "canceling"])
def test_in_float32_ten_thousand_rows_keep_their_norm(ties):
    left, right = (x.float() for x in factors({10_000: 1}, ties))
    h = normal(10_000, 3).float()
    coins = low_rank_polar(left, right, Tiles.of({10_000: 1}), 0.9)
    back = coins._replace(core=coins.core.mT)(coins(h))
    assert (back - h).norm() < 1e-5 * h.norm()


@pytest.mark.parametrize("ties", TIES)
def test_permuting_the_rows_permutes_rows_and_columns(ties):
    left, right = factors({100: 1}, ties)
    order = torch.randperm(100, generator=torch.Generator().manual_seed(0))
    before, after = (
        low_rank_polar(a, b, Tiles.of({100: 1}), 0.9).dense()[0][0] for a, b in ((left, right), (left[order], right[order]))
    )
    torch.testing.assert_close(after, before[order][:, order], rtol=0, atol=1e-10)


def test_blocks_together_are_what_they_are_alone_also_in_chunks(monkeypatch):
    left, right = factors(SIZES, "none")
    together = [block for group in low_rank_polar(left, right, Tiles.of(SIZES), 0.9).dense() for block in group]
    monkeypatch.setattr(sys.modules[low_rank_polar.__module__], "CHUNK", 1)
    chunked = [block for group in low_rank_polar(left, right, Tiles.of(SIZES), 0.9).dense() for block in group]
    first = 0
    for block, again in zip(together, chunked, strict=True):
        rows = slice(first, first + block.size(-1))
        alone = low_rank_polar(left[rows], right[rows], Tiles.of({block.size(-1): 1}), 0.9).dense()[0][0]
        torch.testing.assert_close(block, alone, rtol=0, atol=1e-13)
        torch.testing.assert_close(again, block, rtol=0, atol=1e-13)
        first = rows.stop


def test_side_by_side_under_vmap_is_one_after_the_other():
    sizes = {3: 1, 70: 1}
    left, right, h = normal(2, 73, 3), normal(2, 73, 3, seed=1), normal(2, 73, 2, seed=2)

    def loss(left, right, h):
        return (low_rank_polar(left, right, Tiles.of(sizes), 0.9)(h) ** 3).sum()

    together = torch.vmap(torch.func.grad(loss, argnums=(0, 1, 2)))(left, right, h)
    for number in range(2):
        leaves = [x[number].clone().requires_grad_() for x in (left, right, h)]
        for ours, theirs in zip(together, torch.autograd.grad(loss(*leaves), leaves), strict=True):
            torch.testing.assert_close(ours[number], theirs)


def test_factors_that_do_not_fit_are_refused():
    tiles, factor = Tiles.of({3: 1, 5: 2}), normal(13, 2)
    for rows in (12, 14):
        with pytest.raises(ValueError, match=rf"'left' must be a matrix of 13 rows, .* \(got \[{rows}, 2\]\)"):
            low_rank_polar(normal(rows, 2), normal(rows, 2), tiles, 0.9)
    for shape in ((14, 2), (13, 4), (13,)):
        with pytest.raises(ValueError, match=r"'right' must have the shape of 'left', \[13, 2\] \(got \["):
            low_rank_polar(factor, normal(*shape), tiles, 0.9)


def test_gradients_that_are_taken_under_autocast_are_the_same():
    sizes = {70: 1}
    left, right, h = (x.float().requires_grad_() for x in (normal(70, 3), normal(70, 3, seed=1), normal(70, 2, seed=2)))
    loss = (low_rank_polar(left, right, Tiles.of(sizes), 0.9)(h) ** 3).sum()
    expected = torch.autograd.grad(loss, (left, right, h), retain_graph=True)
    with torch.autocast("cpu", torch.bfloat16):
        grads = torch.autograd.grad(loss, (left, right, h))
    torch.testing.assert_close(grads, expected, rtol=0, atol=0)


def test_what_a_compiler_sees_is_not_cut_into_chunks(monkeypatch):
    monkeypatch.setattr(sys.modules[low_rank_polar.__module__], "CHUNK", 1)
    left, right = factors(SIZES, "none")
    num_steps = []
    for compiling in (False, True):
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda compiling=compiling: compiling)
        with torch.profiler.profile() as profile:
            low_rank_polar(left, right, Tiles.of(SIZES), 0.9)
        num_steps.append(sum(event.count for event in profile.key_averages() if event.key == "aten::linalg_cholesky_ex"))
    assert num_steps == [sum(SIZES.values()), 1]
