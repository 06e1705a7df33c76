import csv
import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from gump.datasets.dataset import Dataset
from gump.datasets.molecule import murcko_scaffold
from gump.experiment.protocol import PROTOCOLS, FixedTest, Fresh, Links, Official, Scaffold, num_items, run_seed, undirected_links


def dataset(num_graphs: int, level: str = "graph") -> Dataset:
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3, 3], [1, 0, 2, 1, 3, 2, 3]])
    graphs = [Data(x=torch.ones(9, 1), edge_index=edge_index) for _ in range(num_graphs)]
    split = {part: torch.tensor([i]) for i, part in enumerate(("train", "val", "test"))}
    return Dataset("test", graphs, "multiclass", 2, level, split)


@pytest.mark.parametrize("rule", [Fresh(), FixedTest()])
@pytest.mark.parametrize("total", [10, 188, 600])
def test_parts_cover_everything_once_and_repeat_with_their_seed(rule: Fresh | FixedTest, total: int) -> None:
    data = dataset(total)
    for index in range(3):
        split = rule.split(data, index)
        assert torch.cat(split).sort().values.equal(torch.arange(total))
        assert all(a.equal(b) for a, b in zip(split, rule.split(data, index), strict=True))
    assert not rule.split(data, 0).train.equal(rule.split(data, 1).train)


def test_sizes_are_those_of_the_protocols() -> None:
    assert [part.numel() for part in Fresh().split(dataset(188), 0)] == [150, 18, 20]
    assert [part.numel() for part in FixedTest().split(dataset(188), 0)] == [150, 19, 19]


def test_a_fixed_test_set_is_the_same_in_all_runs_and_changes_with_its_seed_only() -> None:
    data = dataset(100)
    tests = [FixedTest(seed=seed).split(data, index).test for seed in (0, 1) for index in (0, 1, 2)]
    assert all(test.equal(tests[0]) for test in tests)
    assert not FixedTest(test_seed=1).split(data, 0).test.equal(tests[0])


def test_fresh_test_sets_differ() -> None:
    data = dataset(100)
    assert not Fresh().split(data, 0).test.equal(Fresh().split(data, 1).test)
    assert not Fresh(seed=1).split(data, 0).test.equal(Fresh().split(data, 0).test)


def test_the_official_split_is_the_datasets() -> None:
    assert [part.tolist() for part in Official().split(dataset(3), 7)] == [[0], [1], [2]]
    with pytest.raises(ValueError, match="since test comes with none"):
        Official().split(Dataset("test", dataset(3).graphs, "multiclass", 2), 0)


def molecules(scaffolds: Sequence[int]) -> Dataset:
    return Dataset("test", dataset(len(scaffolds)).graphs, "multiclass", 2, scaffolds=torch.tensor(scaffolds))


def test_frequent_scaffolds_are_learned_from_and_rare_ones_tested_on() -> None:
    data = molecules([7, 3, 3, 9, 3, 3, 3, 8, 3, 8])  # 3 six times, 8 twice, 7 and 9 once
    assert [part.tolist() for part in Scaffold().split(data, 0)] == [[1, 2, 4, 5, 6, 7, 8, 9], [3], [0]]
    assert [part.tolist() for part in Scaffold(train=0.6, val=0.2).split(data, 5)] == [[1, 2, 4, 5, 6, 8], [7, 9], [0, 3]]


@pytest.mark.parametrize("seed", range(3))
def test_a_scaffold_is_on_one_side_and_the_numbers_of_scaffolds_do_not_matter(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(40, (200,), generator=generator)
    split = Scaffold().split(molecules(numbers.tolist()), 0)
    assert torch.cat(split).sort().values.equal(torch.arange(200))
    sides = [set(numbers[part].tolist()) for part in split]
    assert sum(map(len, sides)) == len(set().union(*sides))
    assert len(split.train) <= 160
    renamed = torch.randperm(40, generator=generator)[numbers]
    assert all(a.equal(b) for a, b in zip(split, Scaffold().split(molecules(renamed.tolist()), 1), strict=True))


def test_scaffolds_must_be_there() -> None:
    with pytest.raises(ValueError, match=r"since test comes without scaffolds; data of kind 'smiles' have them"):
        Scaffold().split(dataset(3), 0)


@pytest.mark.slow
def test_the_split_of_molhiv_comes_out_again(data_root: Path) -> None:
    """But for the few molecules that this RDKit refuses, and what they move across the border."""
    pytest.importorskip("rdkit")
    folder, scaffolds, number = data_root / "ogbg_molhiv", {}, []
    with gzip.open(folder / "mapping/mol.csv.gz", "rt") as file:
        for row, line in enumerate(csv.DictReader(file)):
            try:
                number.append((row, scaffolds.setdefault(murcko_scaffold(line["smiles"]), len(scaffolds))))
            except ValueError:
                continue
    rows = torch.tensor([row for row, _ in number])
    split = Scaffold().split(molecules([scaffold for _, scaffold in number]), 0)
    for name, part in zip(("train", "valid", "test"), split, strict=True):
        with gzip.open(folder / f"split/scaffold/{name}.csv.gz", "rt") as file:
            official = torch.tensor([int(line) for line in file])
        assert torch.isin(rows[part], official).sum() >= len(part) - 10


def test_links_are_counted_once_and_loops_are_none() -> None:
    assert undirected_links(dataset(1, "link")).tolist() == [[0, 1, 2], [1, 2, 3]]
    assert [num_items(dataset(5)), num_items(dataset(1, "node")), num_items(dataset(1, "link"))] == [5, 9, 3]


def test_parts_of_links_share_none() -> None:
    n = 40
    ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    data = Dataset("ring", [Data(x=torch.ones(n, 1), edge_index=ring)], "binary", 1, "link")
    split = Links().split(data, 0)
    assert [part.numel() for part in split] == [int(0.3 * 34), 2, 4]
    assert torch.cat(split).unique().numel() == torch.cat(split).numel()


def test_every_run_and_epoch_has_a_seed_of_its_own() -> None:
    seeds = {run_seed(seed, index, epoch) for seed in range(3) for index in range(100) for epoch in range(101)}
    assert len(seeds) == 3 * 100 * 101
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize("kind", PROTOCOLS.values())
def test_every_protocol_says_what_it_is(kind: type) -> None:
    assert repr(kind()).startswith(f"{kind.__name__}(num_runs=")


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Fresh, {"num_runs": 0}, r"'protocol\.num_runs' must be at least 1 \(got 0\)"),
        (
            Fresh,
            {"train": 0.9, "val": 0.1},
            r"'protocol\.train' and 'protocol\.val' must be positive, with a sum below 1 \(got 0\.9, 0\.1\)",
        ),
        (FixedTest, {"val": -0.1}, r"'protocol\.test' and 'protocol\.val' must be positive"),
        (Scaffold, {"train": 1.0}, r"'protocol\.train' and 'protocol\.val' must be positive"),
        (Links, {"val": 1.5}, r"'protocol\.val' and 'protocol\.test' must be positive"),
        (Links, {"supervision": 1.0}, r"'protocol\.supervision' must be positive"),
    ],
)
def test_shares_that_leave_nothing_are_refused(kind: type, settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**settings)
