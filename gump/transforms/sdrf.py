"""Rewiring against negative curvature."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gump.linalg.curvature import balanced_forman, curvature_after_adding, curvature_of_edges
from gump.transforms.adjacency import to_adjacency, with_adjacency


@functional_transform("sdrf")
class SDRF(BaseTransform):
    r"""Supports the edge that is the worst bottleneck by a new edge around it, again and again.

    Stochastic discrete Ricci flow, from `"Understanding over-squashing and bottlenecks on graphs via curvature"
    <https://arxiv.org/abs/2111.14522>`_. In every iteration the edge :math:`(x, y)` of least balanced Forman curvature
    (:func:`gump.linalg.curvature.balanced_forman`) is found. The candidates are the pairs :math:`i \in \{x\} \cup N(x)`,
    :math:`j \in \{y\} \cup N(y)` that no edge joins yet, and one is added with the probability

    .. math::
        p_{ij} \propto \exp \left( \tau \left( \mathrm{Ric}_{ij}(x, y) - \mathrm{Ric}(x, y) \right) \right),

    where :math:`\mathrm{Ric}_{ij}` is the curvature of :math:`(x, y)` with that edge. Then, if asked, the edge of greatest
    curvature is removed if that is above a bound.

    An edge without candidates is passed over for the next worst; where all components are complete the iterations end. The removed
    edge is looked for in the graph with the new edge. An edge of the input keeps its attributes, an added edge has zeros. Components
    stay apart, and removal may split them. The graph must be undirected.

    Sampling follows the numbering of the vertices, and so does the choice among edges of equal curvature (the first by its vertices).
    Curvatures that are equal as fractions but come of other counts may differ by rounding, which then chooses.
    With ``tau=float("inf")`` the best candidate is taken, and the result is equivariant where there are no ties. The seed fixes the
    result, for each graph alone.

    Args:
        num_iterations: The number of edges to add.
        remove_edges: Whether every iteration may remove an edge.
        tau: How strongly good candidates are preferred; zero for all alike, infinity for the best.
        bound: The curvature above which an edge may be removed.
        seed: The seed of the sampling.
        relation: Whether to add ``edge_type``, zero for edges of the input and one for added ones.

    Example:
        >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), num_nodes=4)
        >>> SDRF(num_iterations=3)(path).num_edges  # all three are there to add
        12
    """

    def __init__(
        self,
        num_iterations: int = 10,
        remove_edges: bool = False,
        tau: float = 1.0,
        bound: float = 0.5,
        seed: int = 0,
        relation: bool = False,
    ) -> None:
        if num_iterations < 0:
            raise ValueError(f"'num_iterations' must not be negative (got {num_iterations})")
        if not tau >= 0:
            raise ValueError(f"'tau' must not be negative (got {tau})")
        self.num_iterations, self.remove_edges, self.tau, self.bound = num_iterations, remove_edges, tau, bound
        self.seed, self.relation = seed, relation

    def forward(self, data: Data) -> Data:
        """Rewires a copy of the graph."""
        adjacency = to_adjacency(data)
        curvature = balanced_forman(adjacency)
        generator = np.random.default_rng(self.seed)
        for _ in range(self.num_iterations):
            added = self._add(adjacency, curvature, generator)
            removed = self.remove_edges and self._remove(adjacency, curvature)
            if not added and not removed:
                break
        return with_adjacency(data, adjacency, self.relation)

    def _add(self, adjacency: NDArray[np.bool_], curvature: NDArray[np.float64], generator: np.random.Generator) -> bool:
        source, target = np.triu(adjacency).nonzero()
        for edge in curvature[source, target].argsort(kind="stable"):
            x, y = source[edge], target[edge]
            i, j, after = curvature_after_adding(adjacency, x, y)
            if len(after):
                choice = self._sample(after - curvature[x, y], generator)
                _change(adjacency, curvature, i[choice], j[choice], present=True)
                return True
        return False

    def _sample(self, gain: NDArray[np.float64], generator: np.random.Generator) -> int:
        if np.isinf(self.tau):
            return int(gain.argmax())
        weight = np.exp(self.tau * (gain - gain.max()))
        return int(generator.choice(len(gain), p=weight / weight.sum()))

    def _remove(self, adjacency: NDArray[np.bool_], curvature: NDArray[np.float64]) -> bool:
        source, target = np.triu(adjacency).nonzero()
        if not len(source):
            return False
        edge = curvature[source, target].argmax()
        x, y = source[edge], target[edge]
        if curvature[x, y] <= self.bound:
            return False
        _change(adjacency, curvature, x, y, present=False)
        return True

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_iterations={self.num_iterations}, remove_edges={self.remove_edges}, tau={self.tau}, "
            f"bound={self.bound}, seed={self.seed}, relation={self.relation})"
        )


def _change(adjacency: NDArray[np.bool_], curvature: NDArray[np.float64], i: int, j: int, present: bool) -> None:
    """Sets or clears an edge, and recomputes the curvature of edges that have both its ends within one step: no other sees it.
    What stands where there is no edge means nothing."""
    adjacency[i, j] = adjacency[j, i] = True  # for the neighborhoods, also when it is about to go
    source, target = np.triu(adjacency).nonzero()
    near = [adjacency[source, k] | adjacency[target, k] for k in (i, j)]
    source, target = source[near[0] & near[1]], target[near[0] & near[1]]
    adjacency[i, j] = adjacency[j, i] = present
    curvature[source, target] = curvature[target, source] = curvature_of_edges(adjacency, source, target)
