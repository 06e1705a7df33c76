import pytest
import torch
from graphs import SYMMETRIC, random_graph, star

from gump import EulerianLineGraph
from gump.kernels import LAUNCHED
from gump.kernels.coin_shift import coin_shift as in_one_pass
from gump.kernels.tiling import flatten
from gump.nn import Propagation

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GRAPHS = {**SYMMETRIC, "random": random_graph(0), "hub": star(11), "larger": star(17), "largest": star(64)}


def coin_shift(h: torch.Tensor, reverse: torch.Tensor, coins: list[torch.Tensor], *others: torch.Tensor) -> torch.Tensor:
    return in_one_pass(h, reverse, *flatten(coins), *others)


def case(name: str, width: int) -> tuple[EulerianLineGraph, torch.Tensor, list[torch.Tensor]]:
    edge_index, num_nodes = GRAPHS[name]
    line_graph = EulerianLineGraph.from_edge_index(edge_index.to(DEVICE), num_nodes)
    torch.manual_seed(0)
    coins = [torch.randn(g.num_blocks, g.degree, g.degree, device=DEVICE, requires_grad=True) for g in line_graph.groups]
    return line_graph, torch.randn(line_graph.num_arcs, width, device=DEVICE, requires_grad=True), coins


@pytest.mark.parametrize("width", [1, 5, 64, 100])
@pytest.mark.parametrize("name", GRAPHS)
def test_one_pass_equals_the_two_moves_and_so_do_its_gradients(name: str, width: int) -> None:
    line_graph, h, coins = case(name, width)
    plain = Propagation([c.double() for c in coins], line_graph, sparse=False)
    expected = plain.shift(plain.coin(h.double()))
    out = coin_shift(h, line_graph.reverse, coins)
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)
    weight = torch.randn_like(out)
    ours = torch.autograd.grad((out * weight).sum(), [h, *coins])
    theirs = torch.autograd.grad((expected * weight).sum(), [h, *coins])
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_replicas_side_by_side_equal_each_alone() -> None:
    line_graph, h, coins = case("random", 6)
    hs = torch.stack([h, 2 * h, -h]).detach()
    stacked = [torch.stack([c, c.mT, c + 1]).detach() for c in coins]
    out = torch.vmap(lambda h, *coins: coin_shift(h, line_graph.reverse, list(coins)))(hs, *stacked)
    for r in range(3):
        torch.testing.assert_close(out[r], coin_shift(hs[r], line_graph.reverse, [c[r] for c in stacked]))


def tailed_star(num_leaves: int) -> tuple[torch.Tensor, int]:
    """A star with a path at one of its leaves: degrees in tiles of two sides, 16 and the star's."""
    edge_index, num_nodes = star(num_leaves)
    tail = torch.tensor([[num_leaves, num_nodes], [num_nodes, num_nodes + 1]])
    return torch.cat([edge_index, tail], dim=1), num_nodes + 2


GRAPHS["two sides"] = tailed_star(20)


@pytest.mark.parametrize("name", ["random", "two sides"])
def test_a_multiple_of_the_states_is_added_and_has_gradients(name: str) -> None:
    line_graph, h, coins = case(name, 6)
    scale = torch.tensor(1.7, device=DEVICE, requires_grad=True)
    out = coin_shift(h, line_graph.reverse, coins, scale)
    expected = scale * h + coin_shift(h, line_graph.reverse, coins)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    weight = torch.randn_like(out)
    ours = torch.autograd.grad((out * weight).sum(), [scale, h, *coins])
    theirs = torch.autograd.grad((expected * weight).sum(), [scale, h, *coins])
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_every_replica_has_a_multiple_of_its_own() -> None:
    line_graph, h, coins = case("two sides", 6)
    hs, scales = (
        torch.stack([h, 2 * h, -h]).detach().requires_grad_(),
        torch.tensor([0.5, -1.0, 3.0], device=DEVICE).requires_grad_(),
    )

    def run(h: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return coin_shift(h, line_graph.reverse, coins, scale)

    out = torch.vmap(run)(hs, scales)
    ours = torch.autograd.grad(out.pow(2).sum(), [hs, scales])
    for r in range(3):
        own = [hs[r].detach().requires_grad_(), scales[r].detach().requires_grad_()]
        alone = run(*own)
        torch.testing.assert_close(out[r], alone)
        for together, by_itself in zip(ours, torch.autograd.grad(alone.pow(2).sum(), own), strict=True):
            torch.testing.assert_close(together[r], by_itself)


def test_what_padding_holds_makes_no_difference() -> None:
    degrees = [1, 3, 3, 2]  # of four vertices whose arcs are their own reverses, the second of degree three padding
    order = [0, 3, 1, 2]
    coins = [torch.randn(sum(d == e for e in degrees), d, d, device=DEVICE, requires_grad=True) for d in (1, 2, 3)]
    owner = torch.tensor([v for v in order for _ in range(degrees[v])], device=DEVICE)
    mask, reverse = owner != 2, torch.arange(9, device=DEVICE)
    h = torch.randn(9, 5, device=DEVICE)
    dirty = torch.where(mask.unsqueeze(-1), h, torch.nan).requires_grad_()
    scale = torch.ones((), device=DEVICE, requires_grad=True)
    out = coin_shift(dirty, reverse, coins, scale, mask)
    expected = coin_shift(h, reverse, coins, scale)
    torch.testing.assert_close(out, expected * mask.unsqueeze(-1))
    out.sum().backward()
    assert bool((dirty.grad[~mask] == 0).all())
    assert bool(scale.grad.isfinite())
    assert bool((coins[2].grad[1] == 0).all())
    assert bool((coins[2].grad[0] != 0).all())


def test_a_kernel_that_ran_can_be_named() -> None:
    line_graph, h, coins = case("ring", 4)
    LAUNCHED.clear()
    coin_shift(h, line_graph.reverse, coins)
    assert {"coin_shift"} == LAUNCHED
