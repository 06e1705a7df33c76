import pytest
import torch
from graphs import SYMMETRIC, random_graph
from torch.func import vmap
from torch_geometric.utils import to_undirected

from gump.nn.arguments import can_look, check_both_directions, check_counts, check_name

GRAPHS = SYMMETRIC | {f"random {seed}": random_graph(seed) for seed in range(3)} | {"empty": (torch.empty(2, 0).long(), 3)}


@pytest.mark.parametrize("name", GRAPHS)
def test_edges_in_both_directions_pass_whatever_their_order(name: str) -> None:
    edges, num_nodes = GRAPHS[name]
    edge_index, weight = to_undirected(edges, torch.rand(edges.size(1)), num_nodes=num_nodes)
    order = torch.randperm(edge_index.size(1))
    check_both_directions(edge_index[:, order], None, num_nodes)
    check_both_directions(edge_index[:, order], weight[order], num_nodes)


def test_edges_that_are_listed_several_times_add_up() -> None:
    edge_index = torch.tensor([[0, 0, 1, 1, 2], [1, 1, 0, 0, 2]])
    check_both_directions(edge_index, torch.tensor([1.0, 2.0, 2.0, 1.0, 5.0]), 3)
    check_both_directions(edge_index[:, 1:], torch.tensor([3.0, 2.0, 1.0, 5.0]), 3)
    with pytest.raises(ValueError, match=r"\(got \(1, 0\) heavier than \(0, 1\) by 1\)"):
        check_both_directions(edge_index[:, 1:], None, 3)


@pytest.mark.parametrize("weight", [-0.5, float("nan")])
def test_weights_are_not_negative(weight: float) -> None:
    with pytest.raises(ValueError, match=rf"'edge_weight' must not be negative \(got {weight}\); leave it out"):
        check_both_directions(torch.tensor([[0, 1], [1, 0]]), torch.full((2,), weight), 2)


@pytest.mark.parametrize("name", ["star", "grid", "random 0"])
def test_any_edge_that_is_missing_is_noticed(name: str) -> None:
    edges, num_nodes = GRAPHS[name]
    edge_index = to_undirected(edges, num_nodes=num_nodes)
    for column in range(edge_index.size(1)):
        u, v = edge_index[:, column].tolist()
        rest = torch.cat([edge_index[:, :column], edge_index[:, column + 1 :]], dim=1)
        if u != v:
            with pytest.raises(
                ValueError, match=rf"both directions with the same weight \(got \({v}, {u}\) without \({u}, {v}\)\); apply"
            ):
                check_both_directions(rest, None, num_nodes)


def test_nobody_looks_at_replicas_side_by_side() -> None:
    one_way = torch.tensor([[[0], [1]], [[1], [2]]])

    def look(edge_index: torch.Tensor) -> torch.Tensor:
        assert not can_look(edge_index)
        check_both_directions(edge_index, None, 3)
        return edge_index

    assert torch.equal(vmap(look)(one_way), one_way)
    assert can_look(one_way)


def test_nobody_looks_at_what_is_compiled() -> None:
    one_way = torch.tensor([[0], [1]])

    def look(edge_index: torch.Tensor) -> torch.Tensor:
        check_both_directions(edge_index, None, 3)
        return edge_index + (1 if can_look(edge_index) else 2)

    assert torch.equal(torch.compile(look, backend="eager", fullgraph=True)(one_way), one_way + 2)
    with pytest.raises(ValueError, match="'edge_index' must have every edge in both directions"):
        look(one_way)


@pytest.mark.parametrize("value", [True, 2.0, "2"])
def test_counts_are_integers(value: object) -> None:
    with pytest.raises(ValueError, match=f"'hidden_channels' must be an integer \\(got {value!r}\\)"):
        check_counts(1, hidden_channels=value)


def test_names() -> None:
    check_name("conv", "gcn", ("gcn", "gin"))
    check_name("conv", None, ("gcn", "gin"), optional=True)
    with pytest.raises(ValueError, match=r"'conv' must be one of 'gcn', 'gin' \(got None\)"):
        check_name("conv", None, ("gcn", "gin"))
    with pytest.raises(ValueError, match=r"'conv' must be one of 'gcn', None \(got 'gat'\)"):
        check_name("conv", "gat", ("gcn",), optional=True)
