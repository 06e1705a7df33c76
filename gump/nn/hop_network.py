"""Networks that read the vertices at every distance apart."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn.inits import glorot, reset
from torch_geometric.nn.resolver import activation_resolver

from gump.nn.arguments import check_counts, check_name
from gump.nn.norm import NORMS, make_norm


class Hops(NamedTuple):
    """Pairs of vertices with their distance and their weight in the sum over that distance.

    ``own`` is the weight of every vertex's own state for every distance, or none where there are no self-loops.
    """

    source: Tensor
    target: Tensor
    distance: Tensor
    weight: Tensor
    own: Tensor | None

    @classmethod
    def of(
        cls,
        x: Tensor,
        hop_index: Tensor | None,
        hop_distance: Tensor | None,
        max_distance: int,
        self_loops: bool = False,
        num_hop_pairs: Tensor | None = None,
    ) -> Hops:
        """Weighs the pairs at distance 1 to ``max_distance`` as GCN would, each distance for itself."""
        if hop_index is None or hop_distance is None:
            raise ValueError(
                "'hop_index' and 'hop_distance' must be given (got none); apply gump.transforms.AddHops"
                f"(max_distance={max_distance}) to the data"
            )
        if hop_index.dim() != 2 or hop_index.size(0) != 2 or hop_distance.shape != hop_index.shape[1:]:
            raise ValueError(
                f"'hop_index' must have shape [2, num_pairs] and 'hop_distance' [num_pairs] "
                f"(got {list(hop_index.shape)} and {list(hop_distance.shape)})"
            )
        if num_hop_pairs is not None and num_hop_pairs.size(-1) < max_distance:
            raise ValueError(
                f"'max_distance' of gump.transforms.AddHops must be at least {max_distance}, the largest distance that the model reads "
                f"(got {num_hop_pairs.size(-1)}); apply AddHops(max_distance={max_distance}), or give the model a smaller max_distance"
            )
        source, target = hop_index
        distance = hop_distance.long()  # kept in as few bits as hold it, which are too few to number rows with
        near = (distance <= max_distance).to(x.dtype)
        first = (distance.clamp(max=max_distance) - 1) * x.size(0)
        count = x.new_full((max_distance * x.size(0),), float(self_loops))
        leaving, arriving = count.index_add(0, first + source, near), count.index_add(0, first + target, near)
        product = leaving.index_select(0, first + source) * arriving.index_select(0, first + target)
        own = (leaving * arriving).rsqrt().view(max_distance, -1) if self_loops else None
        return cls(source, target, distance, near * product.clamp_min(1).rsqrt(), own)


class HopConv(torch.nn.Module):
    r"""The sum :math:`\sum_{k=a}^{b} \hat{\mathbf{A}}_k \mathbf{X}_k \mathbf{W}_k + \mathbf{b}` over the distances from ``first`` to ``last``.

    Shapes:
        - **input:** :math:`(b - a + 1, N, F)`, the states that each distance reads
        - **output:** :math:`(N, F)`
    """

    def __init__(self, channels: int, first: int, last: int, share_weights: bool) -> None:
        super().__init__()
        self.first, self.last = first, last
        self.weight = torch.nn.Parameter(torch.empty(1 if share_weights else last - first + 1, channels, channels))
        self.bias = torch.nn.Parameter(torch.empty(channels))

    def reset_parameters(self) -> None:
        """Draws new weights."""
        glorot(self.weight)
        torch.nn.init.zeros_(self.bias)

    def forward(self, states: Tensor, hops: Hops) -> Tensor:
        """Transforms the states and sums over pairs. Those at other distances have no weight; leaving them out would need their number."""
        z = states @ self.weight
        num_nodes = z.size(1)
        used = (hops.distance >= self.first) & (hops.distance <= self.last)
        row = torch.where(used, (hops.distance - self.first) * num_nodes, 0) + hops.source
        message = z.flatten(0, 1).index_select(0, row) * (hops.weight * used).unsqueeze(-1)
        out = message.new_zeros(z[0].shape).index_add(0, hops.target, message)
        if hops.own is not None:
            out = out + (hops.own[self.first - 1 : self.last].unsqueeze(-1) * z).sum(0)
        return out + self.bias


def delayed(states: list[Tensor], first: int, last: int, delay: int | None) -> Tensor:
    r"""Stacks the states that the distances from ``first`` to ``last`` read: for distance :math:`k` that of :math:`\max(k - \nu, 0)` layers ago."""
    ago = [0 if delay is None else max(k - delay, 0) for k in range(first, last + 1)]
    return torch.stack([states[len(states) - 1 - lag] for lag in ago])


class HopNetwork(torch.nn.Module, ABC):
    r"""A stack of layers that each sum over the vertices at distances up to their own number, one weight matrix for each.

    What a layer makes of the sum is for a subclass to say.

    Args:
        in_channels: Width of the vertex features.
        hidden_channels: Width of the states.
        num_layers: The number of layers.
        out_channels: Width of the result after a final linear map; by default there is none.
        delay: After how many layers a longer distance counts as old news; none for never.
        max_distance: The longest distance that is read; by default the number of layers.
        exact: Whether a layer reads its longest distance only.
        share_weights: Whether the distances of a layer share their weights.
        self_loops: Whether every vertex is among those at every distance.
        dropout: Probability of dropping an entry of what a layer adds.
        act: The nonlinearity, by its name in torch.
        norm: ``"batch"``, ``"layer"`` or none, before the nonlinearity.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None,
        delay: int | None,
        max_distance: int | None,
        exact: bool,
        share_weights: bool,
        self_loops: bool,
        dropout: float,
        act: str,
        norm: str | None,
    ) -> None:
        super().__init__()
        check_name("norm", norm, NORMS, optional=True)
        check_counts(1, in_channels=in_channels, hidden_channels=hidden_channels, num_layers=num_layers, out_channels=out_channels)
        check_counts(1, delay=delay, max_distance=max_distance)
        self.in_channels, self.hidden_channels, self.num_layers = in_channels, hidden_channels, num_layers
        self.out_channels = hidden_channels if out_channels is None else out_channels
        self.delay, self.max_distance, self.exact = delay, min(num_layers, max_distance or num_layers), exact
        self.share_weights, self.self_loops = share_weights, self_loops
        self.act, self.dropout = activation_resolver(act), torch.nn.Dropout(dropout)
        self.encoder = torch.nn.Linear(in_channels, hidden_channels)
        last = [min(k + 1, self.max_distance) for k in range(num_layers)]
        self.convs = torch.nn.ModuleList(HopConv(hidden_channels, k if exact else 1, k, share_weights) for k in last)
        self.norms = torch.nn.ModuleList(make_norm(norm, hidden_channels) for _ in range(num_layers))
        self.lin = None if out_channels is None else torch.nn.Linear(hidden_channels, out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in (self.encoder, self.convs, self.norms, self.act, self.lin):
            reset(module)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | None,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        hop_index: Tensor | None = None,
        hop_distance: Tensor | None = None,
        num_hop_pairs: Tensor | None = None,
    ) -> Tensor:
        """Computes vertex representations.

        Args:
            x: Vertex features.
            edge_index: Not used; the pairs at distance one say the same.
            edge_weight: Not used.
            edge_attr: Not used.
            batch: Not used; no pair joins two graphs.
            hop_index: All ordered pairs of vertices at distance one to ``max_distance``, see :class:`gump.transforms.AddHops`. Messages
                go from the first row to the second. Pairs that are farther apart are ignored.
            hop_distance: The distance of every pair.
            num_hop_pairs: A column for every distance up to which pairs are listed; fewer than ``max_distance`` are refused. Without it pairs that
                are missing are not noticed.
        """
        hops = Hops.of(x, hop_index, hop_distance, self.max_distance, self.self_loops, num_hop_pairs)
        states = [self.encoder(x)]
        for _ in range(self.num_layers):
            states.append(self.layer(states, hops))
        return states[-1] if self.lin is None else self.lin(states[-1])

    @abstractmethod
    def layer(self, states: list[Tensor], hops: Hops) -> Tensor:
        """Computes the next state from all before it."""

    def message(self, states: list[Tensor], hops: Hops) -> Tensor:
        """What the next layer reads, after norm, nonlinearity and dropout."""
        k = len(states) - 1
        conv = self.convs[k]
        h = conv(delayed(states, conv.first, conv.last, self.delay), hops)  # type: ignore[arg-type]
        return self.dropout(self.act(self.norms[k](h)))
