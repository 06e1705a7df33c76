"""Pickles that hold arrays and nothing else."""

from __future__ import annotations

import io
import pickle
import warnings
from typing import Any

MODULES = {"numpy.core.multiarray": "numpy._core.multiarray", "scipy.sparse.csr": "scipy.sparse"}
"""Where things are today that a pickle looks for in their old place."""

ALLOWED = (
    "numpy.ndarray",
    "numpy.dtype",
    "numpy.core.multiarray._reconstruct",
    "numpy.core.multiarray.scalar",
    "scipy.sparse.csr.csr_matrix",
    "collections.defaultdict",
    "__builtin__.list",
    "__builtin__.object",
    "copy_reg._reconstructor",
    "_codecs.encode",
)
"""What a pickle may name: the parts of arrays, sparse matrices and dictionaries of lists."""


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Looks up what a pickle names, if it may."""
        if f"{module}.{name}" not in ALLOWED:
            raise pickle.UnpicklingError(f"a pickle of arrays must not name {module}.{name}")
        return super().find_class(MODULES.get(module, module), name)


def unpickle_arrays(content: bytes) -> Any:
    """Reads a pickle of arrays, sparse matrices, lists and dictionaries, also one of Python 2, and refuses anything else.

    A second lock: the first is to compare a checksum before calling this.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, on how dtypes were written in its early days
        return _ArraysOnly(io.BytesIO(content), encoding="latin1").load()
