import pytest

pytest.importorskip("triton", reason="needs Triton, to run kernels on a GPU or in its interpreter")
