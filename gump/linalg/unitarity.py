"""How far a matrix is from being unitary."""

import torch
from torch import Tensor


def unitarity_error(blocks: Tensor) -> Tensor:
    r"""Measures how far each block is from being unitary.

    .. math::
        r(\mathbf{X}) = \lVert \mathbf{X}^{\top}\mathbf{X} - \mathbf{I} \rVert_F / \sqrt{d}

    Zero for an orthogonal block, one for a zero block. A partial isometry of rank :math:`k` scores :math:`\sqrt{1 - k/d}`, which
    is how a rank-deficient block shows after Newton-Schulz.

    Args:
        blocks: Square matrices.

    Shapes:
        - **input:** :math:`(*, d, d)`
        - **output:** :math:`(*)`

    Example:
        >>> unitarity_error(torch.eye(3).unsqueeze(0))
        tensor([0.])
    """
    check_blocks(blocks)
    with torch.autocast(blocks.device.type, enabled=False):
        gram = blocks.mT @ blocks
        identity = torch.eye(blocks.size(-1), dtype=blocks.dtype, device=blocks.device)
        return torch.linalg.matrix_norm(gram - identity) / blocks.size(-1) ** 0.5


def check_blocks(blocks: Tensor, check_finite: bool = False) -> None:
    """Refuses what is not a batch of real square matrices."""
    if not isinstance(blocks, Tensor):
        raise ValueError(f"'blocks' must be a tensor (got {type(blocks).__name__}); pass torch.as_tensor(blocks)")
    if blocks.dim() < 2 or blocks.size(-1) != blocks.size(-2):
        raise ValueError(f"'blocks' must be square matrices of shape [..., d, d] (got {list(blocks.shape)})")
    if not blocks.is_floating_point():
        raise ValueError(f"'blocks' must be real floating-point matrices (got {blocks.dtype}); call .float() first")
    if blocks.numel() == 0:
        raise ValueError(f"'blocks' must not be empty (got {list(blocks.shape)})")
    if check_finite and not bool(torch.isfinite(blocks).all()):
        raise ValueError(f"'blocks' must be finite (got {int((~torch.isfinite(blocks)).sum())} entries that are NaN or infinite)")
