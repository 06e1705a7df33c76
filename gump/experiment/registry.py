"""What the names in a configuration mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch_geometric.transforms import BaseTransform, NormalizeFeatures

from gump import datasets, nn, transforms
from gump.datasets.dataset import Dataset
from gump.experiment.outside import Kinds, outside_code
from gump.nn.models.predictor import POOLS
from gump.transforms.encodings import AddLaplacianEigenvectorPE, AddRandomWalkPE

DATASETS: dict[str, Callable[..., Dataset]] = {
    "fake": datasets.fake_dataset,
    "molhiv": datasets.load_molhiv,
    "peptides": datasets.load_peptides,
    "planetoid": datasets.load_planetoid,
    "smiles": datasets.load_smiles,
    "transfer": datasets.load_transfer,
    "tu": datasets.load_tu,
}
LEVELS = {"planetoid": "node", "transfer": "source"}
"""What the answers are about where it is not graphs; a loader may have a setting ``level`` instead."""

HEADS: dict[str, type[nn.GraphPredictor | nn.NodePredictor | nn.LinkPredictor]] = {
    "graph": nn.GraphPredictor,
    "source": nn.NodePredictor,
    "node": nn.NodePredictor,
    "link": nn.LinkPredictor,
}
MODELS = Kinds(torch.nn.Module, {name: getattr(nn.models, name) for name in nn.models.ENCODERS})
ENCODINGS = {"AddLaplacianEigenvectorPE": AddLaplacianEigenvectorPE, "AddRandomWalkPE": AddRandomWalkPE}
"""Transforms that append to the features."""
TRANSFORMS = Kinds(
    BaseTransform,
    {
        **ENCODINGS,
        "NormalizeFeatures": NormalizeFeatures,
        **{name: getattr(transforms, name) for name in transforms.__all__},
    },
)


def level_of(settings: Mapping[str, Any]) -> str:
    """What the answers of a dataset are about, told from its settings alone."""
    return str(settings.get("level") or LEVELS.get(settings["kind"], "graph"))


def takes_line_graph(model: type[torch.nn.Module]) -> bool:
    """Whether a model wants the line graph of its batch."""
    return "line_graph" in inspect.signature(model.forward).parameters


def code_of(settings: Mapping[str, Any]) -> str:
    """Tells versions of the model and the transforms apart that are not the library's; empty if all are."""
    return outside_code([MODELS[settings["model"]["kind"]], *(TRANSFORMS[table["kind"]] for table in settings["transform"])])


def needs_out_channels(model: type[torch.nn.Module]) -> bool:
    """Whether a model cannot do without being told the width of its output."""
    parameter = inspect.signature(model).parameters.get("out_channels")
    return parameter is not None and parameter.default is parameter.empty


def obstacle_to_replicas(settings: Mapping[str, Any]) -> str:
    """Why runs with these settings cannot be trained side by side as one program, told before anything is read; empty if they can."""
    kind, precision = settings["model"]["kind"], settings["train"]["precision"]
    if level_of(settings["dataset"]) not in ("graph", "node"):
        return "'--replicas' must be left out for questions about links and sources"
    if "mask" not in inspect.signature(MODELS[kind].forward).parameters:
        return f"'model.kind' must be one whose forward takes a mask, to be trained as replicas (got {kind}); leave out --replicas"
    if precision != "32-true":
        return f"'train.precision' must be '32-true' with '--replicas' (got '{precision}')"
    if any(transform["when"] == "batch" for transform in settings["transform"]):
        return "'--replicas' must be left out where a transform has when = \"batch\""
    if settings["model"].get("checkpoint"):
        return "'model.checkpoint' must be false with '--replicas': layers that run side by side cannot be computed again in the backward pass"
    if settings["head"].get("pool") == "max":
        return f"'head.pool' must be one of {', '.join(repr(p) for p in POOLS if p != 'max')} with '--replicas' (got 'max')"
    return ""
