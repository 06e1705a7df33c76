"""The table of datasets."""

from __future__ import annotations

import torch

from gump.datasets.dataset import Dataset


def statistics(dataset: Dataset) -> dict[str, str | int | float]:
    """Counts what the table of a paper's datasets shows.

    The paper's own table has ``num_graphs``, ``avg_nodes`` and, as its average number of edges, ``avg_arcs`` for the smaller TU datasets and
    Peptides but ``avg_edges`` for NCI1 and NCI109; both are here.

    Returns:
        ``name`` and ``type``, such as ``"Graph Classification"``; ``num_graphs``; ``num_nodes``, ``num_arcs`` and ``num_edges`` of all graphs and
        ``avg_nodes``, ``avg_arcs`` and ``avg_edges`` of each, where an arc is a column of ``edge_index`` and an edge a pair of vertices in either
        order; ``num_isolated``, the vertices without edges; ``max_degree``, the most neighbors of a vertex, itself not counted;
        ``num_features``, ``num_edge_features`` and ``num_targets``.
    """
    num_nodes = torch.tensor([graph.num_nodes for graph in dataset])
    offset = num_nodes.cumsum(0) - num_nodes
    arcs = torch.cat([graph.edge_index + first for graph, first in zip(dataset, offset.tolist(), strict=True)], dim=1)
    total = int(num_nodes.sum())
    low, high = arcs.min(dim=0).values, arcs.max(dim=0).values
    edges = (low * total + high).unique()
    ends = torch.stack([edges // total, edges % total])
    proper = ends[:, ends[0] != ends[1]]
    degree = proper.view(-1).bincount(minlength=total)
    kind = "Regression" if dataset.task == "regression" else "Prediction" if dataset.level == "link" else "Classification"
    return {
        "name": dataset.name,
        "type": f"{'Node' if dataset.level == 'source' else dataset.level.capitalize()} {kind}",
        "num_graphs": len(dataset),
        "num_nodes": total,
        "num_arcs": arcs.size(1),
        "num_edges": edges.numel(),
        "avg_nodes": total / len(dataset),
        "avg_arcs": arcs.size(1) / len(dataset),
        "avg_edges": edges.numel() / len(dataset),
        "num_isolated": int((degree == 0).sum()),
        "max_degree": int(degree.max()),
        "num_features": dataset.num_features,
        "num_edge_features": dataset.num_edge_features,
        "num_targets": dataset.num_targets,
    }
