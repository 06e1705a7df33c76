"""Rewiring by diffusion."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import GDC, BaseTransform

from gump.transforms.adjacency import to_adjacency, with_adjacency


@functional_transform("digl")
class DIGL(BaseTransform):
    r"""Replaces a graph by that of its personalized PageRank: an edge wherever a random walk that restarts often is found.

    From `"Diffusion Improves Graph Learning" <https://arxiv.org/abs/1911.05485>`_. With :math:`\mathbf{H}` the symmetrically
    normalized adjacency matrix with self-loops, :math:`\tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I}) \tilde{\mathbf{D}}^{-1/2}`,

    .. math::
        \mathbf{S} = \alpha \left( \mathbf{I} - (1 - \alpha) \mathbf{H} \right)^{-1}

    and :math:`(u, v)` is an edge where :math:`S_{uv} \geq \varepsilon`. Edges of the input that fall below go, others come. The
    defaults are those behind the published numbers on TU datasets (`FoSR <https://arxiv.org/abs/2210.11790>`_): the diffusion and
    the threshold as in :class:`torch_geometric.transforms.GDC`, then the weights forgotten, self-loops kept. The diagonal of
    :math:`\mathbf{S}` is at least :math:`\alpha`, so with :math:`\alpha \geq \varepsilon` every vertex has a self-loop.

    Equivariant: nothing is random, and equal entries share their fate (what is below :math:`\varepsilon` by rounding alone is kept).
    Components stay apart. An edge of the input keeps its attributes, an added edge or self-loop gets zeros. The graph must be
    undirected; its own weights are ignored. Dense, so for graphs of up to some thousand vertices.

    Args:
        alpha: The probability that the walk restarts.
        eps: The smallest entry that becomes an edge.
        self_loops: Whether the diagonal becomes self-loops; if not, the result has none.
        keep_weights: Whether to keep the entries as ``edge_weight``, normalized so that they sum to one over the edges that enter a
            vertex (before self-loops are left out).
        relation: Whether to add ``edge_type``, zero for edges of the input and one for others.

    Example:
        >>> star = Data(edge_index=torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]]), num_nodes=4)
        >>> DIGL(self_loops=False)(star).num_edges  # leaves meet at the center, so they are joined
        12
    """

    def __init__(
        self, alpha: float = 0.1, eps: float = 0.05, self_loops: bool = True, keep_weights: bool = False, relation: bool = False
    ) -> None:
        if not 0 < alpha <= 1:
            raise ValueError(f"'alpha' must satisfy 0 < alpha <= 1 (got {alpha})")
        if eps <= 0:
            raise ValueError(f"'eps' must be above zero (got {eps})")
        self.alpha, self.eps = alpha, eps
        self.self_loops, self.keep_weights, self.relation = self_loops, keep_weights, relation
        self._diffusion = GDC(
            diffusion_kwargs={"method": "ppr", "alpha": alpha},
            sparsification_kwargs={"method": "threshold", "eps": eps * (1 - 1e-9)},
        )

    def forward(self, data: Data) -> Data:
        """Rewires a copy of the graph."""
        edge_index = torch.from_numpy(to_adjacency(data)).nonzero().t()
        weights = torch.ones(edge_index.size(1), dtype=torch.float64)
        # Two more vertices, alone and left out again below: GDC cannot take a graph of one or none.
        diffused = self._diffusion(Data(edge_index=edge_index, edge_attr=weights, num_nodes=data.num_nodes + 2))
        dense = torch.zeros(data.num_nodes + 2, data.num_nodes + 2, dtype=torch.float64)
        dense[tuple(diffused.edge_index)] = diffused.edge_attr
        dense = dense[:-2, :-2] if self.self_loops else dense[:-2, :-2].fill_diagonal_(0)
        data = with_adjacency(data, (dense > 0).numpy(), self.relation, keep_loops=False)
        if self.keep_weights:
            dtype = data.x.dtype if data.x is not None and data.x.is_floating_point() else torch.get_default_dtype()
            data.edge_weight = dense[dense > 0].to(data.edge_index.device, dtype)
        return data

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(alpha={self.alpha}, eps={self.eps}, self_loops={self.self_loops}, "
            f"keep_weights={self.keep_weights}, relation={self.relation})"
        )
