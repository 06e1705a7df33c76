"""Cuts a graph into overlapping patches, the tokens of Graph ViT and G-MLPMixer."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from gump.transforms.checks import check_graph

METHODS = ("metis", "bfs")


@functional_transform("add_patches")
class AddPatches(BaseTransform):
    r"""Cuts a graph into overlapping patches, as plain tensors that a PyG ``DataLoader`` batches (`A Generalization of ViT/MLP-Mixer to
    Graphs <https://arxiv.org/abs/2212.13350>`_).

    The vertices are partitioned into :math:`P` parts of about equal size with few edges between them, and every part
    :math:`\mathcal{V}_p` takes in its neighbors, so that every edge lies in some patch:

    .. math::
        \mathcal{V}_p \leftarrow \mathcal{V}_p \cup \{ j : \{i, j\} \in \mathcal{E}, i \in \mathcal{V}_p \}, \quad
        \mathcal{E}_p = \{ (i, j) \in \mathcal{E} : i, j \in \mathcal{V}_p \}, \quad
        A^P_{pq} = | \mathcal{V}_p \cap \mathcal{V}_q |.

    A graph with fewer vertices than patches has one patch around each vertex and leaves the other patches empty. The vertices of an edge
    are neighbors whatever its orientation; a patch keeps the columns of ``edge_index`` as they are, repeated ones and self-loops too.

    What it adds, with :math:`S` vertices and :math:`T` edges in all patches together, both listed patch by patch:

    - ``patch_index`` :math:`(S)`, the vertices of the patches, which PyG shifts by the number of nodes like every ``*_index``;
    - ``num_patch_vertices`` and ``num_patch_edges`` :math:`(1, P)`, how many of them belong to each patch;
    - ``patch_edge`` :math:`(T, 2)`, source and target as places in the list of *their patch*, which therefore need no shift;
    - ``patch_edge_column`` :math:`(T)`, the column of ``edge_index`` that the edge was, counted in its own graph;
    - ``patch_adjacency`` :math:`(1, P, P)`, the numbers of shared vertices :math:`\mathbf{A}^P`, sizes of patches on the diagonal;
    - ``patch_pe`` :math:`(1, P, K)`, how likely a walk on :math:`\mathbf{A}^P` is back after :math:`1, \dots, K` steps.

    Apply it last: what changes edges or vertices leaves it behind, and our transforms then refuse. The result depends on how the vertices are
    numbered, since partitioners break ties by number. The authors' code drops either orientation of an edge on its own, which drops an edge
    with the square of the rate; here it is the rate.

    Args:
        num_patches: The number of patches :math:`P`.
        num_hops: How often patches take in their neighbors.
        drop_rate: The probability with which an edge is hidden from the partitioner, so that other seeds give other patches.
        seed: Decides everything random, for every graph anew. Without one, a graph is cut differently every time, by torch's generator:
            the authors do so in every epoch. In runs of a configuration it is cut in one way all the same, which goes by its number.
        method: ``"metis"``, which needs the extra ``torch-gump[metis]``, or ``"bfs"``: consecutive pieces of a breadth-first order
            (Cuthill and McKee's), quick and connected where it can be, with more edges cut.
        walk_length: The number of steps :math:`K`; with zero, no ``patch_pe`` is added.

    Example:
        >>> path = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
        >>> data = AddPatches(num_patches=2, method="bfs")(path)
        >>> data.num_patch_vertices, data.patch_adjacency
        (tensor([[3, 3]]), tensor([[[3., 2.],
                                    [2., 3.]]]))
    """

    def __init__(
        self,
        num_patches: int = 32,
        num_hops: int = 1,
        drop_rate: float = 0.0,
        seed: int | None = 0,
        method: str = "metis",
        walk_length: int = 8,
    ) -> None:
        for argument, value, least in (("num_patches", num_patches, 1), ("num_hops", num_hops, 0), ("walk_length", walk_length, 0)):
            if value < least:
                raise ValueError(f"'{argument}' must be at least {least} (got {value})")
        if not 0 <= drop_rate <= 1:
            raise ValueError(f"'drop_rate' must be a probability from 0 to 1 (got {drop_rate})")
        if method not in METHODS:
            raise ValueError(f"'method' must be one of {', '.join(map(repr, METHODS))} (got {method!r})")
        self.num_patches, self.num_hops, self.drop_rate = num_patches, num_hops, drop_rate
        self.seed, self.method, self.walk_length = seed, method, walk_length

    def forward(self, data: Data) -> Data:
        """Adds the patches to a copy of the graph."""
        check_graph(data)
        num_nodes, (source, target) = int(data.num_nodes or 0), data.edge_index.cpu().numpy()
        seed = int(torch.randint(2**31 - 1, ())) if self.seed is None else self.seed
        part = self._partition(source, target, num_nodes, np.random.default_rng(seed))
        member = np.zeros((self.num_patches, num_nodes), dtype=bool)
        member[part, np.arange(num_nodes)] = True
        adjacency = _adjacency(source, target, num_nodes)
        for _ in range(self.num_hops):
            member |= (adjacency @ member.T.astype(np.int64)).T > 0
        patch, vertex = member.nonzero()
        edge_patch, column = (member[:, source] & member[:, target]).nonzero()
        place = member.cumsum(1) - 1  # of every vertex among those of its patch
        shared = member.astype(np.float64) @ member.T
        device = data.edge_index.device
        data.patch_index = torch.from_numpy(vertex).to(device)
        data.num_patch_vertices = torch.from_numpy(np.bincount(patch, minlength=self.num_patches)[None]).to(device)
        data.num_patch_edges = torch.from_numpy(np.bincount(edge_patch, minlength=self.num_patches)[None]).to(device)
        ends = np.stack([place[edge_patch, source[column]], place[edge_patch, target[column]]], axis=1)
        data.patch_edge = torch.from_numpy(ends).to(device)
        data.patch_edge_column = torch.from_numpy(column).to(device)
        data.patch_adjacency = torch.from_numpy(shared[None]).float().to(device)
        if self.walk_length > 0:
            data.patch_pe = torch.from_numpy(_return_probabilities(shared, self.walk_length)[None]).float().to(device)
        return data

    def _partition(
        self, source: NDArray[Any], target: NDArray[Any], num_nodes: int, rng: np.random.Generator
    ) -> NDArray[np.integer[Any]]:
        """Returns the part of every vertex."""
        if num_nodes <= self.num_patches:
            return rng.permutation(self.num_patches)[:num_nodes]
        drop, cut = rng.spawn(2)
        low, high = np.minimum(source, target), np.maximum(source, target)
        edges = np.unique((low * num_nodes + high)[low != high])
        edges = edges[drop.random(edges.size) >= self.drop_rate]
        adjacency = _adjacency(edges // num_nodes, edges % num_nodes, num_nodes)
        parts = _metis_parts if self.method == "metis" else _bfs_parts
        return parts(adjacency, self.num_patches, cut)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.num_patches}, num_hops={self.num_hops}, drop_rate={self.drop_rate}, seed={self.seed}, "
            f"method='{self.method}', walk_length={self.walk_length})"
        )


def _adjacency(source: NDArray[Any], target: NDArray[Any], num_nodes: int) -> Any:
    """The symmetric adjacency matrix, its entries ones in sorted rows."""
    ends = np.concatenate([source, target]), np.concatenate([target, source])
    adjacency = csr_array(coo_array((np.ones(2 * source.size, dtype=np.int64), ends), shape=(num_nodes, num_nodes)))
    adjacency.sum_duplicates()
    adjacency.data[:] = 1
    return adjacency


def _metis_parts(adjacency: Any, num_parts: int, rng: np.random.Generator) -> NDArray[np.integer[Any]]:
    """The parts that METIS finds by recursive bisection. Its matrix must have no diagonal."""
    try:
        pymetis = import_module("pymetis")
    except ImportError as error:
        raise ImportError(
            "'method' must be 'bfs' where METIS is missing (got 'metis'); install METIS with: pip install 'torch-gump[metis]'"
        ) from error
    graph = pymetis.CSRAdjacency(adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int64))
    options = pymetis.Options(seed=int(rng.integers(2**31 - 1)))
    return np.asarray(pymetis.part_graph(num_parts, graph, recursive=True, options=options).vertex_part, dtype=np.int64)


def _bfs_parts(adjacency: Any, num_parts: int, rng: np.random.Generator) -> NDArray[np.integer[Any]]:
    """Equal pieces of a breadth-first order whose ties are broken at random."""
    num_nodes = adjacency.shape[0]
    shuffle = rng.permutation(num_nodes)
    order = shuffle[reverse_cuthill_mckee(csr_array(adjacency[shuffle][:, shuffle]), symmetric_mode=True)]
    part = np.empty(num_nodes, dtype=np.int64)
    part[order] = np.arange(num_nodes) * num_parts // num_nodes
    return part


def _return_probabilities(shared: NDArray[np.float64], walk_length: int) -> NDArray[np.float64]:
    """For every patch, the chance that a random walk over shared vertices is back after each number of steps."""
    step = shared / shared.sum(1, keepdims=True).clip(min=1)
    power, columns = np.eye(len(shared)), []
    for _ in range(walk_length):
        power = power @ step
        columns.append(power.diagonal())
    return np.stack(columns, axis=1)
