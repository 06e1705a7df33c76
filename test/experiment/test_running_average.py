import pytest
import torch
from torch import Tensor

from gump.experiment.running_average import RunningAverage


def averaged(series: list[Tensor], decay: float | None) -> tuple[Tensor, RunningAverage]:
    live = torch.zeros_like(series[0])
    average = RunningAverage([live], decay)
    for value in series:
        live.copy_(value)
        average.update()
    return live, average


@pytest.mark.parametrize("decay", [0.5, 0.9])
@pytest.mark.parametrize("num_steps", [1, 4, 30])
def test_first_steps_count_equally_and_later_ones_fade(decay: float, num_steps: int) -> None:
    series = list(torch.randn(num_steps, 3, 2, dtype=torch.float64))
    num_equal = min(round(1 / (1 - decay)), num_steps)
    expected = torch.stack(series[:num_equal]).mean(0)
    for value in series[num_equal:]:
        expected = decay * expected + (1 - decay) * value
    torch.testing.assert_close(averaged(series, decay)[1].values[0], expected)


def test_weights_come_back_whatever_happens_while_the_average_is_shown() -> None:
    live, average = averaged([torch.ones(2), torch.full((2,), 3.0)], 0.9)
    seen: list[float] = []

    def judge() -> None:
        with average.shown():
            seen.extend(live.tolist())
            raise KeyError

    with pytest.raises(KeyError):
        judge()
    assert seen == [2.0, 2.0]
    assert live.tolist() == [3.0, 3.0]


def test_without_a_decay_there_is_no_average() -> None:
    live, average = averaged([torch.ones(2), torch.full((2,), 3.0)], None)
    with average.shown():
        assert live.tolist() == [3.0, 3.0]
    assert average.values == []


def test_whole_numbers_stay_as_they_are() -> None:
    count, weight = torch.tensor(3), torch.ones(1)
    average = RunningAverage([count, weight], 0.9)
    average.update()
    weight.fill_(9.0)
    with average.shown():
        assert (int(count), float(weight)) == (3, 1.0)


def test_small_steps_are_not_rounded_away_in_half_precision() -> None:
    series = [torch.full((1,), 1 + k / 3000, dtype=torch.bfloat16) for k in range(3000)]
    expected = averaged([value.float() for value in series], 0.995)[1].values[0]
    torch.testing.assert_close(averaged(series, 0.995)[1].values[0], expected)


def test_complex_weights_are_averaged_and_masks_stay() -> None:
    weight, mask = torch.tensor([1 + 2j]), torch.tensor([0.0, -torch.inf])
    average = RunningAverage([weight, mask], 0.9)
    for value in (1 + 2j, 3 + 0j):
        weight.fill_(value)
        average.update()
    with average.shown():
        assert weight.tolist() == [2 + 1j]
        assert mask.tolist() == [0.0, -torch.inf]


def test_some_replicas_go_on_with_their_part() -> None:
    _, average = averaged([torch.arange(3.0), torch.arange(3.0) + 2], 0.9)
    rest = average.only(torch.tensor([0, 2]), [torch.full((2,), torch.nan)])  # one that has diverged meanwhile is still counted
    assert rest.values[0].tolist() == [1.0, 3.0]
    rest.live[0].fill_(7.0)
    rest.update()
    assert rest.values[0].tolist() == pytest.approx([3.0, 13 / 3]), "the third step counts a third"
