import math

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, average_precision_score, mean_absolute_error, roc_auc_score
from torch import Tensor

from gump.datasets import fake_dataset
from gump.datasets.dataset import TASKS as NAMES
from gump.experiment.task import TASKS


def numbers(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def labels(seed: int, *shape: int, missing: float = 0.0) -> Tensor:
    y = (numbers(seed, *shape) > 0.5).float()
    return torch.where(torch.rand(shape, generator=torch.Generator().manual_seed(seed + 1)) < missing, torch.nan, y)


def test_every_task_of_a_dataset_can_be_judged() -> None:
    assert set(TASKS) == set(NAMES)


def test_equal_shares_of_right_answers_are_equal_numbers_of_one_model_and_of_several() -> None:
    task, y = TASKS["multiclass"], torch.zeros(10, dtype=torch.long)
    out = torch.nn.functional.one_hot(torch.tensor([0] * 9 + [1]), 2).float()
    assert float(task.judge(out, y)) == 0.9
    assert float(task.judge(out, y.view(-1, 1))) == 0.9
    assert task.judge_each(out.expand(3, 10, 2), y.expand(3, 10)).tolist() == [0.9] * 3


@pytest.mark.parametrize("seed", range(3))
def test_accuracy_is_that_of_scikit_learn(seed: int) -> None:
    out, y = numbers(seed, 50, 4), torch.arange(50) % 4
    assert float(TASKS["multiclass"].judge(out, y)) == pytest.approx(accuracy_score(y, out.argmax(1)))


@pytest.mark.parametrize("scale", [1, 100])
@pytest.mark.parametrize("seed", range(3))
def test_roc_auc_is_that_of_scikit_learn_also_where_a_sigmoid_would_round_to_ties(seed: int, scale: float) -> None:
    out, y = scale * numbers(seed, 200, 1), labels(seed + 10, 200, 1)
    assert float(TASKS["binary"].judge(out, y)) == pytest.approx(roc_auc_score(y, out), abs=1e-6)
    assert float(TASKS["binary"].judge(out, y.view(-1))) == pytest.approx(roc_auc_score(y, out), abs=1e-6)


def test_roc_auc_counts_ties_half_and_missing_labels_not_at_all() -> None:
    out, y = torch.tensor([[0.0], [0.0], [1.0], [9.0]]), torch.tensor([[0.0], [1.0], [1.0], [torch.nan]])
    assert float(TASKS["binary"].judge(out, y)) == 0.75


@pytest.mark.parametrize("scale", [1, 100])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_average_precision_is_the_mean_of_scikit_learns_over_labels(seed: int, missing: float, scale: float) -> None:
    out, y = scale * numbers(seed, 60, 5), labels(seed + 10, 60, 5, missing=missing)
    y[:, 1] = 0  # no positive: counts for nothing
    y[:, 2] = torch.where(y[:, 2].isnan(), torch.nan, 1)  # no negative, likewise
    expected = []
    for k in (0, 3, 4):
        known = ~y[:, k].isnan()
        expected.append(average_precision_score(y[known, k], out[known, k]))
    assert float(TASKS["multilabel"].judge(out, y)) == pytest.approx(np.mean(expected), abs=1e-6)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_roc_auc_of_a_single_class_is_not_a_number(label: float) -> None:
    y = torch.tensor([[label], [label], [torch.nan]])
    assert TASKS["binary"].judge(torch.tensor([[0.1], [0.4], [0.3]]), y).isnan()


def test_average_precision_without_any_label_that_counts_is_not_a_number() -> None:
    assert math.isnan(TASKS["multilabel"].judge(numbers(0, 6, 2), torch.zeros(6, 2)))


@pytest.mark.parametrize("num_targets", [1, 3])
def test_mae_is_that_of_scikit_learn(num_targets: int) -> None:
    out, y = numbers(0, 40, num_targets), numbers(1, 40, num_targets)
    assert float(TASKS["regression"].judge(out, y)) == pytest.approx(mean_absolute_error(y, out), abs=1e-6)
    assert float(TASKS["regression"].loss(out, y)) == pytest.approx(mean_absolute_error(y, out), abs=1e-6)


@pytest.mark.parametrize("num_targets", [1, 3])
def test_mae_and_its_loss_are_those_of_the_numbers_that_are_known(num_targets: int) -> None:
    out, y = numbers(0, 40, num_targets).requires_grad_(), numbers(1, 40, num_targets)
    y[torch.rand(y.shape, generator=torch.Generator().manual_seed(2)) < 0.4] = torch.nan
    known = ~y.isnan()
    expected = mean_absolute_error(y[known], out[known].detach())
    assert float(TASKS["regression"].judge(out.detach(), y)) == pytest.approx(expected, abs=1e-6)
    loss = TASKS["regression"].loss(out, y)
    assert float(loss.detach()) == pytest.approx(expected, abs=1e-6)
    (gradient,) = torch.autograd.grad(loss, out)
    assert (gradient != 0).equal(known)


def test_mae_without_any_number_is_not_a_number() -> None:
    out, y = numbers(0, 4, 2), torch.full((4, 2), torch.nan)
    assert TASKS["regression"].judge(out, y).isnan()
    assert TASKS["regression"].loss(out, y) == 0


def test_missing_labels_weigh_nothing_in_the_loss_and_send_no_gradient() -> None:
    out, y = numbers(0, 8, 3).requires_grad_(), labels(1, 8, 3, missing=0.4)
    known = ~y.isnan()
    assert known.any()
    assert not known.all()
    loss = TASKS["multilabel"].loss(out, y)
    by_hand = -torch.stack([torch.sigmoid(o if t == 1 else -o).log() for o, t in zip(out[known], y[known], strict=True)]).mean()
    assert torch.allclose(loss, by_hand)
    (gradient,) = torch.autograd.grad(loss, out)
    assert gradient[~known].eq(0).all()
    assert gradient[known].ne(0).all()
    assert TASKS["multilabel"].loss(out, torch.full_like(y, torch.nan)).item() == 0


def test_any_number_is_better_than_nan_and_nan_than_nothing() -> None:
    assert [TASKS["multiclass"].better(*pair) for pair in ((0.6, 0.5), (0.5, 0.5), (0.4, 0.5))] == [True, False, False]
    assert [TASKS["regression"].better(*pair) for pair in ((0.6, 0.5), (0.5, 0.5), (0.4, 0.5))] == [False, False, True]
    assert TASKS["multiclass"].better(0.0, math.nan)
    assert not TASKS["multiclass"].better(math.nan, 0.0)
    assert not TASKS["regression"].better(math.nan, 0.0)
    assert not TASKS["binary"].better(math.nan, math.nan)


@pytest.mark.parametrize("name", NAMES)
def test_answers_and_truths_are_plain_and_of_one_shape(name: str) -> None:
    data = fake_dataset(task=name, missing=0.2)
    y = torch.cat([graph.y for graph in data])
    out = numbers(0, len(data), data.num_targets)
    answer, truth = TASKS[name].answer(out), TASKS[name].truth(y)
    assert len(answer) == len(truth) == len(data)
    assert np.shape(answer) == np.shape(truth)
    assert isinstance(answer[0], int | float | list)


@pytest.mark.parametrize("name", ["multiclass", "binary", "multilabel"])
def test_what_is_expected_is_what_the_loss_pulls_to_the_truth(name: str) -> None:
    y = torch.arange(12) % 3 if name == "multiclass" else labels(1, 12, 1 if name == "binary" else 3)
    truth = torch.eye(3)[y] if name == "multiclass" else y
    out = numbers(0, *truth.shape).requires_grad_()
    (gradient,) = torch.autograd.grad(TASKS[name].loss(out, y), out)
    count = len(y) if name == "multiclass" else y.numel()
    torch.testing.assert_close(gradient, (TASKS[name].expected(out.detach()) - truth) / count)


def test_numbers_are_expected_as_they_are() -> None:
    assert TASKS["regression"].expected(numbers(0, 5, 2)).equal(numbers(0, 5, 2))


def test_logits_are_written_with_five_digits_and_numbers_with_seven() -> None:
    assert TASKS["binary"].answer(torch.tensor([[1 / 3], [2.0]])) == [0.33333, 2.0]
    assert TASKS["regression"].answer(torch.tensor([[1 / 3], [-11000.78]])) == [0.3333333, -11000.78]
    assert TASKS["multiclass"].answer(torch.tensor([[0.0, 1.0], [3.0, 2.0]])) == [1, 0]
