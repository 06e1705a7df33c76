"""Many models of one kind, stacked into one that runs them side by side."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state

from gump.experiment.model import input_names, penalty
from gump.experiment.padded import PaddedBatch
from gump.experiment.summed_in_parts import parts_for
from gump.experiment.task import Task
from gump.experiment.units import Units
from gump.line_graph import EulerianLineGraph


class Replicas:
    """Stacked models: every parameter has a first dimension for the replicas.

    The models themselves run unchanged, once for all replicas, under ``torch.func.vmap``.

    Args:
        models: Predictors of one architecture, on their device. Their weights are copied.
    """

    def __init__(self, models: Sequence[torch.nn.Module]) -> None:
        self.model, self.names = models[0], input_names(models[0])
        if "mask" not in self.names:
            raise ValueError(
                f"'model.kind' must be one whose forward takes a mask, to be trained as replicas (got {type(models[0].encoder).__name__}); "
                "leave out --replicas"
            )
        self.num_replicas = len(models)
        self._penalty = None if penalty(models[0]) is None else _Penalty(models[0])
        caveats = {getattr(module, "SIDE_BY_SIDE", "") for module in self.model.modules()} - {""}
        self.caveat = "".join(f" ({caveat})" for caveat in sorted(caveats))
        parameters, buffers = stack_module_state(list(models))
        self.parameters: dict[str, Tensor] = {key: value.detach().requires_grad_() for key, value in parameters.items()}
        self.buffers: dict[str, Tensor] = buffers

    def __call__(self, batch: PaddedBatch) -> Tensor:
        """The answers of every replica to its own batch, :math:`(R, B, F)`."""
        columns = torch.arange(batch.reverse.size(-1), device=batch.reverse.device)
        edge_inputs = {name: value for name, value in batch.edges.items() if name in self.names}
        num_graphs = {"num_graphs": batch.num_graphs} if "num_graphs" in self.names else {}

        def run(parameters: dict[str, Tensor], buffers: dict[str, Tensor], *tensors: Tensor) -> Tensor:
            x, arcs, reverse, graph, mask, *edges = tensors
            given: dict[str, Any] = dict(zip(edge_inputs, edges, strict=True))
            if wanted := self.names & {"line_graph", "sorted_edges"}:
                listed = torch.ones_like(reverse, dtype=torch.bool)
                line_graph = EulerianLineGraph(arcs, reverse, x.size(0), batch.block_sizes, columns, listed)
                given |= dict.fromkeys(wanted, line_graph)
            given |= {"batch": graph, "mask": mask, **num_graphs}
            return functional_call(self.model, (parameters, buffers), (x, arcs), given)

        tensors = (batch.x, batch.arcs, batch.reverse, batch.batch, batch.mask, *edge_inputs.values())
        with parts_for(self.num_replicas, batch.x.device):
            out: Tensor = torch.vmap(run, randomness="different")(self.parameters, self.buffers, *tensors)
        return out if batch.answers is None else out.gather(1, batch.answers.unsqueeze(-1).expand(-1, -1, out.size(-1)))

    def losses(self, task: Task, out: Tensor, y: Tensor) -> Tensor:
        """The loss of every replica's answers, :math:`(R)`."""
        units = [self.buffers[f"{name}.spread"] for name, module in self.model.named_modules() if isinstance(module, Units)]
        return torch.vmap(task.loss)(out, y, *units)

    def penalties(self) -> Tensor | float:
        """What every replica adds to its training loss, :math:`(R)`, or zero where models have no such penalty."""
        module = self._penalty
        if module is None:
            return 0.0

        def run(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
            state = {f"model.{key}": value for key, value in (parameters | buffers).items()}
            return functional_call(module, state, ())

        out: Tensor = torch.vmap(run)(self.parameters, self.buffers)
        return out

    def only(self, rows: Tensor) -> Replicas:
        """Some of the replicas, with copies of their weights.

        Args:
            rows: Their numbers, on the device.
        """
        some = copy.copy(self)
        some.num_replicas = rows.numel()
        some.parameters = {key: value.detach()[rows].requires_grad_() for key, value in self.parameters.items()}
        some.buffers = {key: value[rows] for key, value in self.buffers.items()}
        return some

    def state_dict(self, replica: int) -> dict[str, Tensor]:
        """The weights of one replica, as its model alone would have them."""
        stacked = self.parameters | self.buffers
        return {key: stacked[key][replica].detach().clone() for key in self.model.state_dict()}


class _Penalty(torch.nn.Module):
    """A model's penalty as a forward pass, which is what weights can be handed to."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self) -> Tensor | None:
        return penalty(self.model)
