"""Ortho-GConv, a GCN with orthogonal weights."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver

from gump.nn.arguments import check_counts, check_name
from gump.nn.norm import NORMS, make_norm, normalized
from gump.nn.normalized_adjacency import normalized_adjacency, propagate


class OrthoGCN(torch.nn.Module):
    r"""A GCN whose weight matrices are orthogonal (Ortho-GConv, `Guo et al., AAAI 2022 <https://arxiv.org/abs/2109.11338>`_).

    .. math::
        \mathbf{X}^{(k)} = \sigma(\mathrm{norm}(\hat{\mathbf{A}} \mathbf{X}^{(k-1)} \mathbf{W}_k + \mathbf{b}_k)), \quad
        \mathbf{W}_k = (\mathbf{Z}_k \mathbf{Z}_k^{\top})^{-1/2} \mathbf{Z}_k, \quad
        \mathbf{Z}_k = \beta \mathbf{V}_k + (1 - \beta) \mathbf{I}

    The inverse root comes from Newton's iteration :math:`\mathbf{B} \leftarrow \frac{3}{2} \mathbf{B} - \frac{1}{2} \mathbf{B}^3 \mathbf{S}` on
    :math:`\mathbf{S} = \mathbf{Z}\mathbf{Z}^{\top} / \lVert \mathbf{Z} \mathbf{Z}^{\top} \rVert_F`, written here for :math:`\mathbf{B}\mathbf{Z}`
    instead of :math:`\mathbf{B}`, which is the same and does not amplify rounding: :math:`\mathbf{W} \leftarrow \frac{3}{2} \mathbf{W} -
    \frac{1}{2} \mathbf{W}\mathbf{W}^{\top}\mathbf{W}`.

    The published settings are ``num_iters=4, center=True``, with an :math:`\mathbf{S}` raised by :math:`10^{-5} \mathbf{I}`, which is left out
    here. They do not give orthogonal weights: four iterations multiply small singular values by :math:`1.5^4 = 5` and no more, and
    rows with mean zero cannot be a basis. The defaults do, for any :math:`\mathbf{Z}` whose singular values are above a thousandth of
    its norm. Only features are turned by an orthogonal matrix; :math:`\hat{\mathbf{A}}` still smooths.

    Args:
        in_channels: Width of the vertex features.
        hidden_channels: Width of every layer.
        num_layers: The number of convolutions, each square; a linear map comes before.
        out_channels: Width of the result after a final linear map; by default there is none.
        beta: The share of the learned matrix; the rest is the identity.
        num_iters: The number of Newton iterations.
        num_groups: Into how many groups of rows a matrix is cut, each of which is made orthogonal by itself.
        center: Whether rows are centered first, as published.
        penalty: The factor of :meth:`regularization`, which a trainer adds to its loss.
        dropout: Probability of dropping an entry after each layer.
        act: The nonlinearity, by its name in torch.
        norm: ``"batch"``, ``"layer"`` or none, the published choice.

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
        beta: float = 0.5,
        num_iters: int = 25,
        num_groups: int = 1,
        center: bool = False,
        penalty: float = 1e-4,
        dropout: float = 0.0,
        act: str = "relu",
        norm: str | None = None,
    ) -> None:
        super().__init__()
        check_name("norm", norm, NORMS, optional=True)
        check_counts(1, in_channels=in_channels, hidden_channels=hidden_channels, num_layers=num_layers, out_channels=out_channels)
        if num_groups < 1 or hidden_channels % num_groups != 0:
            raise ValueError(f"'hidden_channels' must be a multiple of 'num_groups' (got {hidden_channels} and {num_groups})")
        if penalty < 0:
            raise ValueError(f"'penalty' must not be negative (got {penalty})")
        self.in_channels, self.hidden_channels, self.num_layers = in_channels, hidden_channels, num_layers
        self.out_channels = hidden_channels if out_channels is None else out_channels
        self.beta, self.num_iters, self.num_groups, self.center, self.penalty = beta, num_iters, num_groups, center, penalty
        self.act, self.dropout = activation_resolver(act), torch.nn.Dropout(dropout)
        self.encoder = torch.nn.Linear(in_channels, hidden_channels)
        self.weight = torch.nn.Parameter(torch.empty(num_layers, hidden_channels, hidden_channels))
        self.bias = torch.nn.Parameter(torch.empty(num_layers, hidden_channels))
        self.scale = torch.nn.Parameter(torch.empty(num_layers))
        self.norms = torch.nn.ModuleList(make_norm(norm, hidden_channels) for _ in range(num_layers))
        self.lin = None if out_channels is None else torch.nn.Linear(hidden_channels, out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in (self.encoder, self.norms, self.act, self.lin):
            reset(module)
        for weight in self.weight:
            torch.nn.init.xavier_uniform_(weight)
        torch.nn.init.zeros_(self.bias)
        torch.nn.init.ones_(self.scale)

    def orthogonal_weights(self) -> Tensor:
        r"""Computes the matrices :math:`\mathbf{W}_k` that the layers multiply with.

        Shapes:
            - **output:** :math:`(L, d, d)`
        """
        identity = torch.eye(self.hidden_channels, dtype=self.weight.dtype, device=self.weight.device)
        z = self.beta * self.weight + (1 - self.beta) * identity
        w = z.unflatten(1, (self.num_groups, -1))  # [num_layers, num_groups, rows, hidden_channels]
        w = w - w.mean(-1, keepdim=True) if self.center else w
        w = w / torch.linalg.matrix_norm(w @ w.mT, keepdim=True).sqrt()
        for _ in range(self.num_iters):
            w = 1.5 * w - 0.5 * (w @ w.mT) @ w
        return w.flatten(1, 2)

    def regularization(self) -> Tensor:
        r"""Computes what is added to the loss, so that the weights become orthogonal where the iteration alone does not make them so.

        .. math::
            \gamma \sum_k \lVert \mathbf{W}_k \mathbf{W}_k^{\top} - c_k \mathbf{I} \rVert_F^2

        with :math:`\gamma` the ``penalty`` and learned scalars :math:`c_k`, as in the paper. It is zero where the weights are orthogonal already,
        and so of use with few iterations, several groups or ``center``. Square and :math:`\gamma` are those of the `public code
        <https://github.com/KaiGuo20/Ortho-GConv/blob/8b94a94/model.py>`_, which has a matrix of ones that no optimizer changes in place of
        :math:`c_k \mathbf{I}`.
        """
        if self.penalty == 0:
            return self.weight.new_zeros(())
        w = self.orthogonal_weights()
        identity = torch.eye(self.hidden_channels, dtype=w.dtype, device=w.device)
        return self.penalty * (w @ w.mT - self.scale[:, None, None] * identity).square().sum()

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
            edge_weight: Weights of the edges.
            edge_attr: Not used.
            batch: Not used: a batch of graphs is one disconnected graph.
            mask: Which vertices are there; the others are padding, joined to nothing but each other, that norms leave out.
        """
        index, weight = normalized_adjacency(edge_index, edge_weight, x.size(0), x.dtype)
        x = self.act(self.encoder(x))
        for matrix, bias, norm in zip(self.orthogonal_weights(), self.bias, self.norms, strict=True):
            x = self.dropout(normalized(norm, self.act, propagate(x @ matrix, index, weight) + bias, mask))
        return x if self.lin is None else self.lin(x)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, beta={self.beta}, num_iters={self.num_iters}, num_groups={self.num_groups}, "
            f"center={self.center})"
        )
