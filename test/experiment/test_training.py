from gump.experiment.training import Training


def test_the_base_is_trained_as_the_rest_unless_it_is_said_otherwise() -> None:
    same, other = Training(lr=0.1, weight_decay=0.2), Training(lr=0.1, base_lr=0.0, weight_decay=0.2, base_weight_decay=0.3)
    assert (same.lr_of_base, same.weight_decay_of_base) == (0.1, 0.2)
    assert (other.lr_of_base, other.weight_decay_of_base) == (0.0, 0.3)
