"""One law: what is done to rows side by side is what torch does to those of each replica."""

import pytest
import torch

from gump.nn.rows import add_rows, put_rows, select_rows

INDEX = torch.tensor([[3, 0, 4], [1, 4, 2]])
CASES = {
    "select": (lambda x, i, r: select_rows(x, i), lambda x, i, r: x.index_select(0, i)),
    "add": (lambda x, i, r: add_rows(r, i, x.size(0)) + x, lambda x, i, r: x.index_add(0, i, r)),
    "put": (put_rows, lambda x, i, r: x.index_copy(0, i, r)),
}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_rows_side_by_side_are_those_of_each_replica(name, shared):
    ours, theirs = CASES[name]
    torch.manual_seed(0)
    x, rows = torch.randn(2, 5, 3, requires_grad=True), torch.randn(2, 3, 3, requires_grad=True)
    index = INDEX[:1].expand(2, -1) if shared else INDEX
    together = torch.vmap(ours, in_dims=(0, None if shared else 0, 0))(x, INDEX[0] if shared else index, rows)
    alone = torch.stack([theirs(x[r], index[r], rows[r]) for r in range(2)])
    single = torch.stack([ours(x[r], index[r], rows[r]) for r in range(2)])
    weight = torch.randn_like(alone)
    expected = torch.autograd.grad((alone * weight).sum(), [x, rows], allow_unused=True)
    for result in (together, single):
        torch.testing.assert_close(result, alone)
        torch.testing.assert_close(torch.autograd.grad((result * weight).sum(), [x, rows], allow_unused=True), expected)
