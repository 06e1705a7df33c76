"""What the names in a configuration mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch_geometric.transforms import AddLaplacianEigenvectorPE, AddRandomWalkPE, BaseTransform, NormalizeFeatures

from gump import datasets, nn, transforms
from gump.datasets.dataset import Dataset

DATASETS: dict[str, Callable[..., Dataset]] = {
    "fake": datasets.fake_dataset,
    "molhiv": datasets.load_molhiv,
    "peptides": datasets.load_peptides,
    "planetoid": datasets.load_planetoid,
    "transfer": datasets.load_transfer,
    "tu": datasets.load_tu,
}
LEVELS = {"planetoid": "node", "transfer": "source"}
"""What the answers are about where it is not graphs; a loader may have a setting ``level`` instead."""

HEADS: dict[str, type[torch.nn.Module]] = {
    "graph": nn.GraphPredictor,
    "source": nn.NodePredictor,
    "node": nn.NodePredictor,
    "link": nn.LinkPredictor,
}
MODELS: dict[str, type[torch.nn.Module]] = {name: getattr(nn.models, name) for name in nn.models.ENCODERS}
TRANSFORMS: dict[str, type[BaseTransform]] = {
    "AddLaplacianEigenvectorPE": AddLaplacianEigenvectorPE,
    "AddRandomWalkPE": AddRandomWalkPE,
    "NormalizeFeatures": NormalizeFeatures,
    **{name: getattr(transforms, name) for name in transforms.__all__},
}


def level_of(settings: Mapping[str, Any]) -> str:
    """What the answers of a dataset are about, told from its settings alone."""
    return str(settings.get("level") or LEVELS.get(settings["kind"], "graph"))


def takes_line_graph(model: type[torch.nn.Module]) -> bool:
    """Whether a model wants the line graph of its batch."""
    return "line_graph" in inspect.signature(model.forward).parameters


def can_be_replicas(settings: Mapping[str, Any]) -> bool:
    """Whether runs with these settings can be trained side by side as one program, told before anything is read."""
    return (
        level_of(settings["dataset"]) in ("graph", "node")
        and "mask" in inspect.signature(MODELS[settings["model"]["kind"]].forward).parameters
        and settings["train"].get("precision", "32-true") == "32-true"
        and all(transform.get("when") != "batch" for transform in settings["transform"])
    )
