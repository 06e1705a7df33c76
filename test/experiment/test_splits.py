import dataclasses
import math
from typing import Any

import pytest
import torch
from fake_configs import tiny_tables

from gump.datasets import fake_dataset
from gump.experiment.config import make_configs
from gump.experiment.preprocess import TransformedGraphs, prepare
from gump.experiment.protocol import PROTOCOLS, Folds, Fresh, Official
from gump.experiment.splits import Splits
from gump.report.statistics import FIXED


def test_a_split_is_the_protocols_and_its_parts_have_these_sizes() -> None:
    dataset, protocol = fake_dataset(), Fresh(num_runs=2, train=0.5, val=0.2)
    splits = Splits(dataset, protocol)
    for index in range(2):
        assert all(a.equal(b) for a, b in zip(splits[index], protocol.split(dataset, index), strict=True))
        assert splits.sizes(index) == tuple(part.numel() for part in splits[index])
    assert sum(splits.sizes(0)) == len(dataset)


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_split_that_all_runs_have_is_a_part_of_the_data_and_known_to_reports(kind: str) -> None:
    level = "link" if kind == "links" else "graph"
    split = {"train": torch.arange(8), "val": torch.arange(8, 14), "test": torch.arange(14, 20)}
    dataset = dataclasses.replace(fake_dataset(level=level), split=split)
    splits = Splits(dataclasses.replace(dataset, scaffolds=torch.arange(20)), PROTOCOLS[kind](num_runs=2))
    is_fixed = all(a.equal(b) for a, b in zip(splits[0], splits[1], strict=True))
    assert is_fixed == ("split" in splits.made_on) == (kind in FIXED)


def test_targets_have_a_row_for_each_graph() -> None:
    dataset = fake_dataset(task="regression")
    assert Splits(dataset, Fresh()).targets.tolist() == [graph.y.view(-1).tolist() for graph in dataset]


def test_no_graph_is_transformed_to_see_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    late = {"transform": [{"kind": "AddRandomWalkPE", "walk_length": 3, "attr_name": "none", "when": "batch"}]}
    [config] = make_configs("test/late", tiny_tables() | late)
    dataset = prepare(config.settings, line_graph=True)
    assert isinstance(dataset.graphs, TransformedGraphs)
    monkeypatch.setattr(TransformedGraphs, "__getitem__", lambda *_: pytest.fail("transformed"))
    splits = Splits(dataset, Folds(num_folds=4))
    assert splits[0].test.numel() == len(dataset) // 4


def test_a_part_without_anything_is_refused() -> None:
    dataset = dataclasses.replace(
        fake_dataset(), split={"train": torch.arange(8), "val": torch.arange(0), "test": torch.arange(8, 20)}
    )
    with pytest.raises(ValueError, match=r"'protocol' must leave something to every part of fake .*empty 'val'"):
        Splits(dataset, Official())[0]


@pytest.mark.parametrize(
    ("unknown", "message"),
    [
        (range(8), r"0 must have a value in the training set of every run, .*none among 8 in that of run 0"),
        (range(8, 12), r"something that is known to every part of fake \(got no value in 'val' of run 0\)"),
    ],
)
def test_a_part_of_which_nothing_is_known_is_refused(unknown: range, message: str) -> None:
    parts: dict[str, Any] = {"train": torch.arange(8), "val": torch.arange(8, 12), "test": torch.arange(12, 20)}
    dataset = dataclasses.replace(fake_dataset(task="regression"), split=parts)
    assert Splits(dataclasses.replace(dataset), Official()).sizes(0) == (8, 4, 8)
    for number in unknown:
        dataset.graphs[number].y = torch.full_like(dataset.graphs[number].y, math.nan)
    with pytest.raises(ValueError, match=message):
        Splits(dataset, Official())[0]
