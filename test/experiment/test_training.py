from gump.experiment.training import Training


def test_parts_are_trained_as_the_rest_unless_it_is_said_otherwise() -> None:
    same = Training(lr=0.1, weight_decay=0.2)
    other = Training(lr=0.1, base_lr=0.0, coin_lr=0.5, weight_decay=0.2, base_weight_decay=0.3, coin_weight_decay=0.0)
    assert [same.rates(part) for part in ("base", "coin", "")] == 3 * [(0.1, 0.2)]
    assert [other.rates(part) for part in ("base", "coin", "")] == [(0.0, 0.3), (0.5, 0.0), (0.1, 0.2)]
