"""What there is, in plain words."""

from pathlib import Path

import pytest

from gump.experiment.listing import listing, plain_words


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("Joins two\n    lines.", "Joins two lines."),
        ("A PyG ``DataLoader`` and ``x[0]``.", "A PyG DataLoader and x[0]."),
        (":class:`gump.nn.Coin` and :obj:`~torch.nn.Module`", "gump.nn.Coin and Module"),
        (":py:func:`the polar factor <gump.linalg.polar_factor>`", "the polar factor"),
        (":math:`L + 1` layers", "L + 1 layers"),
        ("(`Ma et al. <https://a.b/c_d>`_) and `Xu\n  et al. <https://e.f>`__", "(Ma et al.) and Xu et al."),
        ("a ratio: 1:2, of a_b and 3 < 4 > 2", "a ratio: 1:2, of a_b and 3 < 4 > 2"),
    ],
)
def test_markup_goes_and_words_stay(marked: str, plain: str) -> None:
    assert plain_words(marked) == plain


@pytest.mark.parametrize("name", ["models", "transforms", "protocols"])
def test_no_description_has_markup(name: str) -> None:
    _, rows = listing(name, Path())
    assert rows
    for row in rows:
        assert row[1].endswith((".", ")")), row
        assert not any(mark in row[1] for mark in ("`", ":class:", ":obj:", ":math:", "https://", "\n")), row


def test_where_there_is_no_folder_of_configurations_there_are_none(tmp_path: Path) -> None:
    assert listing("configs", tmp_path / "configs") == (["configuration", "published"], [])
