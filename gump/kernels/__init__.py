"""The GPU kernels, each beside the plain torch it must equal."""

from functools import cache
from importlib.util import find_spec

from torch import Tensor, compiler, float32

LAUNCHED: set[str] = set()
"""The kernels that have run since this was last cleared, so that a record can name them."""


@cache
def has_triton() -> bool:
    """Whether kernels can be compiled here."""
    return find_spec("triton") is not None


def runs_kernels(*tensors: Tensor) -> bool:
    """Whether kernels are to be used for these tensors: on a CUDA device, in single precision, where Triton is installed.

    Not while a model is compiled or exported: then the plain torch is, which the compiler makes kernels of itself.
    """
    return not compiler.is_compiling() and has_triton() and all(tensor.is_cuda and tensor.dtype == float32 for tensor in tensors)
