"""Dynamic rewiring with delay."""

from __future__ import annotations

import torch
from torch import Tensor

from gump.nn.hop_network import HopNetwork, Hops


class DRewGCN(HopNetwork):
    r"""Message passing whose edges reach one step farther with every layer (`Gutteridge et al., ICML 2023
    <https://arxiv.org/abs/2305.08018>`_).

    .. math::
        \mathbf{X}_{t+1} = \mathbf{X}_t + \sigma\Big(\sum_{k=1}^{t+1} \hat{\mathbf{A}}_k \mathbf{X}_{t - \max(k - \nu, 0)} \mathbf{W}_{k,t}
        + \mathbf{b}_t\Big), \quad (\hat{\mathbf{A}}_k)_{ij} = \frac{[\mathrm{dist}(i, j) = k]}{\sqrt{|\mathcal{N}_k(i)| |\mathcal{N}_k(j)|}}

    where :math:`\mathcal{N}_k(i)` are the vertices at distance exactly :math:`k` and :math:`\mathbf{X}_0` is a linear map of the features.
    With ``delay`` :math:`\nu = 1`, a signal travels one step per layer, as in GCN, but goes straight to where it is read; without delay it
    travels :math:`1 + 2 + \dots + L` steps in :math:`L` layers.

    The authors' code differs from this formula, the paper's, in four ways. It gives every graph of distances self-loops, as does
    ``self_loops=True``. It leaves a distance out if no graph of the batch has it, so that self-loops and biases of a graph depend on its
    company; here every distance counts in every batch. It has a bias for each distance, which add up to one. And it applies norm, dropout
    and nonlinearity to each distance, and the nonlinearity again to the sum.

    The number of weights grows with the square of ``num_layers`` unless they are shared, that of pairs with the ball of radius
    ``num_layers``. Edge weights and attributes are not used: they have no meaning for vertices that are not neighbors.

    Args:
        in_channels: Width of the vertex features.
        hidden_channels: Width of everything inside.
        num_layers: The number of layers, and the largest distance that is used.
        out_channels: Width of the result after a final linear map; by default there is none.
        delay: The paper's :math:`\nu`, at least one; none is :math:`\nu = \infty`, no delay.
        max_distance: A smaller bound on the distances that are used.
        share_weights: Whether the distances of one layer share one weight matrix.
        self_loops: Whether every :math:`\hat{\mathbf{A}}_k` is that of the graph with self-loops.
        l2_norm: Whether every layer ends with states of length one.
        dropout: Probability of dropping an entry of what a layer adds.
        act: The nonlinearity, by its name in torch.
        norm: ``"batch"``, ``"layer"`` or none, applied before the nonlinearity.

    Shapes:
        - **x:** :math:`(N, F_{in})`
        - **hop_index:** :math:`(2, P)`
        - **hop_distance:** :math:`(P)`
        - **output:** :math:`(N, F_{out})` or :math:`(N, F_{hidden})`

    Example:
        Two steps away, the first of two layers sees nothing, the second does:

        >>> x, pairs, distance = torch.randn(2, 3), torch.tensor([[0, 1], [1, 0]]), torch.tensor([2, 2])
        >>> for num_layers in (1, 2):
        ...     model = DRewGCN(3, 8, num_layers, act="tanh")
        ...     alone = model(x[:1], None, hop_index=pairs[:, :0], hop_distance=distance[:0])
        ...     print(torch.allclose(model(x, None, hop_index=pairs, hop_distance=distance)[:1], alone))
        True
        False
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        delay: int | None = 1,
        max_distance: int | None = None,
        share_weights: bool = False,
        self_loops: bool = False,
        l2_norm: bool = False,
        dropout: float = 0.0,
        act: str = "relu",
        norm: str | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            delay,
            max_distance,
            exact=False,
            share_weights=share_weights,
            self_loops=self_loops,
            dropout=dropout,
            act=act,
            norm=norm,
        )
        self.l2_norm = l2_norm

    def layer(self, states: list[Tensor], hops: Hops) -> Tensor:
        r"""Computes :math:`\mathbf{X}_{t+1}` from :math:`\mathbf{X}_0, \dots, \mathbf{X}_t`."""
        x = states[-1] + self.message(states, hops)
        return torch.nn.functional.normalize(x, dim=-1) if self.l2_norm else x

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, delay={self.delay}, max_distance={self.max_distance}, "
            f"share_weights={self.share_weights}, self_loops={self.self_loops}, l2_norm={self.l2_norm})"
        )
