import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from gump.datasets import fake_dataset
from gump.experiment.padded import Layout, PaddedStore
from gump.experiment.recorded_steps import QUANTILES, RecordedSteps, Step

STORE = PaddedStore([graph for size in (5, 10, 30) for graph in fake_dataset(num_graphs=20, num_nodes=size).graphs[:10]])


def recorded_steps(store: PaddedStore = STORE) -> tuple[RecordedSteps, list[tuple[Tensor, Layout]]]:
    """Steps that are not recorded, and a list of what they were given."""
    seen: list[tuple[Tensor, Layout]] = []

    def run(index: Tensor, layout: Layout) -> Tensor:
        seen.append((index, layout))
        return index.sum(1)

    return RecordedSteps({"train": Step(run), "eval": Step(run)}, store, record=False), seen


def batches(size: int, count: int = 20) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.stack([torch.randperm(30, generator=generator)[:size] for _ in range(2)]) for _ in range(count)]


def test_every_batch_runs_in_the_smallest_layout_that_holds_it() -> None:
    steps, seen = recorded_steps()
    chunks = batches(4)
    steps.make_room("train", chunks)
    layouts = steps.layouts["train", 4]
    assert len(layouts) == len(QUANTILES)
    assert [layout.num_arcs for layout in layouts] == sorted(layout.num_arcs for layout in layouts)
    for chunk in chunks:
        assert torch.equal(steps("train", chunk), chunk.sum(1))
        index, used = seen[-1]
        assert torch.equal(index, chunk)
        assert used == next(layout for layout in layouts if layout.holds(STORE.layout(chunk)))
    assert len({layout for _, layout in seen}) > 1


def test_every_step_and_size_has_layouts_of_its_own() -> None:
    steps, _ = recorded_steps()
    assert not steps.has_room("train")
    steps.make_room("train", batches(4) + batches(3))
    assert set(steps.layouts) == {("train", 4), ("train", 3)}
    assert (steps.has_room("train"), steps.has_room("eval")) == (True, False)
    steps.make_room("eval", batches(4))
    assert steps.has_room("eval")


def test_the_largest_layout_grows_where_a_batch_does_not_fit_and_holds_what_it_held() -> None:
    ring = torch.stack([torch.arange(40), torch.arange(1, 41) % 40])
    clique = torch.combinations(torch.arange(4)).T
    graphs = [Data(x=torch.ones(int(e.max()) + 1, 1), edge_index=to_undirected(e), y=torch.zeros(1)) for e in (ring, clique)]
    store = PaddedStore(graphs)
    rings, cliques = torch.tensor([[0, 0]]), torch.tensor([[1, 1]])
    steps, seen = recorded_steps(store)
    steps.make_room("train", [cliques])
    before = list(steps.layouts["train", 2])
    assert [layout.capacity for layout in before] == [(0, 8), (0, 8), (0, 16)], "by degree: two and three"
    steps.make_room("train", [cliques])
    assert steps.layouts["train", 2] == before, "there is room already"
    steps.make_room("train", [rings])
    assert [layout.capacity for layout in steps.layouts["train", 2]] == [(0, 8), (0, 8), (88, 16)]
    steps("train", rings)
    steps("train", cliques)
    assert [layout.capacity for _, layout in seen] == [(88, 16), (0, 8)]
