import pytest
import torch
from graphs import SYMMETRIC, path, random_graph
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import AddRandomWalkPE
from torch_geometric.utils import to_undirected

from gump.transforms.rrwp import AddRRWP

GRAPHS = SYMMETRIC | {f"random {seed}": random_graph(seed) for seed in range(3)}


def walk_probability(edges: list[list[int]], start: int, end: int, num_steps: int) -> float:
    """Follows all walks, one step at a time."""
    if num_steps == 0:
        return float(start == end)
    steps = [target for source, target in edges if source == start]
    return sum(walk_probability(edges, step, end, num_steps - 1) for step in steps) / max(len(steps), 1)


@pytest.mark.parametrize("name", GRAPHS)
def test_rows_are_the_probabilities_of_walks_from_target_to_source(name: str) -> None:
    edge_index, num_nodes = GRAPHS[name]
    data = AddRRWP(4)(Data(edge_index=edge_index, num_nodes=num_nodes, x=torch.ones(num_nodes, 1).double()))
    edges = edge_index.t().tolist()
    for (source, target), row in zip(data.pair_index.t().tolist(), data.pair_attr.tolist(), strict=True):
        assert row == pytest.approx([walk_probability(edges, target, source, k) for k in range(4)])


@pytest.mark.parametrize("name", GRAPHS)
def test_columns_are_matrix_powers(name: str) -> None:
    edge_index, num_nodes = GRAPHS[name]
    edge_index = to_undirected(edge_index, num_nodes=num_nodes)
    data = AddRRWP(7)(Data(edge_index=edge_index, num_nodes=num_nodes))
    adjacency = torch.zeros(num_nodes, num_nodes).index_put_(tuple(edge_index), torch.ones(edge_index.size(1)))
    walk = (adjacency / adjacency.sum(1, keepdim=True)).nan_to_num(0)
    for k in range(7):
        power = data.pair_attr[:, k].view(num_nodes, num_nodes)
        assert (power - torch.linalg.matrix_power(walk, k)).abs().max() < 1e-6


def test_a_path_by_hand() -> None:
    data = AddRRWP(3)(Data(edge_index=to_undirected(path(3)[0]), num_nodes=3))
    assert data.pair_index.tolist() == [[0, 1, 2, 0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1, 2, 2, 2]]
    assert data.pair_attr.view(3, 3, 3).permute(2, 0, 1).tolist() == [
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        [[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]],
        [[0.5, 0, 0.5], [0, 1, 0], [0.5, 0, 0.5]],
    ]


def test_a_vertex_without_edges_goes_nowhere() -> None:
    data = AddRRWP(4)(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3))
    powers = data.pair_attr.view(3, 3, 4)
    assert bool((powers[2, :, 1:] == 0).all())
    assert powers[2, 2, 0] == 1
    assert bool((powers[:2].sum(1) == 1).all()), "the walks of others are complete"
    assert AddRRWP(2)(Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=1)).pair_attr.tolist() == [[1, 0]]


def test_diagonals_are_the_return_probabilities_of_pyg() -> None:
    edge_index, num_nodes = SYMMETRIC["barbell"]
    data = Data(edge_index=to_undirected(edge_index), num_nodes=num_nodes)
    expected = AddRandomWalkPE(4)(data.clone()).random_walk_pe
    diagonal = AddRRWP(5)(data).pair_attr.view(num_nodes, num_nodes, 5).diagonal().t()
    assert (diagonal[:, 1:] - expected).abs().max() < 1e-6


def test_walks_follow_weights_and_the_listed_direction() -> None:
    edge_index, weight = torch.tensor([[0, 0], [1, 2]]), torch.tensor([1.0, 3.0])
    walk = AddRRWP(2)(Data(edge_index=edge_index, edge_weight=weight, num_nodes=3)).pair_attr[:, 1].view(3, 3)
    assert walk.tolist() == [[0, 0.25, 0.75], [0, 0, 0], [0, 0, 0]]


def test_in_a_batch_pairs_stay_sorted_and_within_graphs() -> None:
    graphs = [AddRRWP(2)(Data(edge_index=edge_index, num_nodes=n)) for edge_index, n in GRAPHS.values()]
    batch = Batch.from_data_list(graphs)
    source, target = batch.pair_index
    assert torch.equal(batch.batch[source], batch.batch[target])
    assert bool(((target * batch.num_nodes + source).diff() > 0).all())
    assert source.numel() == sum(n**2 for _, n in GRAPHS.values()) == batch.pair_attr.size(0)


def test_the_precision_is_that_of_the_features_and_the_rest_is_left_alone() -> None:
    data = Data(x=torch.ones(3, 1).double(), edge_index=path(3)[0])
    out = AddRRWP(2)(data)
    assert out.pair_attr.dtype == torch.double
    assert set(data.to_dict()) == {"x", "edge_index"}
    assert set(out.to_dict()) == {"x", "edge_index", "pair_index", "pair_attr"}
    assert AddRRWP(2)(Data(x=torch.ones(3, 1, dtype=torch.long), edge_index=path(3)[0])).pair_attr.dtype == torch.float


def test_negative_weights_are_refused() -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2, edge_weight=torch.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match=r"'edge_weight' must not be negative \(got -1\); leave it out"):
        AddRRWP(2)(data)


def test_no_steps_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'num_steps' must be at least 1 \(got 0\)"):
        AddRRWP(0)


def test_repr() -> None:
    assert repr(AddRRWP(17)) == "AddRRWP(num_steps=17)"
