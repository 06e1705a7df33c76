import pytest
import torch

from gump.experiment.stacked_adam import StackedAdam


def leaves(seed: int, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(3, *shape, generator=generator, dtype=dtype).requires_grad_() for shape in [(4, 2), (5,), ()]]


def run(num_steps: int, optimizer: StackedAdam, params: list[torch.Tensor]) -> None:
    for _ in range(num_steps):
        optimizer.zero_grad()
        sum((p**2).sum() for p in params).backward()
        optimizer.step()


SETTINGS = {
    "one for all": ([0.1, 0.1, 0.1], [0.01, 0.01, 0.01], [0.02, 0.02, 0.02], [0.0, 0.0, 0.0]),
    "one for each": ([0.1, 0.01, 0.3], [0.01, 0.0, 0.5], [0.02, 0.2, 0.0], [0.0, 0.3, 0.0]),
}


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("settings", SETTINGS)
def test_equals_a_torch_optimizer_for_every_replica(settings: str, decoupled: bool, clip: float | None) -> None:
    stacked = leaves(0)
    alone = [[p[r].detach().clone().requires_grad_() for p in stacked] for r in range(3)]
    keys, numbers = ("lr", "weight_decay"), SETTINGS[settings]
    given = [values[0] if settings == "one for all" else values for values in numbers]
    ours = StackedAdam(
        [
            {"params": stacked[:1], **dict(zip(keys, given[:2], strict=True))},
            {"params": stacked[1:], **dict(zip(keys, given[2:], strict=True))},
        ],
        decoupled,
        clip,
    )
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    theirs = []
    for r, params in enumerate(alone):
        lr, decay, other_lr, other_decay = (values[r] for values in numbers)
        first, second = ({"lr": lr, "weight_decay": decay}, {"lr": other_lr, "weight_decay": other_decay})
        theirs.append(kind([{"params": params[:1], **first}, {"params": params[1:], **second}]))
    for step in range(6):
        scale = torch.tensor([1.0, 0.5, 0.25]) / (step + 1)
        ours.set_scale(scale)
        ours.zero_grad()
        sum(((p - 0.3) ** 4).sum() * (step + 1) for p in stacked).backward()
        ours.step()
        for r, (optimizer, params) in enumerate(zip(theirs, alone, strict=True)):
            optimizer.param_groups[0]["lr"] = numbers[0][r] * float(scale[r])
            optimizer.param_groups[1]["lr"] = numbers[2][r] * float(scale[r])
            optimizer.zero_grad()
            sum(((p - 0.3) ** 4).sum() * (step + 1) for p in params).backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(params, clip)
            optimizer.step()
        for k, p in enumerate(stacked):
            for r in range(3):
                assert (p[r] - alone[r][k]).abs().max() < 1e-12


@pytest.mark.parametrize("decoupled", [False, True])
def test_a_replica_without_decay_does_not_notice_that_others_have_one(decoupled: bool) -> None:
    with_others, without = leaves(4, torch.float32), leaves(4, torch.float32)
    pair = [
        (with_others, StackedAdam([{"params": with_others, "lr": 0.1, "weight_decay": [0.5, 0.0, 0.1]}], decoupled)),
        (without, StackedAdam([{"params": without, "lr": 0.1, "weight_decay": 0.0}], decoupled)),
    ]
    for params, optimizer in pair:
        for _ in range(5):
            optimizer.zero_grad()
            sum((p**2).sum() for p in params).backward()
            optimizer.step()
    for p, q in zip(with_others, without, strict=True):
        assert torch.equal(p[1], q[1])
        assert not torch.equal(p[0], q[0])


@pytest.mark.parametrize("key", ["lr", "weight_decay"])
def test_numbers_for_another_count_of_replicas_are_refused(key: str) -> None:
    group = {"params": leaves(0), "lr": 0.1, "weight_decay": 0.0, key: [0.1, 0.2]}
    with pytest.raises(ValueError, match=rf"'{key}' must be one number or one for each of 3 replicas \(got 2\)"):
        StackedAdam([group])


def test_every_replica_has_a_rate_of_its_own_and_zero_leaves_it_as_it_is() -> None:
    stacked = leaves(1)
    before = [p.detach().clone() for p in stacked]
    optimizer = StackedAdam([{"params": stacked, "lr": 0.1, "weight_decay": 0.0}])
    optimizer.set_scale(torch.tensor([1.0, 0.0, 0.5]))
    sum(p.sum() for p in stacked).backward()
    optimizer.step()
    for p, old in zip(stacked, before, strict=True):
        change = (old - p.detach()).flatten(1) if p.dim() > 1 else (old - p.detach()).view(3, 1)
        assert change[0].max() == pytest.approx(0.1, rel=1e-6)
        assert change[1].abs().max() == 0
        assert change[2].max() == pytest.approx(0.05, rel=1e-6)


def test_some_replicas_go_on_in_an_optimizer_of_their_own_as_they_would_have_among_all() -> None:
    def made(params: list[torch.Tensor], rows: list[int]) -> StackedAdam:
        rates, decays = [[values[r] for r in rows] for values in ([0.1, 0.01, 0.3], [0.0, 0.2, 0.1])]
        groups = [
            {"params": params[:1], "lr": rates, "weight_decay": 0.0},
            {"params": params[1:], "lr": 0.1, "weight_decay": decays},
        ]
        return StackedAdam(groups, clip=0.5)

    every = leaves(2)
    optimizer = made(every, [0, 1, 2])
    run(3, optimizer, every)
    rows = torch.tensor([0, 2])
    some = [torch.zeros_like(p[rows]).requires_grad_() for p in every]
    own = made(some, rows.tolist())
    own.take_over(optimizer, rows)
    assert all(torch.equal(p, q[rows]) for p, q in zip(some, every, strict=True))
    run(4, own, some)
    run(4, optimizer, every)
    assert all(torch.equal(p, q[rows]) for p, q in zip(some, every, strict=True))


def test_a_saved_state_goes_on_as_if_nothing_had_happened() -> None:
    first, second = leaves(2), leaves(3)
    a, b = (StackedAdam([{"params": p, "lr": 0.1, "weight_decay": 0.1}]) for p in (first, second))
    run(3, a, first)
    b.load_state_dict(a.state_dict())
    run(2, a, first)
    run(2, b, second)
    assert all(torch.equal(p, q) for p, q in zip(first, second, strict=True))
