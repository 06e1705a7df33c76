"""A copy of a model to measure, so that the model stays as it is."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import Tensor

Model = TypeVar("Model")


def twin(model: Model) -> Model:
    """Copies a model in the mode in which it is, since a batch norm in training mode learns from what it is shown.

    A result that the model keeps as an attribute of one of its modules is copied without what it was computed from, which torch refuses to
    copy. What is no module is copied as Python does: a function is its own twin.

    Args:
        model: The model.

    Example:
        >>> model = torch.nn.BatchNorm1d(1)
        >>> _ = twin(model)(torch.ones(2, 1))
        >>> model.running_mean
        tensor([0.])
    """
    modules = model.modules() if isinstance(model, torch.nn.Module) else ()
    results = [value for module in modules for value in vars(module).values() if isinstance(value, Tensor) and not value.is_leaf]
    try:
        return copy.deepcopy(model, {id(result): result.detach().clone() for result in results})
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"'model' must be one that copy.deepcopy copies (got {type(model).__name__}: {error}); let it not keep what it computes"
        ) from error
