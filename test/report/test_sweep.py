from gump.report.sweep import Point, find_points


def test_settings_that_go_along_are_not_mentioned() -> None:
    rows = [{"dataset.num_nodes": str(n), "model.num_layers": str(n // 2 + 1)} for n in (4, 6, 8)]
    assert find_points(rows) == [Point("dataset.num_nodes", n, "") for n in (4, 6, 8)]


def test_a_grid_is_a_curve_for_each_value_of_the_shorter_side() -> None:
    rows = [{"model.beta": beta, "model.num_layers": str(depth)} for beta in ("0.5", "0.9") for depth in (2, 4, 8)]
    expected = [Point("model.num_layers", depth, f"model.beta={beta}") for beta in ("0.5", "0.9") for depth in (2, 4, 8)]
    assert find_points(rows) == expected


def test_settings_that_never_change_name_the_curve() -> None:
    rows = [{"train.epochs": "2", "model.num_layers": depth} for depth in ("2", "4")]
    assert [point and point.rest for point in find_points(rows)] == ["train.epochs=2"] * 2


def test_what_is_no_number_tells_curves_apart() -> None:
    rows = [{"model.coin": coin, "model.num_layers": depth} for coin in ("polar", "grover") for depth in ("2", "4")]
    assert {point and point.rest for point in find_points(rows)} == {"model.coin=polar", "model.coin=grover"}


def test_rows_without_company_are_no_points() -> None:
    assert find_points([{}, {"train.lr": "0.1"}, {"model.coin": "polar"}, {"model.coin": "grover"}]) == [None] * 4
    lonely = [{"a.b": "1", "a.c": "x"}, {"a.b": "2", "a.c": "x"}, {"a.b": "1", "a.c": "y"}]
    assert [point is None for point in find_points(lonely)] == [False, False, True]


def test_order_of_settings_does_not_matter() -> None:
    rows = [{"a.b": "1", "a.c": "x"}, {"a.c": "x", "a.b": "2"}]
    assert find_points(rows) == [Point("a.b", 1, "a.c=x"), Point("a.b", 2, "a.c=x")]
