import os
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from gump.datasets.pickles import unpickle_arrays


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("echo this must not run",)


def old(content: bytes) -> bytes:
    """The same pickle with the names that numpy and scipy had in their early days."""
    for new, name in (
        (b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n"),
        (b"cscipy.sparse._csr\n", b"cscipy.sparse.csr\n"),
    ):
        content = content.replace(new, name)
    return content


def test_arrays_lists_and_dictionaries_come_back() -> None:
    out = unpickle_arrays(old(pickle.dumps({"a": np.arange(3), "b": [1, 2]}, protocol=2)))
    assert out["a"].tolist() == [0, 1, 2]
    assert out["b"] == [1, 2]


def test_sparse_matrices_come_back() -> None:
    matrix = csr_matrix(np.array([[0.0, 1.0], [2.0, 0.0]]))
    assert unpickle_arrays(old(pickle.dumps(matrix, protocol=2))).toarray().tolist() == [[0, 1], [2, 0]]


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_code_is_refused(protocol: int) -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"a pickle of arrays must not name posix\.system"):
        unpickle_arrays(pickle.dumps(Evil(), protocol=protocol))


@pytest.mark.parametrize("name", [b"builtins\neval", b"__builtin__\neval", b"numpy\nload", b"collections\nOrderedDict"])
def test_everything_else_is_refused(name: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError, match="must not name"):
        unpickle_arrays(b"c" + name + b"\n.")
