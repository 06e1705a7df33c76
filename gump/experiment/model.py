"""From settings to a predictor, and from a batch to its answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from gump.datasets.dataset import Dataset
from gump.experiment.registry import HEADS, MODELS, needs_out_channels
from gump.experiment.settings import blaming
from gump.experiment.training import Training
from gump.experiment.units import Units
from gump.line_graph import EulerianLineGraph
from gump.nn.embedding import CategoricalEmbedding
from gump.nn.models.predictor import takes_batch


class Embedded(torch.nn.Module):
    """An encoder behind embeddings of categorical vertex and edge features.

    Args:
        encoder: What takes the embedded features.
        embedding: Of the columns of ``x``.
        edge_embedding: Of the columns of ``edge_attr``.
    """

    def __init__(
        self, encoder: torch.nn.Module, embedding: torch.nn.Module | None, edge_embedding: torch.nn.Module | None = None
    ) -> None:
        super().__init__()
        self.encoder, self.embedding, self.edge_embedding = encoder, embedding, edge_embedding
        self.out_channels, self.pools = encoder.out_channels, getattr(encoder, "pools", False)
        self._takes_batch = takes_batch(encoder)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in self.children():
            module.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor, edge_index: Tensor, **kwargs: Any) -> Tensor:
        """Embeds, then encodes."""
        if self.edge_embedding is not None and "edge_attr" in kwargs:
            kwargs["edge_attr"] = self.edge_embedding(kwargs["edge_attr"])
        if not self._takes_batch:
            kwargs.pop("batch", None)
        return self.encoder(x if self.embedding is None else self.embedding(x), edge_index, **kwargs)


def build_model(settings: Mapping[str, Any], dataset: Dataset) -> torch.nn.Module:
    """Builds the predictor that a configuration's tables ``model``, ``embedding`` and ``head`` describe, for a dataset."""
    arguments = dict(settings["model"])
    kind = MODELS[arguments.pop("kind")]
    channels = settings["embedding"]["channels"]
    if channels is None:
        channels = arguments.get("hidden_channels")
    embedding = edge_embedding = None
    if dataset.x_sizes:
        if channels is None:
            raise ValueError(f"'embedding.channels' must be given for a model without 'hidden_channels' (got {kind.__name__})")
        embedding = CategoricalEmbedding(dataset.x_sizes, channels, dataset.num_features - len(dataset.x_sizes))
    width, columns, weighted = arguments.get("edge_dim", 0), dataset.num_edge_features, "edge_weight" in dataset[0]
    if width and dataset.edge_sizes:
        edge_embedding = CategoricalEmbedding(dataset.edge_sizes, width)
    elif width not in (0, columns, columns + weighted):  # whether a model counts weights among them is its own matter
        more = ", or one more with their weights" if weighted else ""
        raise ValueError(f"'model.edge_dim' must be the number of edge features of {dataset.name}, {columns}{more} (got {width})")
    if settings["head"]["num_layers"] == 0:
        arguments["out_channels"] = dataset.num_targets
    elif needs_out_channels(kind):
        arguments["out_channels"] = arguments["hidden_channels"]
    with blaming("[model]"):
        encoder: torch.nn.Module = kind(in_channels=channels if embedding else dataset.num_features, **arguments)
    if width and getattr(encoder, "edge_dim", None) != width:
        raise ValueError(
            f"'model.kind' must be one that keeps its 'edge_dim', by which it is given edge attributes (got {kind.__name__})"
        )
    if embedding or edge_embedding:
        encoder = Embedded(encoder, embedding, edge_embedding)
    with blaming("[head]"):
        model = HEADS[dataset.level](encoder, dataset.num_targets, **settings["head"])
    if dataset.task == "regression":
        model.head = torch.nn.Sequential(model.head, Units(dataset.num_targets))
    return model


def parts_with_rates(model: torch.nn.Module) -> dict[str, list[torch.nn.Parameter]]:
    """The parameters by what their learning rate is called: ``"base"``, embeddings and what the encoder calls its base, ``"coin"``, and the rest,
    ``""``; without parts that are empty."""
    outer, encoder = model.encoder, bare_encoder(model)
    embeddings = (outer.embedding, outer.edge_embedding) if isinstance(outer, Embedded) else ()
    base = [p for module in embeddings if module is not None for p in module.parameters()]
    parts = {"base": [*base, *_named_by(encoder, "base_parameters")], "coin": _named_by(encoder, "coin_parameters")}
    named = {p for part in parts.values() for p in part}
    parts[""] = [p for p in model.parameters() if p not in named]
    return {part: parameters for part, parameters in parts.items() if parameters}


def check_rates(model: torch.nn.Module, training: Training) -> None:
    """Refuses a rate of its own for a part that the model has not, and parts that are not made of its parameters, each once."""
    parts, name = parts_with_rates(model), type(bare_encoder(model)).__name__
    for part in ("base", "coin"):
        for setting in (f"{part}_lr", f"{part}_weight_decay"):
            if part not in parts and (value := getattr(training, setting)) is not None:
                raise ValueError(
                    f"'train.{setting}' must be left out where a model has no {part} parameters (got {value} for this {name}); "
                    f"a model of your own names them by {part}_parameters()"
                )
    listed = [parameter for parameters in parts.values() for parameter in parameters]
    if len(set(listed)) < len(listed) or set(listed) != set(model.parameters()):
        raise ValueError(
            f"'base_parameters' and 'coin_parameters' of {name} must return parameters of the model, none of them twice"
        )


def _named_by(encoder: Any, method: str) -> list[torch.nn.Parameter]:
    """What a method of the encoder returns; nothing if it has no such method."""
    if not hasattr(encoder, method):
        return []
    named = getattr(encoder, method)
    named = named() if callable(named) else named
    named = list(named) if isinstance(named, Iterable) else [named]
    if not all(isinstance(parameter, torch.nn.Parameter) for parameter in named):
        raise ValueError(f"'{method}' of {type(encoder).__name__} must be a method that returns parameters (got {named})")
    return named


def bare_encoder(model: torch.nn.Module) -> torch.nn.Module:
    """The model of :mod:`gump.nn.models` inside a predictor."""
    encoder: Any = model.encoder
    return encoder.encoder if isinstance(encoder, Embedded) else encoder


def penalty(model: torch.nn.Module) -> Tensor | None:
    """What a predictor's encoder adds to the training loss, its ``regularization()``; ``None`` if it has no such method."""
    encoder: Any = bare_encoder(model)
    return encoder.regularization() if hasattr(encoder, "regularization") else None


def predict(model: torch.nn.Module, batch: Data) -> Tensor:
    """A predictor's answers to a batch, in the order of ``batch.y``."""
    out = model(**_inputs(getattr(model, "module", model), batch))
    return out if "answer_index" not in batch else out.index_select(0, batch.answer_index)


def input_names(model: Any) -> frozenset[str]:
    """What a predictor's or its encoder's ``forward`` names; edge attributes only if it has a width for them."""
    encoder = bare_encoder(model)
    own = _arguments(type(encoder).forward)
    names = _arguments(type(model).forward) - {"mask"} | own
    return names if getattr(encoder, "edge_dim", 0) else names - {"edge_attr"}


def _inputs(model: Any, batch: Data) -> dict[str, Any]:
    """What a batch has of what a predictor takes."""
    names = input_names(model)
    inputs = {name: batch[name] for name in names if batch.get(name) is not None}
    if "line_graph" in names and "arc_index" in batch:
        inputs["line_graph"] = EulerianLineGraph.from_data(batch)
    if "num_graphs" in names and isinstance(batch, Batch):
        inputs["num_graphs"] = batch.num_graphs
    return inputs


@cache
def _arguments(forward: Callable[..., Any]) -> frozenset[str]:
    parameters = inspect.signature(forward).parameters.values()
    return frozenset(p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)) - {"self"}
