"""How a model is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gump.experiment.precision import PRECISIONS
from gump.record import RULES

PER_REPLICA = (
    "lr",
    "weight_decay",
    "base_lr",
    "base_weight_decay",
    "coin_lr",
    "coin_weight_decay",
    "plateau_factor",
    "plateau_patience",
    "patience",
    "monitor",
    "threshold",
    "stop_at",
    "stop_after",
    "select",
)
"""The settings that each of several runs can have for itself when they are trained side by side."""


@dataclass(frozen=True)
class Training:
    """How a model is trained: the ``train`` table of a configuration.

    Args:
        epochs: The most epochs.
        batch_size: Graphs in a batch.
        lr: Learning rate.
        weight_decay: Added to the gradient (Adam) or taken off the weights (AdamW).
        base_lr: Learning rate of the base GNN and of embeddings, if it differs.
        base_weight_decay: Their weight decay, if it differs.
        coin_lr: Learning rate of the attention scores that coins are made of, if it differs.
        coin_weight_decay: Their weight decay, if it differs.
        optimizer: ``"adam"`` or ``"adamw"``.
        schedule: ``"cosine"`` falls to zero at the last epoch, ``"plateau"`` lowers the rate when the validation loss no longer falls,
            ``"plateau_train"`` when the training loss does not.
        warmup: Epochs in which the rate rises, for ``"cosine"``.
        plateau_factor: What the rate is multiplied with.
        plateau_patience: Epochs without progress that are let pass before that; one more lowers the rate.
        clip: The largest norm of the gradient.
        average: The share that every step keeps of a running average of the weights, such as 0.99, see
            :class:`gump.experiment.running_average.RunningAverage`. The average is what is judged, on validation and test, and kept; training goes on
            from the weights themselves. By default there is none.
        patience: Epochs without progress on ``monitor`` that are let pass; after one more training stops.
        monitor: What ``patience`` looks at on validation: ``"loss"`` or ``"metric"``.
        threshold: By what factor it must improve to count as progress.
        stop_at: A validation measure that is good enough: training stops once it is reached.
        stop_after: For how many epochs in a row it must be.
        repeats: How often an epoch goes through the training set.
        select: Which epoch's number counts, ``"loss"``, ``"metric"`` or ``"last"``. Training is the same whichever it is, and records hold all three.
        precision: Of the arithmetic, by Lightning Fabric's name: ``"32-true"``, ``"bf16-mixed"``, in which weights stay in single precision and
            products are rounded, ``"64-true"`` or ``"bf16-true"``. Models on arcs have the first two.
        deterministic: Whether to ask torch for algorithms that repeat bit for bit, where it has them.
    """

    epochs: int = 100
    batch_size: int = 64
    lr: float = 1e-3
    weight_decay: float = 0.0
    base_lr: float | None = None
    base_weight_decay: float | None = None
    coin_lr: float | None = None
    coin_weight_decay: float | None = None
    optimizer: str = "adam"
    schedule: str | None = None
    warmup: int = 0
    plateau_factor: float = 0.1
    plateau_patience: int = 10
    clip: float | None = None
    average: float | None = None
    patience: int | None = None
    monitor: str = "loss"
    threshold: float = 1.0
    stop_at: float | None = None
    stop_after: int = 3
    repeats: int = 1
    select: str = "loss"
    precision: str = "32-true"
    deterministic: bool = True

    def __post_init__(self) -> None:
        choices = {
            "optimizer": ("adam", "adamw"),
            "schedule": (None, "cosine", "plateau", "plateau_train"),
            "monitor": ("loss", "metric"),
            "select": RULES,
            "precision": PRECISIONS,
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ValueError(f"'train.{name}' must be one of {known} (got {getattr(self, name)!r})")
        for name in ("epochs", "batch_size", "repeats", "stop_after"):
            if getattr(self, name) < 1:
                raise ValueError(f"'train.{name}' must be at least 1 (got {getattr(self, name)})")
        for name in (
            "lr",
            "weight_decay",
            "base_lr",
            "base_weight_decay",
            "coin_lr",
            "coin_weight_decay",
            "clip",
            "warmup",
            "patience",
            "plateau_patience",
            "threshold",
        ):
            if (value := getattr(self, name)) is not None and not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"'train.{name}' must be finite and not negative (got {value})")
        if not 0 <= self.plateau_factor < 1:
            raise ValueError(f"'train.plateau_factor' must be at least 0 and below 1 (got {self.plateau_factor})")
        if self.clip == 0:
            raise ValueError("'train.clip' must be above 0, or 'none' for no clipping (got 0)")
        if self.average is not None and not 0 < self.average < 1:
            raise ValueError(f"'train.average' must be between 0 and 1, or 'none' for no average (got {self.average})")
        if self.stop_at is not None and not math.isfinite(self.stop_at):
            raise ValueError(f"'train.stop_at' must be finite (got {self.stop_at})")

    def rates(self, part: str = "") -> tuple[float, float]:
        """Learning rate and weight decay of a part of the model, ``"base"`` or ``"coin"``, or of the rest."""
        own = {"base": (self.base_lr, self.base_weight_decay), "coin": (self.coin_lr, self.coin_weight_decay)}
        lr, weight_decay = own.get(part, (None, None))
        return self.lr if lr is None else lr, self.weight_decay if weight_decay is None else weight_decay


def cosine(training: Training, epoch: int) -> float:
    """What the learning rate is multiplied with in an epoch, counted from zero, by the ``"cosine"`` schedule; one for all others."""
    if training.schedule != "cosine":
        return 1.0
    if epoch < training.warmup:
        return (epoch + 1) / (training.warmup + 1)
    return 0.5 * (1 + math.cos(math.pi * (epoch - training.warmup) / max(training.epochs - training.warmup, 1)))


def shared(train: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a ``train`` table that runs must have in common to be trained side by side."""
    return {key: value for key, value in train.items() if key not in PER_REPLICA}
