from typing import Any, Literal

import pytest

from gump.experiment.settings import bind, parse_assignment


def build(
    width: int,
    lr: float = 0.1,
    norm: str | None = "batch",
    deep: bool = False,
    sizes: list[int] | None = None,
    mode: Literal["a", "b"] = "a",
    **rest: Any,
) -> None: ...


def test_defaults_are_filled_in_in_the_order_of_the_signature() -> None:
    bound = bind("t", {"lr": 1, "width": 3}, build)
    assert list(bound.items()) == [("width", 3), ("lr", 1.0), ("norm", "batch"), ("deep", False), ("sizes", None), ("mode", "a")]
    assert isinstance(bound["lr"], float)


def test_none_can_be_said() -> None:
    assert bind("t", {"width": 1, "norm": "none"}, build)["norm"] is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 1, "wdith": 2}, r"'t.wdith' is not a setting \(did you mean 't.width'\?\)"),
        ({"width": 1, "learning_rate": 2}, r"'t.learning_rate' is not a setting \(did you mean 't.lr'\?\)"),
        ({"width": 1, "rest": 2}, r"'t.rest' is not a setting"),
        ({"width": 1, "zzz": 2}, r"there are: deep, lr, mode, norm, sizes, width"),
        ({}, r"'t.width' is missing: build needs it"),
        ({"width": 1.5}, r"'t.width' must be a whole number \(got 1.5\)"),
        ({"width": True}, r"'t.width' must be a whole number \(got True\)"),
        ({"width": "4"}, r"'t.width' must be a whole number \(got '4'\)"),
        ({"width": 1, "lr": "fast"}, r"'t.lr' must be a number \(got 'fast'\)"),
        ({"width": 1, "lr": True}, r"'t.lr' must be a number"),
        ({"width": 1, "norm": 3}, r"'t.norm' must be a string or 'none' \(got 3\)"),
        ({"width": 1, "deep": 1}, r"'t.deep' must be true or false \(got 1\)"),
        ({"width": 1, "sizes": ["a"]}, r"'t.sizes' must be"),
        ({"width": 1, "mode": "c"}, r"'t.mode' must be 'a' or 'b' \(got 'c'\)"),
        ({"width": "none"}, r"'t.width' must be a whole number"),
    ],
)
def test_what_is_no_argument_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bind("t", settings, build)


def test_what_the_caller_gives_is_no_setting() -> None:
    assert "width" not in bind("t", {}, build, given=["width"])
    with pytest.raises(ValueError, match=r"'t\.width' is not a setting"):
        bind("t", {"width": 1}, build, given=["width"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.b=2", 2),
        ("a.b=2.5", 2.5),
        ("a.b=true", True),
        ("a.b=[1, 2]", [1, 2]),
        ("a.b='x'", "x"),
        ("a.b=x-y", "x-y"),
        ("a.b= x", "x"),
    ],
)
def test_assignments_are_read_as_toml_or_else_as_text(text: str, value: Any) -> None:
    assert parse_assignment(text) == ("a.b", value)


@pytest.mark.parametrize("text", ["a.b", "=2", ""])
def test_what_is_no_assignment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="'--set' must be KEY=VALUE"):
        parse_assignment(text)
