"""The coin that spreads evenly."""

import torch
from torch import Tensor


def grover(degree: int, like: Tensor) -> Tensor:
    r"""Builds the Grover coin :math:`\tfrac{2}{d} \mathbf{1}\mathbf{1}^{\top} - \mathbf{I}`, the reflection that treats all arcs alike.

    Orthogonal, symmetric, and unchanged by any permutation of rows and columns together.

    Args:
        degree: The side of the matrix.
        like: A tensor whose precision and device it gets.

    Shapes:
        - **output:** :math:`(d, d)`

    Example:
        >>> grover(2, torch.empty(0))
        tensor([[0., 1.],
                [1., 0.]])
    """
    return 2 / degree - torch.eye(degree, dtype=like.dtype, device=like.device)
