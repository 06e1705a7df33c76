"""Trained models: the weights that a run leaves, and what they answer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from gump.datasets.dataset import Dataset
from gump.experiment.config import complete
from gump.experiment.model import build_model, input_names, predict
from gump.experiment.precision import autocast
from gump.experiment.preprocess import Preparation
from gump.experiment.registry import MODELS, code_of, takes_line_graph
from gump.experiment.saved import read_saved
from gump.experiment.units import units_of
from gump.files import write_atomically

AT_ONCE = 64
"""Graphs in a batch."""

ASKED_AT = {"source": ["source_index"], "link": ["edge_label_index"]}
"""What graphs say about the place that is asked about, by what the answers are about."""


class Trained:
    """A trained model, with what has to be done to graphs before it is asked.

    Args:
        settings: The configuration's tables.
        model: The predictor, with its weights.
        dataset: What it was trained on; of its graphs only the kinds of attributes count. Its ``target_names`` say what the columns of an answer are,
            where that is known.
    """

    def __init__(self, settings: Mapping[str, Any], model: torch.nn.Module, dataset: Dataset) -> None:
        self.settings, self.model, self.dataset = settings, model.eval(), dataset

    def __call__(self, graphs: Sequence[Data], first: int = 0) -> Tensor:
        """The answers to graphs as a loader has them, before transforms: logits, or numbers where it is a regression.

        Where the question is about links, a graph names the pairs that are asked about as ``edge_label_index``. What is random about a transform,
        such as the signs of eigenvectors, depends on the place in the list.

        Args:
            graphs: The graphs.
            first: The place of the first of them, where they are a part of a longer list.
        """
        if isinstance(graphs, Data) or not graphs:
            raise ValueError(f"'graphs' must be a list with a graph at least (got {type(graphs).__name__ if graphs else 'none'})")
        for number, graph in enumerate(graphs, first):  # all of them, before the first takes its time
            self._check_attributes(graph, number)
        answers = []
        for i in range(0, len(graphs), AT_ONCE):
            part = enumerate(graphs[i : i + AT_ONCE], first + i)
            answers.append(self.answer([self.prepare(graph, number) for number, graph in part]))
        return torch.cat(answers)

    def prepare(self, graph: Data, number: int = 0, made: dict[str, Data] | None = None) -> Data:
        """A graph as :meth:`answer` wants it: checked, and with all transforms applied.

        Args:
            graph: The graph, as a loader has it.
            number: Its place in the list.
            made: What was made of this graph before, by the key of its preparation, and where this is put; models that are asked the same share it.
        """
        made = {} if made is None else made
        self._check_attributes(graph, number)
        if self.preparation.key not in made:
            made[self.preparation.key] = self.preparation(graph, number)
        ready = made[self.preparation.key]
        self._check_widths(ready, number)
        return ready

    @torch.no_grad()
    def answer(self, ready: Sequence[Data]) -> Tensor:
        """The answers to graphs that are prepared, in one batch.

        Args:
            ready: What :meth:`prepare` has made of each.
        """
        device = next(self.model.parameters()).device
        batch = Batch.from_data_list(list(ready)).to(device)
        if self.dataset.level == "source":
            batch.answer_index = batch.source_index
        with autocast(self.settings["train"]["precision"], device):
            out = predict(self.model, batch)
        return out.to(torch.promote_types(out.dtype, torch.float32))

    @cached_property
    def preparation(self) -> Preparation:
        """What is done to graphs before the model is asked."""
        line_graph = takes_line_graph(MODELS[self.settings["model"]["kind"]])
        return Preparation(self.settings, line_graph, bool(self.dataset.x_sizes))

    def _check_attributes(self, graph: Data, number: int) -> None:
        """Refuses a graph that lacks what the model asks for."""
        needed = ["x", "edge_index", *(["edge_attr"] if self._reads_edges else []), *ASKED_AT.get(self.dataset.level, [])]
        if lacking := [name for name in needed if graph.get(name) is None]:
            raise ValueError(
                f"graph {number} must have {', '.join(map(repr, needed))}, as those of {self.dataset.name} have (got no {lacking[0]!r})"
            )

    def _check_widths(self, graph: Data, number: int) -> None:
        """Refuses a graph with other features than the model has learned from."""
        widths = {"x": self.dataset.num_features} | ({"edge_attr": self.dataset.num_edge_features} if self._reads_edges else {})
        for name, width in widths.items():
            if graph[name].dim() != 2 or graph[name].size(1) != width:
                raise ValueError(
                    f"graph {number} must have {width} columns in {name!r} after transforms, as those of {self.dataset.name} have (got shape "
                    f"{list(graph[name].shape)})"
                )

    @property
    def _reads_edges(self) -> bool:
        return self.dataset.num_edge_features > 0 and "edge_attr" in input_names(self.model)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.model}, {self.dataset.task} of {self.dataset.level}s like those of {self.dataset.name})"
        )


def save_trained(path: Path, settings: Mapping[str, Any], dataset: Dataset, weights: Mapping[str, Tensor]) -> None:
    """Writes weights with all that :func:`load_trained` needs to build their model; data are not among it.

    Args:
        path: The file.
        settings: The configuration's tables.
        dataset: What the model was trained on, after transforms.
        weights: The state of the model.
    """
    first = dataset[0]
    about = {
        key: getattr(dataset, key) for key in ("name", "task", "num_targets", "level", "x_sizes", "edge_sizes", "target_names")
    }
    widths = {"x": dataset.num_features, "edge_attr": dataset.num_edge_features, "edge_weight": int("edge_weight" in first)}
    buffer = BytesIO()
    state = {"settings": dict(settings), "dataset": about, "widths": widths, "weights": dict(weights), "code": code_of(settings)}
    torch.save(state, buffer)
    write_atomically(path, buffer.getvalue())


def kept_by(path: Path) -> str | None:
    """The rule by which the epoch was chosen whose weights a file holds; ``None`` if there is no such file, or it is damaged."""
    if not path.is_file():
        return None
    try:
        rule: str = _read(path, mmap=True)["settings"]["train"]["select"]
    except ValueError:
        return None
    return rule


def _read(path: str | Path, mmap: bool = False) -> dict[str, Any]:
    """What :func:`save_trained` has written."""
    state = read_saved(path, mmap)
    if state is None or not {"settings", "dataset", "widths", "weights"} <= state.keys():
        raise ValueError(
            f"'path' must be a file of weights that `gump run --keep-weights` has left (got {path}, which is none, or damaged)"
        )
    return state


def load_trained(path: str | Path) -> Trained:
    """Reads what a run has left with ``gump run --keep-weights``: the model, with the weights of the epoch that counts.

    A file holds no code, but may name a model from outside of the library (``module:Class``), whose module is imported then.

    Args:
        path: The file, which lies beside the record (``records/mine/000.pt``).
    """
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"'path' must be a file of weights (got {path}); `gump run --keep-weights` leaves one beside every record"
        )
    state = _read(path)
    widths, settings = state["widths"], complete(state["settings"])
    if state.get("code", "") != code_of(settings):
        warnings.warn(f"{path} had other code of {settings['model']['kind']}, or of a transform, than there is now", stacklevel=2)
    like = Data(x=torch.zeros(1, widths["x"]), edge_index=torch.zeros(2, 0, dtype=torch.long))
    if widths["edge_attr"]:
        like.edge_attr = torch.zeros(0, widths["edge_attr"])
    if widths["edge_weight"]:
        like.edge_weight = torch.zeros(0)
    dataset = Dataset(graphs=[like], **state["dataset"])
    model = build_model(settings, dataset)
    model.load_state_dict(_with_units(state["weights"], dataset.num_targets) if units_of(model) else state["weights"])
    return Trained(settings, model, dataset)


def _with_units(weights: Mapping[str, Tensor], num_targets: int) -> Mapping[str, Tensor]:
    """Weights of a regression as they are now: older ones had the unit of the targets in their last layer."""
    if "head.1.spread" in weights:
        return weights
    renamed = {f"head.0.{key.removeprefix('head.')}" if key.startswith("head.") else key: value for key, value in weights.items()}
    return renamed | {"head.1.mean": torch.zeros(num_targets), "head.1.spread": torch.ones(num_targets)}
