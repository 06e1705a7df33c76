"""Steps on padded batches, recorded as CUDA graphs and replayed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from gump.experiment.padded import Layout, PaddedBatch

SPARE = 1.05
"""How much more room the largest layout gets than was needed when it was made, so that it lasts."""

QUANTILES = (0.5, 0.85, 1.0)
"""The shares of the batches for which there is a layout, from the smallest."""


class ReplicaStore(Protocol):
    """What batches are assembled from: graphs, or the vertices of one graph, by their numbers."""

    device: torch.device
    degrees: tuple[int, ...]

    def layout(self, index: Tensor) -> Layout:
        """The room that some batches need."""
        ...

    def batch(self, index: Tensor, layout: Layout) -> PaddedBatch:
        """Assembles a batch for each replica."""
        ...

    def chunks(self, index: Tensor, size: int) -> list[Tensor]:
        """Divides the last dimension of an index into batches of at most this size, if there is a choice."""
        ...

    def targets(self, index: Tensor) -> Tensor:
        """The answers that are asked for."""
        ...


class Step(NamedTuple):
    """What is done with a batch, given the numbers of its graphs or vertices on the device and the layout; and the tensors that doing it changes."""

    run: Callable[[Tensor, Layout], Tensor]
    changes: Sequence[Tensor] = ()


class RecordedSteps:
    """Runs steps on what a store holds, each recorded when it first meets a layout and replayed from then on.

    Batches are padded to one of a few layouts, smaller and larger ones, so that few recordings serve them all with little padding. All recordings
    share their memory, so what a step returns is to be used before the next one runs.

    Args:
        steps: The steps by name. One that is recorded may not wait for the device, nor replace the tensors that it changes.
        store: The graphs.
        record: Whether to record, which needs a GPU; otherwise a step is run as it is.
    """

    def __init__(self, steps: Mapping[str, Step], store: ReplicaStore, record: bool) -> None:
        self.steps, self.store, self.record = steps, store, record
        self.layouts: dict[tuple[str, int], list[Layout]] = {}
        self._recorded: dict[tuple[str, int, Layout], _Recorded] = {}
        self._pool: Any = None

    def has_room(self, name: str) -> bool:
        """Whether there are layouts for a step."""
        return any(known == name for known, _ in self.layouts)

    def make_room(self, name: str, chunks: Iterable[Tensor]) -> None:
        """Finds layouts for batches of a step, those of one size together; where there are some, the largest grows if it must.

        Args:
            name: The step.
            chunks: The batches, as the step will be given them.
        """
        needs: dict[int, list[Layout]] = {}
        for chunk in chunks:
            needs.setdefault(chunk.size(1), []).append(self.store.layout(chunk))
        for size, of_size in needs.items():
            layouts = self.layouts.setdefault((name, size), [])
            if not layouts:
                of_size.sort(key=lambda layout: layout.num_arcs)
                for share in QUANTILES:
                    held = of_size[: max(round(share * len(of_size)), 1)]
                    layouts.append(functools.reduce(Layout.joined, held).larger(SPARE if share == 1 else 1.0))
            need = functools.reduce(Layout.joined, of_size)
            if not layouts[-1].holds(need):
                layouts[-1] = need.larger(SPARE).joined(layouts[-1])
                self.forget()  # all of them, since a larger one finds no room in the memory of smaller ones

    def forget(self) -> None:
        """Drops all recordings, with their memory. Layouts stay."""
        self._recorded.clear()
        self._pool = None

    def state_dict(self) -> list[tuple[str, int, list[tuple[int, ...]]]]:
        """The layouts. What dropout draws depends on them, so a run that goes on needs those that it had."""
        return [(name, size, [layout.capacity for layout in layouts]) for (name, size), layouts in self.layouts.items()]

    def load_state_dict(self, state: Iterable[tuple[str, int, list[tuple[int, ...]]]]) -> None:
        """Takes the layouts that were."""
        self.layouts = {(name, size): [Layout(self.store.degrees, tuple(room)) for room in rooms] for name, size, rooms in state}
        self.forget()

    def __call__(self, name: str, index: Tensor) -> Tensor:
        """Runs a step on a batch for which room was made.

        Args:
            name: The step.
            index: Numbers of graphs or vertices, on the host, one batch for each replica.

        Shapes:
            - **index:** :math:`(R, B)`
        """
        step, size = self.steps[name], index.size(1)
        need = self.store.layout(index)
        layout, *larger = (layout for layout in self.layouts[name, size] if layout.holds(need))
        if not self.record:
            return step.run(index.to(self.store.device), layout)
        if (name, size, layout) not in self._recorded:
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            for each in [*reversed(larger), layout]:  # the largest first, in whose memory the others then find room
                if (name, size, each) not in self._recorded:
                    self._recorded[name, size, each] = _Recorded(step, index.to(self.store.device), each, self._pool)
        return self._recorded[name, size, layout](index)


def can_be_recorded(model: torch.nn.Module) -> bool:
    """Whether no module of a model says ``waits_for_device``: that it looks at numbers to decide what to do."""
    return not any(getattr(module, "waits_for_device", False) for module in model.modules())


@functools.cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """Where steps warm up. One for all, since cuBLAS keeps memory of its own for every stream that it has seen."""
    return torch.cuda.Stream(device)


class _Recorded:
    """A step as a CUDA graph: run a few times to warm up, recorded once, then replayed on other batches of the same layout."""

    def __init__(self, step: Step, index: Tensor, layout: Layout, pool: Any) -> None:
        self.index = index.clone()
        before, drawn = [tensor.clone() for tensor in step.changes], torch.cuda.get_rng_state(index.device)
        stream = _side_stream(index.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                step.run(self.index, layout)
        torch.cuda.current_stream().wait_stream(stream)
        for tensor, copy in zip(step.changes, before, strict=True):
            tensor.copy_(copy)
        torch.cuda.set_rng_state(drawn, index.device)  # so that it makes no difference when a step is recorded
        torch.cuda.empty_cache()  # of what the first runs took, which recordings cannot use
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.out = step.run(self.index, layout)

    def __call__(self, index: Tensor) -> Tensor:
        """Runs the step on other graphs."""
        self.index.copy_(index, non_blocking=True)
        self.graph.replay()
        return self.out
