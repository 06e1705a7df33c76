import csv
import dataclasses
import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from gump.datasets.dataset import Dataset
from gump.datasets.molecule import murcko_scaffold
from gump.experiment.protocol import (
    PROTOCOLS,
    FixedTest,
    Folds,
    Fresh,
    Links,
    Official,
    Scaffold,
    Split,
    SplitRule,
    num_items,
    run_seed,
    undirected_links,
)


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


def test_fresh_splits_are_those_of_the_records_that_there_are() -> None:
    split = Fresh().split(dataset(20), 3)
    assert (split.val.tolist(), split.test.tolist()) == ([1, 12], [4, 15])


def labeled(labels: Sequence[float], task: str = "multiclass", level: str = "graph") -> Dataset:
    y = torch.tensor(labels) if task == "multiclass" else torch.tensor(labels, dtype=torch.float).view(-1, 1)
    edge_index = torch.tensor([[0], [1]])
    graphs = [Data(x=torch.ones(2, 1), edge_index=edge_index, y=row) for row in y.split(1)]
    if level in ("node", "link"):
        graphs = [Data(x=torch.ones(len(y), 1), edge_index=edge_index, y=y)]
    return Dataset("test", graphs, task, 1 if task != "multiclass" else max(labels) + 1, level)


CLASSES = {
    "MUTAG": [0] * 63 + [1] * 125,
    "many": [i % 7 * (i % 3 > 0) for i in range(301)],
    "rare": [0] * 40 + [1] * 3 + [2],
    "as few as folds": list(range(10)),
}


def deviations(parts: Sequence[torch.Tensor], sizes: Sequence[float], labels: Sequence[int], of: torch.Tensor) -> torch.Tensor:
    """How far the number of each class in some parts is from its share, where these are cut from a set."""
    y, bins = torch.tensor(labels), max(labels) + 1
    counts = torch.stack([y[part].bincount(minlength=bins) for part in parts])
    return (counts - torch.tensor(sizes).view(-1, 1) * y[of].bincount(minlength=bins) / len(of)).abs()


def keeps_shares(split: Split, labels: Sequence[int], test_size: float) -> bool:
    everything, rest = torch.arange(len(labels)), torch.cat(split[:2])
    assert torch.cat(split).sort().values.equal(everything)
    test = deviations([split.test], [test_size], labels, everything)
    val = deviations([split.val], [len(split.val)], labels, rest)
    return bool((test < 1 - 1e-4).all() and (val < 1 - 1e-4).all())


@pytest.mark.parametrize("labels", CLASSES.values(), ids=CLASSES)
def test_every_round_of_folds_tests_on_everything_once_with_equal_shares_of_the_classes(labels: list[int]) -> None:
    data, rule = labeled(labels), Folds(num_runs=20)
    splits = [rule.split(data, index) for index in range(20)]
    for first in (0, 10):
        tested = torch.cat([split.test for split in splits[first : first + 10]])
        assert tested.sort().values.equal(torch.arange(len(labels)))
    assert not splits[0].test.equal(splits[10].test), "the second round deals anew"
    for split in splits:
        assert keeps_shares(split, labels, len(labels) / 10)
        assert len(split.test) in (len(labels) // 10, -(-len(labels) // 10))
        assert len(split.val) == round(0.1 * len(labels))


def test_a_run_on_folds_is_the_same_whatever_else_is_run_and_another_with_another_seed() -> None:
    data = labeled(CLASSES["MUTAG"])
    alone = Folds(num_runs=100).split(data, 17)
    assert all(a.equal(b) for a, b in zip(alone, Folds(num_runs=18).split(data, 17), strict=True))
    assert not alone.test.equal(Folds(seed=1).split(data, 17).test)
    assert not Folds().split(data, 0).val.equal(Folds().split(data, 1).val)


def test_folds_by_hand() -> None:
    labels = [0, 1, 0, 1, 0, 1, 1, 1]  # three and five
    splits = [Folds(num_folds=3, val=0.25).split(labeled(labels), index) for index in range(3)]
    counts = [[[labels[i] for i in part].count(c) for c in (0, 1)] for split in splits for part in [split.test.tolist()]]
    assert counts == [[1, 2], [1, 2], [1, 1]]
    assert [len(split.val) for split in splits] == [2, 2, 2]
    rare = [Folds(num_folds=3, val=0.25).split(labeled([0] * 8 + [1]), index) for index in range(3)]
    assert sum(8 in split.test for split in rare) == 1
    assert [8 in split.train or 8 in split.val for split in rare] == [8 not in split.test for split in rare]


@pytest.mark.parametrize("rule", [Fresh(), FixedTest()], ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("labels", CLASSES.values(), ids=CLASSES)
def test_stratified_splits_have_the_same_sizes_and_keep_the_shares_of_the_classes(
    rule: Fresh | FixedTest, labels: list[int]
) -> None:
    data, stratified, kept = labeled(labels), dataclasses.replace(rule, stratify=True), []
    for index in range(10):
        split, plain = stratified.split(data, index), rule.split(data, index)
        assert [len(part) for part in split] == [len(part) for part in plain]
        assert keeps_shares(split, labels, len(split.test))
        assert all(a.equal(b) for a, b in zip(split, stratified.split(data, index), strict=True))
        kept.append(keeps_shares(plain, labels, len(plain.test)))
    first, second = stratified.split(data, 0), stratified.split(data, 1)
    assert first.test.equal(second.test) == isinstance(rule, FixedTest)
    assert not first.train.equal(second.train)
    assert not all(kept) or len(set(labels)) == len(labels), "which drawing alone does not"


def test_everything_is_validated_and_tested_on_equally_often_in_the_long_run() -> None:
    labels, rule = [0, 0, 0, 0, 0, 0, 0, 1, 1, 2], Fresh(stratify=True, train=0.6, val=0.2)
    data, count = labeled(labels), torch.zeros(2, 10)
    for index in range(1000):
        split = rule.split(data, index)
        count[0, split.val] += 1
        count[1, split.test] += 1
    assert (count - 200).abs().max() < 60  # nearly five standard deviations


def test_vertices_have_classes_too_and_labels_that_are_missing_are_one() -> None:
    nodes = Folds(num_folds=3).split(labeled([0, 1] * 15, level="node"), 0)
    assert nodes.test.numel() == 10
    assert (nodes.test % 2).sum() == 5
    missing = labeled([0.0, 1.0, torch.nan] * 30, "binary")
    for index in range(3):
        assert (Folds(num_folds=3).split(missing, index).test % 3).bincount().tolist() == [10, 10, 10]


@pytest.mark.parametrize(
    ("rule", "must"),
    [
        (Folds(), "'protocol.kind' must be another than 'folds'"),
        (Fresh(stratify=True), "'protocol.stratify' must be false"),
        (FixedTest(stratify=True), "'protocol.stratify' must be false"),
    ],
)
def test_where_there_are_no_classes_their_shares_cannot_be_kept(rule: SplitRule, must: str) -> None:
    for task in ("regression", "multilabel"):
        with pytest.raises(ValueError, match=f"{must}, since test has no classes whose shares could be kept: its task is '{task}'"):
            rule.split(labeled([0.0] * 20, task), 0)
    links = Data(x=torch.ones(30, 1), edge_index=torch.stack([torch.arange(29), torch.arange(29) + 1]))
    with pytest.raises(ValueError, match=f"{must}, .*: it asks about links"):
        rule.split(Dataset("test", [links], "binary", 1, "link"), 0)


def test_there_are_no_more_folds_than_graphs() -> None:
    with pytest.raises(ValueError, match=r"'protocol\.num_folds' must be at most 9, what test has to test on \(got 10\)"):
        Folds().split(labeled([0] * 9), 0)


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


@pytest.mark.parametrize(
    ("scaffolds", "part", "shared"),
    [([0] * 9 + [1], "test", "9 of 10"), ([0] * 8 + [1, 1], "val", "8 of 10"), ([0], "train", "1 of 1")],
)
def test_a_scaffold_that_leaves_nothing_to_a_part_is_named(scaffolds: list[int], part: str, shared: str) -> None:
    message = rf"\(got an empty '{part}'\): .*, as do all without a ring, and {shared} share the largest; take kind = \"fresh\""
    with pytest.raises(ValueError, match=message):
        Scaffold().split(molecules(scaffolds), 0)


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
        (Folds, {"num_folds": 1}, r"'protocol\.num_folds' must be at least 2 \(got 1\)"),
        (Folds, {"num_runs": 0}, r"'protocol\.num_runs' must be at least 1"),
        (Folds, {"val": 0.0}, r"'protocol\.val' must be positive"),
        (
            Folds,
            {"num_folds": 2, "val": 0.5},
            r"'protocol\.val' must leave something beside one of 2 folds to learn from \(got 0\.5\)",
        ),
        (Scaffold, {"train": 1.0}, r"'protocol\.train' and 'protocol\.val' must be positive"),
        (Links, {"val": 1.5}, r"'protocol\.val' and 'protocol\.test' must be positive"),
        (Links, {"supervision": 1.0}, r"'protocol\.supervision' must be positive"),
    ],
)
def test_shares_that_leave_nothing_are_refused(kind: type, settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**settings)
