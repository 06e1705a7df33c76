"""How far a matrix is from being unitary."""

import pytest
import torch

from gump.linalg import unitarity_error


@pytest.mark.parametrize("d", [1, 2, 3, 8, 25])
def test_zero_for_an_orthogonal_block_and_one_for_a_zero_block(d):
    rotation = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=torch.Generator().manual_seed(d)))[0]
    assert unitarity_error(torch.eye(d)) == 0
    assert unitarity_error(torch.zeros(d, d)) == 1
    assert unitarity_error(rotation) < 1e-14
    assert unitarity_error(-rotation.mT) < 1e-14


@pytest.mark.parametrize("d", [1, 3, 7])
@pytest.mark.parametrize("k", range(8))
def test_a_partial_isometry_scores_the_root_of_the_share_that_is_missing(d, k):
    generator = torch.Generator().manual_seed(0)
    left, right = torch.linalg.qr(torch.randn(2, d, d, dtype=torch.float64, generator=generator))[0]
    k = min(k, d)
    torch.testing.assert_close(unitarity_error(left[:, :k] @ right[:k]), torch.tensor((1 - k / d) ** 0.5, dtype=torch.float64))


def test_a_scaled_rotation_scores_how_far_its_square_is_from_one():
    assert unitarity_error(3 * torch.eye(4)) == 8
    assert unitarity_error(torch.tensor([[0.0, 2.0], [1.0, 0.0]])).item() == pytest.approx(3 / 2**0.5)


def test_every_block_of_a_batch_is_measured_by_itself():
    blocks = torch.randn(2, 3, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([unitarity_error(block) for block in blocks.view(-1, 4, 4)]).view(2, 3)
    torch.testing.assert_close(unitarity_error(blocks), expected)


def test_autocast_does_not_blur_the_measure():
    rotation = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(0)))[0]
    with torch.autocast("cpu", torch.bfloat16):
        assert unitarity_error(rotation) < 1e-6


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (torch.zeros(2, 3), r"'blocks' must be square matrices of shape \[..., d, d\] \(got \[2, 3\]\)"),
        (torch.zeros(3), r"'blocks' must be square matrices of shape \[..., d, d\] \(got \[3\]\)"),
        (torch.zeros(2, 2, dtype=torch.long), r"'blocks' must be real floating-point matrices \(got torch.int64\)"),
        (torch.zeros(2, 2, dtype=torch.cfloat), r"'blocks' must be real floating-point matrices \(got torch.complex64\)"),
        (torch.zeros(0, 2, 2), r"'blocks' must not be empty \(got \[0, 2, 2\]\)"),
    ],
)
def test_what_is_not_a_batch_of_real_square_matrices_is_refused(blocks, message):
    with pytest.raises(ValueError, match=message):
        unitarity_error(blocks)
