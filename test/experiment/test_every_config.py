"""Every configuration that is shipped loads, builds its model and takes a step."""

import json
import math
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from graphs import grid
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from gump.datasets.dataset import Dataset
from gump.datasets.molecule import ATOM_SIZES, BOND_SIZES
from gump.experiment import preprocess
from gump.experiment.config import Config, build, load_config
from gump.experiment.feed import Feed, GraphFeed, LinkFeed, NodeFeed
from gump.experiment.model import build_model
from gump.experiment.protocol import Links, Split
from gump.experiment.registry import DATASETS, MODELS, takes_line_graph
from gump.experiment.store import GraphStore
from gump.experiment.task import TASKS
from gump.experiment.trainer import Trainer
from gump.nn import PRESETS

FOLDER = Path(__file__).parents[2] / "configs"
PATHS = [path.relative_to(FOLDER).as_posix() for path in sorted(FOLDER.rglob("*.toml"))]
MOLECULES = {
    "functional": ("multilabel", 10),
    "structural": ("regression", 11),
    "descriptors": ("regression", 5),
    "hiv": ("binary", 1),
}
NUM_GRAPHS, NUM_NODES = 4, 150


def molecules(target: str = "hiv") -> Dataset:
    """Graphs with the categories of molecules at random, which answer the questions of the datasets that take minutes to read."""
    task, num_targets = MOLECULES[target]
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for width in range(2, 2 + NUM_GRAPHS):
        edges, num_nodes = grid(3, width)
        edge_index = to_undirected(edges)
        x, edge_attr = (
            torch.stack([torch.randint(size, (rows,), generator=generator) for size in sizes], dim=1)
            for sizes, rows in ((ATOM_SIZES, num_nodes), (BOND_SIZES, edge_index.size(1)))
        )
        y = torch.rand(1, num_targets, generator=generator)
        graphs.append(Data(x=x, edge_index=edge_index, edge_attr=edge_attr, y=y if task == "regression" else y.round()))
    return Dataset(f"random {target}", graphs, task, num_targets, x_sizes=ATOM_SIZES, edge_sizes=BOND_SIZES)


@cache
def real(kind: str, settings: str, root: Path) -> Dataset:
    """A few graphs of a dataset, or a piece of its only one."""
    dataset = DATASETS[kind](root=root, cache=False, **json.loads(settings))
    if dataset.level in ("node", "link"):
        return replace(dataset, graphs=[dataset[0].subgraph(torch.arange(NUM_NODES))])
    return replace(dataset, graphs=dataset[:NUM_GRAPHS])


def few_graphs(settings: dict[str, Any], root: Callable[[], Path]) -> Dataset:
    kind, rest = settings["kind"], {key: value for key, value in settings.items() if key != "kind"}
    if kind in ("peptides", "molhiv"):
        return molecules(**rest)
    if kind not in ("transfer", "fake"):
        return real(kind, json.dumps(rest), root())
    dataset: Dataset = build(settings, DATASETS)
    return replace(dataset, graphs=dataset[:NUM_GRAPHS])


def one_step(config: Config, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> Trainer:
    """Goes the whole road, with a dataset put in the place of the configuration's."""
    monkeypatch.setattr(
        preprocess, "build", lambda table, kinds, **given: dataset if kinds is DATASETS else build(table, kinds, **given)
    )
    line_graph = takes_line_graph(MODELS[config.settings["model"]["kind"]])
    prepared = preprocess.prepare(config.settings, line_graph)
    if prepared.level == "link":
        feed: Feed = LinkFeed(prepared, Links().split(prepared, 0), 0, line_graph, torch.device("cpu"))
    elif prepared.level == "node":
        feed = NodeFeed(prepared[0], Split(*[torch.arange(NUM_NODES)] * 3), torch.device("cpu"))
    else:
        feed = GraphFeed(GraphStore(prepared.graphs), Split(*[torch.arange(len(prepared))] * 3), len(prepared), prepared.level)
    torch.manual_seed(0)
    return Trainer(build_model(config.settings, prepared), feed, TASKS[prepared.task], config.training)


def test_there_are_configurations() -> None:
    assert "tu/mutag_gin_gump.toml" in PATHS


@pytest.mark.parametrize("path", PATHS)
def test_it_loads(path: str) -> None:
    configs = load_config(FOLDER / path)
    assert all(config.name == path.removesuffix(".toml") for config in configs)
    assert len({config.variant for config in configs}) == len(configs)
    for published in [configs[0].published, *configs[0].published.get("others", [])]:
        assert set(published) <= {"value", "interval", "source", "others"}
        assert all(isinstance(published[key], int | float) for key in ("value", "interval") if key in published)
        assert published.get("source") or "value" not in published


@pytest.mark.parametrize("path", PATHS)
def test_its_epoch_is_selected_as_its_benchmark_or_the_code_that_it_follows_has_it(path: str) -> None:
    training = load_config(FOLDER / path)[0].training
    if path.startswith(("lrgb/", "ogb/", "search/peptides")):
        assert training.select == "metric"
    else:
        calm = training.schedule == "cosine" or training.average is not None  # a rate that ends at zero, or an average of steps
        searched = path.startswith(("search/", "best/", "attributes/", "encodings/", "coins/"))
        until_the_end = training.threshold > 1 or (calm and searched)  # FoSR's rule is the first
        assert training.select == ("last" if until_the_end else "loss")


@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith("paper/")])
def test_the_paper_to_the_letter_is_its_preset_at_the_depths_and_rates_of_the_table(path: str) -> None:
    (usual,) = load_config(FOLDER / path.replace("paper/", "tu/").replace("_fixed_test", ""))
    for config in load_config(FOLDER / path):
        assert config.settings["model"] == usual.settings["model"] | PRESETS["paper"]
        assert config.training == usual.training


@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith("tu/") and "_coin_rate" in path])
def test_the_other_reading_of_the_rates_is_the_first_with_the_rate_of_gump_for_coins_alone(path: str) -> None:
    [config], [usual] = load_config(FOLDER / path), load_config(FOLDER / path.replace("_coin_rate", ""))
    assert config.settings["model"] == usual.settings["model"]
    rates = usual.training
    assert config.training == replace(
        rates,
        lr=rates.base_lr,
        weight_decay=rates.base_weight_decay,
        base_lr=None,
        base_weight_decay=None,
        coin_lr=rates.lr,
        coin_weight_decay=rates.weight_decay,
    )


@pytest.mark.parametrize("path", PATHS)
def test_it_takes_a_step(path: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = load_config(FOLDER / path)
    for config in configs[:: max(len(configs) - 1, 1)]:  # the first and the last of a sweep
        dataset = few_graphs(config.settings["dataset"], lambda: request.getfixturevalue("data_root"))
        trainer = one_step(config, dataset, monkeypatch)
        before = [parameter.detach().clone() for parameter in trainer.module.parameters()]
        assert math.isfinite(trainer._train_epoch())
        after = list(trainer.module.parameters())
        assert all(parameter.isfinite().all() for parameter in after)
        assert any(not a.equal(b) for a, b in zip(before, after, strict=True)) or config.training.warmup > 0
        if path.startswith("lrgb/"):
            assert sum(parameter.numel() for parameter in after) <= 500_000


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith(("ogb/", "lrgb/peptides_func", "lrgb/peptides_desc"))])
def test_it_takes_a_step_on_real_molecules(path: str, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUMP_DATA", os.fspath(data_root))
    [config] = load_config(FOLDER / path)
    settings = dict(config.settings["dataset"])
    trainer = one_step(config, real(settings.pop("kind"), json.dumps(settings), data_root), monkeypatch)
    assert math.isfinite(trainer._train_epoch())
