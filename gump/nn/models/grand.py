"""GRAND, diffusion with attention."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver
from torch_geometric.utils import softmax

from gump.nn.arguments import check_counts, check_name
from gump.nn.normalized_adjacency import propagate
from gump.nn.rows import select_rows

METHODS = ("euler", "rk4")


class GRAND(torch.nn.Module):
    r"""A diffusion that flows along edges by attention (`Chamberlain et al., ICML 2021 <https://arxiv.org/abs/2106.10934>`_).

    .. math::
        \frac{d\mathbf{X}}{dt} = s(a) \left(\mathbf{A}(\mathbf{X}) - \mathbf{I}\right) \mathbf{X} + b\, \mathbf{X}(0), \quad
        \mathbf{A}_{vu} = \frac{1}{H} \sum_h \mathrm{softmax}_{u \in \mathcal{N}(v) \cup \{v\}} \frac{\langle \mathbf{Q}_h \mathbf{x}_v,
        \mathbf{K}_h \mathbf{x}_u \rangle}{\sqrt{d_h}}

    where :math:`\mathbf{X}(0)` is a linear map of the features, :math:`s` the logistic function, and :math:`a`, :math:`b` are learned. The rows
    of :math:`\mathbf{A}` sum to one, so without the source term constant states rest and, in Euler steps of length up to one, no value
    leaves the range of its neighbors'. That also means that states of a connected graph become equal in time: diffusion smooths.

    Steps have a fixed length; the published code adapts it (dopri5) and can thus meet any tolerance, at a cost that depends on the data.

    Args:
        in_channels: Width of the vertex features.
        hidden_channels: Width of the states.
        num_layers: The number of steps; time ends at ``num_layers * step_size``.
        out_channels: Width of the result after a final linear map; by default there is none.
        linear: Whether attention comes from the first states, once (GRAND-l), or is computed anew from the states at every step (GRAND-nl).
        method: ``"euler"``, the explicit Euler method, or ``"rk4"``, the Runge-Kutta method with four evaluations per step.
        step_size: The length of a step.
        heads: The number of attention heads.
        attention_channels: Width of queries and keys over all heads, by default ``hidden_channels``.
        source: Whether the first states are a source.
        dropout: Probability of dropping an entry of the result.
        input_dropout: The same for the vertex features.
        act: The nonlinearity on the last state, the only one outside of the attention.

    Shapes:
        - **x:** :math:`(N, F_{in})`
        - **edge_index:** :math:`(2, E)`
        - **edge_weight:** :math:`(E)`
        - **output:** :math:`(N, F_{out})`
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        linear: bool = True,
        method: str = "euler",
        step_size: float = 1.0,
        heads: int = 4,
        attention_channels: int | None = None,
        source: bool = False,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        act: str = "relu",
    ) -> None:
        super().__init__()
        attention_channels = hidden_channels if attention_channels is None else attention_channels
        check_name("method", method, METHODS)
        check_counts(1, in_channels=in_channels, hidden_channels=hidden_channels, num_layers=num_layers, out_channels=out_channels)
        check_counts(1, heads=heads, attention_channels=attention_channels)
        if attention_channels % heads != 0:
            raise ValueError(f"'attention_channels' must be a multiple of 'heads' (got {attention_channels} and {heads})")
        self.in_channels, self.hidden_channels, self.num_layers = in_channels, hidden_channels, num_layers
        self.out_channels = hidden_channels if out_channels is None else out_channels
        self.linear, self.method, self.step_size, self.heads = linear, method, step_size, heads
        self.act = activation_resolver(act)
        self.dropout, self.input_dropout = torch.nn.Dropout(dropout), torch.nn.Dropout(input_dropout)
        self.encoder = torch.nn.Linear(in_channels, hidden_channels)
        self.lin_query = torch.nn.Linear(hidden_channels, attention_channels)
        self.lin_key = torch.nn.Linear(hidden_channels, attention_channels)
        self.rate = torch.nn.Parameter(torch.zeros(()))
        self.source = torch.nn.Parameter(torch.zeros(())) if source else None
        self.lin = None if out_channels is None else torch.nn.Linear(hidden_channels, out_channels)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in (self.encoder, self.lin_query, self.lin_key, self.act, self.lin):
            reset(module)
        for parameter in (self.rate, self.source):
            if parameter is not None:
                torch.nn.init.zeros_(parameter)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Computes vertex representations.

        Args:
            x: Vertex features.
            edge_index: The edges, those of an undirected graph in both directions.
            edge_weight: Nonnegative weights that multiply attention before it is normalized; a self-loop has weight one.
            edge_attr: Not used.
            batch: Not used: a batch of graphs is one disconnected graph.
            mask: Which vertices are there. Not used: the others are padding, joined to nothing but each other, and there is no norm.
        """
        x = self.diffuse(self.encoder(self.input_dropout(x)), edge_index, edge_weight)
        x = self.dropout(self.act(x))
        return x if self.lin is None else self.lin(x)

    def attention(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Computes the attention matrix of states as edges, with a self-loop for every vertex, and their weights, which sum to one over the
        edges that end at a vertex."""
        edge_index, bias = self._with_loops(x, edge_index, edge_weight)
        return edge_index, self._attention(x, edge_index, bias)

    def diffuse(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Lets states flow for ``num_layers`` steps."""
        edge_index, bias = self._with_loops(x, edge_index, edge_weight)
        first, rate, h = x, self.rate.sigmoid(), self.step_size
        fixed = self._attention(x, edge_index, bias) if self.linear else None

        def field(x: Tensor) -> Tensor:
            weight = self._attention(x, edge_index, bias) if fixed is None else fixed
            flow = rate * (propagate(x, edge_index, weight) - x)
            return flow if self.source is None else flow + self.source * first

        for _ in range(self.num_layers):
            k1 = field(x)
            if self.method == "euler":
                x = x + h * k1
            else:
                k2 = field(x + h / 2 * k1)
                k3 = field(x + h / 2 * k2)
                x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + field(x + h * k3))
        return x

    def _with_loops(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        """Appends a self-loop for every vertex; those that are there already are silenced. Returns the edges and what is added to scores."""
        silent = edge_index[0] == edge_index[1]
        bias = torch.zeros_like(edge_index[0], dtype=x.dtype)
        if edge_weight is not None:
            weight = edge_weight.reshape(-1).to(x.dtype)
            silent = silent | (weight == 0)
            bias = torch.where(silent, 1, weight).log()  # the logarithm of zero has no gradient
        bias = torch.where(silent, -torch.inf, bias)
        loops = torch.arange(x.size(0), device=x.device)
        return torch.cat([edge_index, loops.expand(2, -1)], dim=1), torch.cat([bias, torch.zeros_like(loops, dtype=x.dtype)])

    def _attention(self, x: Tensor, edge_index: Tensor, bias: Tensor) -> Tensor:
        source, target = edge_index
        query = select_rows(self.lin_query(x).unflatten(-1, (self.heads, -1)), target)  # [num_edges, heads, channels]
        key = select_rows(self.lin_key(x).unflatten(-1, (self.heads, -1)), source)
        score = (query * key).sum(-1) / key.size(-1) ** 0.5 + bias.unsqueeze(-1)
        return softmax(score, target, num_nodes=x.size(0)).mean(-1)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, linear={self.linear}, method='{self.method}', step_size={self.step_size}, "
            f"heads={self.heads})"
        )
