"""Every model takes a step on every kind of dataset that it supports, on the road that a configuration takes."""

import inspect
import math
from typing import Any

import pytest
import torch
from fake_configs import tiny_tables

from gump.experiment.config import Config, make_configs
from gump.experiment.feed import Feed, GraphFeed, LinkFeed, NodeFeed
from gump.experiment.model import build_model
from gump.experiment.preprocess import prepare
from gump.experiment.protocol import Links, Split
from gump.experiment.registry import MODELS, takes_line_graph
from gump.experiment.store import GraphStore
from gump.experiment.task import TASKS
from gump.experiment.trainer import Trainer

KINDS: dict[str, dict[str, Any]] = {
    "graph classification": {},
    "graph regression": {"task": "regression"},
    "answers at a source": {"level": "source"},
    "node classification": {"level": "node"},
    "link prediction": {"level": "link"},
    "molecules": {"task": "multilabel", "categorical": True, "edge_features": True, "missing": 0.2},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "DRewGCN": {"transform": [{"kind": "AddHops", "max_distance": 2}]},
    "Exphormer": {"transform": [{"kind": "AddExpander"}], "heads": 2},
    "GPS": {"heads": 2},
    "GRIT": {"transform": [{"kind": "AddRRWP", "num_steps": 3}], "num_steps": 3, "heads": 2},
    "GraphMLPMixer": {"transform": [{"kind": "AddPatches", "num_patches": 4, "method": "bfs"}], "num_patches": 4},
    "GraphViT": {"transform": [{"kind": "AddPatches", "num_patches": 4, "method": "bfs"}], "heads": 2},
    "KGCNSSM": {"transform": [{"kind": "AddHops", "max_distance": 2}]},
}
"""What a model needs besides its width and depth."""

LINKS = {"Exphormer": {"expander": False}}
"""What a model needs where transforms, which would see the answers, are not allowed."""

BONDS = {name: {"edge_dim": 3} for name, model in MODELS.items() if "edge_dim" in inspect.signature(model).parameters}
BONDS["GPS"] |= {"conv": "gine"}
"""What a model needs to read edge attributes, if it can."""


def supported(name: str, kind: str) -> bool:
    pools, transformed = getattr(MODELS[name], "pools", False), "transform" in SETTINGS.get(name, {}) and name not in LINKS
    return {
        "link prediction": not pools and not transformed,
        "node classification": not pools,
        "answers at a source": not pools,
    }.get(kind, True)


CASES = [(name, kind) for name in MODELS for kind in KINDS if supported(name, kind)]


def config_of(name: str, kind: str) -> Config:
    model = {"kind": name, "hidden_channels": 8} | SETTINGS.get(name, {}) | (BONDS.get(name, {}) if kind == "molecules" else {})
    transforms = model.pop("transform", [])
    if kind == "link prediction":
        model, transforms = model | LINKS.get(name, {}), []
    return make_configs("test/tiny", tiny_tables(dataset=KINDS[kind], model=model) | {"transform": transforms})[0]


def trainer_of(config: Config) -> Trainer:
    line_graph, device = takes_line_graph(MODELS[config.settings["model"]["kind"]]), torch.device("cpu")
    dataset = prepare(config.settings, line_graph)
    torch.manual_seed(0)
    if dataset.level == "link":
        feed: Feed = LinkFeed(dataset, Links().split(dataset, 0), 0, line_graph, device)
    else:
        assert dataset.split is not None
        split = Split(*(dataset.split[part] for part in ("train", "val", "test")))
        graphs = GraphStore(dataset.graphs)
        feed = NodeFeed(dataset[0], split, device) if dataset.level == "node" else GraphFeed(graphs, split, 8, dataset.level)
    return Trainer(build_model(config.settings, dataset), feed, TASKS[dataset.task], config.training)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_it_takes_a_step(name: str, kind: str) -> None:
    trainer = trainer_of(config_of(name, kind))
    before = {key: parameter.detach().clone() for key, parameter in trainer.module.module.named_parameters()}
    assert math.isfinite(trainer._train_epoch())
    after = dict(trainer.module.module.named_parameters())
    assert all(parameter.isfinite().all() for parameter in after.values())
    moved = {key for key in after if not after[key].equal(before[key])}
    assert {key.split(".")[0] for key in moved} == {key.split(".")[0] for key in after}
    if kind == "molecules":
        assert any("edge_embedding" in key for key in moved) == (name in BONDS)


def test_what_a_model_does_not_support_is_known() -> None:
    missing = {(name, kind) for name in MODELS for kind in KINDS} - set(CASES)
    of_patches = {"GraphMLPMixer", "GraphViT"}
    assert {name for name, _ in missing} == of_patches | {"DRewGCN", "GRIT", "KGCNSSM"}
    assert {kind for name, kind in missing if name not in of_patches} == {"link prediction"}
