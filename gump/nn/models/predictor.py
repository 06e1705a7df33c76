"""Heads: an encoder's vertex representations become answers about graphs, vertices or pairs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MLP, global_add_pool, global_max_pool, global_mean_pool
from torch_geometric.nn.inits import reset

from gump.nn.arguments import can_look, check_counts
from gump.nn.rows import add_rows

POOLS: dict[str, tuple[Callable[..., Tensor], Callable[[Tensor], Tensor]]] = {
    "mean": (global_mean_pool, torch.nn.Identity()),
    "sum": (global_add_pool, torch.nn.Identity()),
    "log_sum": (global_add_pool, torch.asinh),
    "max": (global_max_pool, torch.nn.Identity()),
}
"""How the rows of a graph become one, and what is done to that. Like a sum ``log_sum`` tells how often something occurs, but grows with its
logarithm: a graph of 600 vertices is no outlier among those of 40."""


def takes_batch(encoder: torch.nn.Module) -> bool:
    """Whether an encoder can be told which graph each vertex is in."""
    parameters = inspect.signature(encoder.forward).parameters
    return "batch" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


class _Predictor(torch.nn.Module):
    """An encoder and an MLP. The loss decides whether its output is a regression or logits."""

    _takes_batch, input_dropout = True, 0.0  # of those that were pickled before they had these

    def __init__(
        self,
        encoder: torch.nn.Module,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.0,
        act: str = "relu",
        input_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not isinstance(getattr(encoder, "out_channels", None), int):
            raise ValueError(f"'encoder' must tell the width of its output as 'out_channels' (got {type(encoder).__name__})")
        check_counts(0, num_layers=num_layers)
        check_counts(1, out_channels=out_channels)
        self.encoder, self.out_channels = encoder, out_channels
        self._takes_batch = takes_batch(encoder)
        width: int = encoder.out_channels  # type: ignore[assignment]
        if num_layers == 0 and width != out_channels:
            raise ValueError(
                f"'num_layers' must be at least 1 unless the encoder answers itself, with {out_channels} channels (got {width})"
            )
        if not 0 <= input_dropout < 1:
            raise ValueError(f"'input_dropout' must be a probability below 1 (got {input_dropout})")
        self.input_dropout = input_dropout
        self.head: torch.nn.Module = torch.nn.Identity()
        if num_layers:
            self.head = MLP([width] * num_layers + [out_channels], dropout=dropout, act=act, norm=None)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.encoder.reset_parameters()  # type: ignore[operator]
        for module in self.head.children():  # PyG's MLP leaves its nonlinearity as it is
            reset(module)

    def _check_encoded(self, x: Tensor, num_rows: int | None, of: str) -> None:
        """Refuses what an encoder returned if it is not as wide as it says, or has not a row for each vertex or graph."""
        width = self.encoder.out_channels
        if not isinstance(x, Tensor) or x.dim() != 2 or x.size(1) != width or num_rows not in (None, x.size(0)):
            got = f"shape {list(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            rows = "" if num_rows is None else f", of which there are {num_rows}"
            name = type(getattr(self.encoder, "encoder", self.encoder)).__name__
            raise ValueError(
                f"'encoder' must return a row of {width} numbers, its 'out_channels', for every {of}{rows} (got {got} from {name})"
            )

    def _answer(self, x: Tensor) -> Tensor:
        """The MLP of pooled or single rows."""
        return self.head(torch.nn.functional.dropout(x, self.input_dropout, self.training) if self.input_dropout else x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.encoder}, out_channels={self.out_channels})"


def _check_batch(batch: Tensor, num_nodes: int, num_graphs: int | None) -> None:
    """Refuses what does not tell the graph of every vertex, as far as that can be seen."""
    if batch.shape != (num_nodes,):
        raise ValueError(f"'batch' must have one entry for each of {num_nodes} vertices (got {list(batch.shape)})")
    if batch.dtype != torch.long:
        raise ValueError(f"'batch' must hold integers of type torch.long (got {batch.dtype}); call .long()")
    if num_graphs is not None and can_look(batch) and batch.numel() and (last := int(batch.max())) >= num_graphs:
        raise ValueError(f"'num_graphs' must be above the number of every graph in 'batch', {last} (got {num_graphs})")


class GraphPredictor(_Predictor):
    r"""Answers about graphs: classification or regression.

    .. math::
        \hat{\mathbf{y}}_G = \mathrm{MLP}(\mathrm{pool}_{v \in G} \mathbf{x}_v)

    Args:
        encoder: A module with PyG's call ``encoder(x, edge_index, ...)`` and an attribute ``out_channels``. One that returns a row for every
            graph itself says so by an attribute ``pools``.
        out_channels: The number of classes or of targets.
        pool: ``"mean"``, ``"sum"``, ``"log_sum"`` (the inverse hyperbolic sine of the sum, for graphs of very different sizes) or ``"max"``.
        num_layers: The number of linear layers of the MLP; with none the encoder's output is the answer.
        dropout: Inside the MLP, after its nonlinearities.
        act: Its nonlinearity, by its name in torch.
        input_dropout: Before its first layer.

    Shapes:
        - **output:** :math:`(B, F_{out})`
    """

    def __init__(
        self,
        encoder: torch.nn.Module,
        out_channels: int,
        pool: str = "mean",
        num_layers: int = 2,
        dropout: float = 0.0,
        act: str = "relu",
        input_dropout: float = 0.0,
    ) -> None:
        super().__init__(encoder, out_channels, num_layers, dropout, act, input_dropout)
        if pool not in POOLS:
            raise ValueError(f"'pool' must be one of {', '.join(map(repr, POOLS))} (got {pool!r})")
        self.pool = pool

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        *,
        batch: Tensor | None = None,
        num_graphs: int | None = None,
        mask: Tensor | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Predicts one row per graph; further arguments go to the encoder. Vertices that ``mask`` leaves out are padding."""
        if batch is not None:
            _check_batch(batch, x.size(0), num_graphs)
        of_graphs = {"batch": batch} if self._takes_batch else {}
        if mask is not None:
            x = self.encoder(x, edge_index, mask=mask, **of_graphs, **kwargs)
            return self._answer(self._pool_padded(x, batch, num_graphs, mask))
        num_nodes, pools = x.size(0), getattr(self.encoder, "pools", False)
        if batch is None and not pools and num_graphs not in (None, 1):
            raise ValueError(
                f"'batch' must tell the graph of every vertex for num_graphs={num_graphs} (got None); pass batch=data.batch"
            )
        x = self.encoder(x, edge_index, **of_graphs, **kwargs)
        self._check_encoded(x, num_graphs if pools else num_nodes, "graph" if pools else "vertex")
        if torch.compiler.is_exporting() and not pools and batch is not None and num_graphs is None:
            raise ValueError(
                "'num_graphs' must be given with 'batch' to a model that is exported (got None), as it says how many rows the answer has"
            )
        if pools:
            return self._answer(x)
        pool, then = POOLS[self.pool]
        if batch is None and not torch.compiler.is_compiling() and num_nodes == 0:
            # of which PyG's pools make nothing by themselves
            batch, num_graphs = torch.empty(0, dtype=torch.long, device=x.device), 1
        return self._answer(then(pool(x, batch, num_graphs)))

    def _pool_padded(self, x: Tensor, batch: Tensor | None, num_graphs: int | None, mask: Tensor) -> Tensor:
        """The same over the vertices that are there."""
        if batch is None or num_graphs is None or self.pool == "max":
            raise ValueError("'mask' must come with 'batch' and 'num_graphs', and not with pool='max'")
        weight = mask.to(x.dtype).unsqueeze(-1)
        total = add_rows(x * weight, batch, num_graphs)
        pool, then = POOLS[self.pool]
        return then(total / add_rows(weight, batch, num_graphs).clamp_min(1) if pool is global_mean_pool else total)


class NodePredictor(_Predictor):
    r"""Answers about vertices.

    .. math::
        \hat{\mathbf{y}}_v = \mathrm{MLP}(\mathbf{x}_v)

    Args:
        encoder: A module with PyG's call ``encoder(x, edge_index, ...)`` and an attribute ``out_channels``.
        out_channels: The number of classes or of targets.
        num_layers: The number of linear layers of the MLP; with none the encoder's output is the answer.
        dropout: Inside the MLP, after its nonlinearities.
        act: Its nonlinearity, by its name in torch.
        input_dropout: Before its first layer.

    Shapes:
        - **output:** :math:`(N, F_{out})`
    """

    def forward(self, x: Tensor, edge_index: Tensor, **kwargs: Any) -> Tensor:
        """Predicts one row per vertex; further arguments go to the encoder."""
        encoded = self.encoder(x, edge_index, **kwargs)
        self._check_encoded(encoded, x.size(0), "vertex")
        return self._answer(encoded)


class LinkPredictor(_Predictor):
    r"""Answers about pairs of vertices, whatever their order.

    .. math::
        \hat{\mathbf{y}}_{uv} = \mathrm{MLP}(\mathbf{x}_u \odot \mathbf{x}_v)

    Args:
        encoder: A module with PyG's call ``encoder(x, edge_index, ...)`` and an attribute ``out_channels``.
        out_channels: The number of answers per pair; one logit for the existence of a link.
        num_layers: The number of linear layers of the MLP; with none the product is the answer.
        dropout: Inside the MLP, after its nonlinearities.
        act: Its nonlinearity, by its name in torch.
        input_dropout: Before its first layer.

    Shapes:
        - **edge_label_index:** :math:`(2, P)`
        - **output:** :math:`(P, F_{out})`
    """

    def __init__(
        self,
        encoder: torch.nn.Module,
        out_channels: int = 1,
        num_layers: int = 2,
        dropout: float = 0.0,
        act: str = "relu",
        input_dropout: float = 0.0,
    ) -> None:
        super().__init__(encoder, out_channels, num_layers, dropout, act, input_dropout)

    def forward(self, x: Tensor, edge_index: Tensor, *, edge_label_index: Tensor, **kwargs: Any) -> Tensor:
        """Predicts one row per pair; further arguments go to the encoder, which must not see the links to be predicted."""
        if edge_label_index.dim() != 2 or edge_label_index.size(0) != 2:
            raise ValueError(f"'edge_label_index' must have shape [2, num_pairs] (got {list(edge_label_index.shape)})")
        if can_look(edge_label_index) and edge_label_index.numel():
            first, last = int(edge_label_index.min()), int(edge_label_index.max())
            if first < 0 or last >= x.size(0):
                raise ValueError(f"'edge_label_index' must name vertices from 0 to {x.size(0) - 1} (got {first} to {last})")
        encoded = self.encoder(x, edge_index, **kwargs)
        self._check_encoded(encoded, x.size(0), "vertex")
        source, target = edge_label_index
        return self._answer(encoded.index_select(0, source) * encoded.index_select(0, target))
