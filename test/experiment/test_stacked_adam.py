import pytest
import torch

from gump.experiment.stacked_adam import StackedAdam


def leaves(seed: int, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(3, *shape, generator=generator, dtype=dtype).requires_grad_() for shape in [(4, 2), (5,), ()]]


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_equals_a_torch_optimizer_for_every_replica(decoupled: bool, clip: float | None) -> None:
    stacked = leaves(0)
    alone = [[p[r].detach().clone().requires_grad_() for p in stacked] for r in range(3)]
    ours = StackedAdam(
        [
            {"params": stacked[:1], "lr": 0.1, "weight_decay": 0.01},
            {"params": stacked[1:], "lr": 0.02, "weight_decay": 0.0},
        ],
        decoupled,
        clip,
    )
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    theirs = [
        kind([{"params": p[:1], "lr": 0.1, "weight_decay": 0.01}, {"params": p[1:], "lr": 0.02, "weight_decay": 0.0}])
        for p in alone
    ]
    for step in range(6):
        ours.zero_grad()
        sum(((p - 0.3) ** 4).sum() * (step + 1) for p in stacked).backward()
        ours.step()
        for optimizer, params in zip(theirs, alone, strict=True):
            optimizer.zero_grad()
            sum(((p - 0.3) ** 4).sum() * (step + 1) for p in params).backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(params, clip)
            optimizer.step()
        for k, p in enumerate(stacked):
            for r in range(3):
                assert (p[r] - alone[r][k]).abs().max() < 1e-12


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


def test_a_saved_state_goes_on_as_if_nothing_had_happened() -> None:
    def run(num_steps: int, optimizer: StackedAdam, params: list[torch.Tensor]) -> None:
        for _ in range(num_steps):
            optimizer.zero_grad()
            sum((p**2).sum() for p in params).backward()
            optimizer.step()

    first, second = leaves(2), leaves(3)
    a, b = (StackedAdam([{"params": p, "lr": 0.1, "weight_decay": 0.1}]) for p in (first, second))
    run(3, a, first)
    b.load_state_dict(a.state_dict())
    run(2, a, first)
    run(2, b, second)
    assert all(torch.equal(p, q) for p, q in zip(first, second, strict=True))
