import math

import pytest
import torch

from gump.nn.embedding import CategoricalEmbedding

SIZES = (4, 3, 2)


def rows(num_rows: int = 7) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.stack([torch.randint(size, (num_rows,), generator=generator) for size in SIZES], dim=1)


def test_two_columns_by_hand() -> None:
    embedding = CategoricalEmbedding([2, 3], channels=2)
    embedding.tables[0].weight.data = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    embedding.tables[1].weight.data = torch.tensor([[10.0, 20.0], [30.0, 40.0], [50.0, 60.0]])
    assert embedding(torch.tensor([[1, 2], [0, 0]])).tolist() == [[53.0, 64.0], [11.0, 22.0]]


def test_is_the_linear_map_of_the_one_hot_columns() -> None:
    embedding, x = CategoricalEmbedding(SIZES, 5).double(), rows()
    one_hot = torch.cat([torch.nn.functional.one_hot(x[:, k], size) for k, size in enumerate(SIZES)], dim=1).double()
    weight = torch.cat([table.weight for table in embedding.tables])
    assert torch.allclose(embedding(x), one_hot @ weight, atol=1e-12)


def test_numeric_columns_go_through_a_linear_layer() -> None:
    embedding, x = CategoricalEmbedding(SIZES, 5, num_numeric=2), rows()
    numbers = torch.randn(x.size(0), 2)
    out = embedding(torch.cat([x.float(), numbers], dim=1))
    plain = sum(table(x[:, k]) for k, table in enumerate(embedding.tables))
    assert torch.allclose(out, plain + numbers @ embedding.lin.weight.t() + embedding.lin.bias, atol=1e-6)


def test_rows_know_nothing_of_each_other() -> None:
    embedding, x = CategoricalEmbedding(SIZES, 5), rows()
    order = torch.randperm(x.size(0))
    torch.testing.assert_close(embedding(x[order]), embedding(x)[order])
    assert embedding(x[:0]).shape == (0, 5)


def test_every_table_that_is_used_gets_a_gradient() -> None:
    embedding = CategoricalEmbedding(SIZES, 5, num_numeric=1)
    embedding(torch.cat([rows().float(), torch.ones(7, 1)], dim=1)).square().sum().backward()
    for parameter in embedding.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
        assert parameter.grad.any()


def test_tables_start_xavier_uniform() -> None:
    embedding = CategoricalEmbedding([100], 50)
    bound, weight = math.sqrt(6 / 150), embedding.tables[0].weight
    assert weight.abs().max() <= bound
    assert weight.abs().max() > 0.99 * bound
    before = weight.clone()
    embedding.reset_parameters()
    assert not embedding.tables[0].weight.equal(before)


def test_made_on_the_meta_device_it_is_filled_by_reset_parameters() -> None:
    with torch.device("meta"):
        embedding = CategoricalEmbedding(SIZES, 5)
    embedding.to_empty(device="cpu")
    embedding.reset_parameters()
    filled = CategoricalEmbedding(SIZES, 5)
    filled.load_state_dict(embedding.state_dict())
    assert torch.equal(embedding(rows()), filled(rows()))


def test_half_precision() -> None:
    assert (
        CategoricalEmbedding(SIZES, 5, num_numeric=1).bfloat16()(torch.cat([rows().float(), torch.ones(7, 1)], 1)).dtype
        == torch.bfloat16
    )


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.tensor([[0, 0, 0], [0, 3, 0]]), r"column 1 of 'x' must have whole numbers from 0 to 2 \(got 3 in row 1\)"),
        (torch.tensor([[-1, 0, 0]]), r"column 0 of 'x' must have whole numbers from 0 to 3 \(got -1 in row 0\)"),
        (torch.tensor([[0, 0.5, 0]]), r"column 1 of 'x' .* \(got 0.5 in row 0\)"),
        (torch.zeros(2, 4), r"'x' must have 3 columns of categories and 0 of numbers, shape \[rows, 3\] \(got \[2, 4\]\)"),
        (torch.zeros(3), r"'x' must have 3 columns"),
    ],
)
def test_refuses_rows_that_are_no_categories(x: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CategoricalEmbedding(SIZES, 5)(x)


def test_refuses_settings() -> None:
    with pytest.raises(ValueError, match="'sizes' must have"):
        CategoricalEmbedding([], 5)
    with pytest.raises(ValueError, match=r"each positive \(got \(3, 0\)\)"):
        CategoricalEmbedding([3, 0], 5)
    with pytest.raises(ValueError, match="'channels' must be positive"):
        CategoricalEmbedding([3], 0)


def test_repr() -> None:
    assert repr(CategoricalEmbedding(SIZES, 8)) == "CategoricalEmbedding((4, 3, 2), 8)"
    assert repr(CategoricalEmbedding(SIZES, 8, 2)) == "CategoricalEmbedding((4, 3, 2), 8, num_numeric=2)"


def test_where_nobody_looks_a_category_without_a_row_is_not_a_number() -> None:
    embedding, x = CategoricalEmbedding(SIZES, 5), torch.stack([rows(), rows()])
    x[1, 2, 0], x[1, 4, 1] = 4, -1  # the first of which would be a row of the next table
    out = torch.vmap(embedding)(x)
    assert out[0].equal(embedding(rows()))
    assert out[1].isnan().all(1).tolist() == [False, False, True, False, True, False, False]


def test_autocast_does_not_round_the_tables() -> None:
    embedding, x = CategoricalEmbedding(SIZES, 5), rows()
    with torch.autocast("cpu", torch.bfloat16):
        out = embedding(x)
    assert out.dtype == torch.float32
    assert out.equal(embedding(x))
