"""Labels of edges as relations."""

from pathlib import Path

import pytest
import torch
from graphs import path
from torch_geometric.data import Batch, Data
from torch_geometric.utils import one_hot, to_undirected

from gump.datasets.tu import load_tu
from gump.nn import MPNN
from gump.transforms.add_edge_type import AddEdgeType
from gump.transforms.fosr import FoSR

NUM_NODES = 4
EDGES, KINDS = to_undirected(path(4)[0], torch.tensor([0, 2, 1]))


def chain(**attributes: object) -> Data:
    return Data(**{"edge_index": EDGES, "edge_attr": one_hot(KINDS), "num_nodes": NUM_NODES, **attributes})


def test_it_is_the_column_of_the_one() -> None:
    assert AddEdgeType()(chain()).edge_type.equal(KINDS)


def test_the_graph_that_is_given_stays_as_it_is_and_labels_stay() -> None:
    data = chain()
    out = AddEdgeType()(data)
    assert "edge_type" not in data
    assert out.edge_attr.equal(one_hot(KINDS))


def test_labels_may_be_true_and_false() -> None:
    assert AddEdgeType()(chain(edge_attr=one_hot(KINDS).bool())).edge_type.equal(KINDS)


def test_a_graph_without_edges_has_none() -> None:
    data = Data(edge_index=torch.empty(2, 0, dtype=torch.long), edge_attr=torch.empty(0, 3), num_nodes=2)
    assert AddEdgeType()(data).edge_type.tolist() == []


def test_a_batch_has_those_of_its_graphs() -> None:
    batch = Batch.from_data_list([AddEdgeType()(chain()), AddEdgeType()(chain())])
    assert batch.edge_type.equal(torch.cat([KINDS, KINDS]))


def test_a_network_answers_otherwise_where_labels_differ() -> None:
    torch.manual_seed(0)
    model = MPNN(2, 8, num_layers=2, conv="gin", num_relations=3)
    x = torch.rand(NUM_NODES, 2)
    out = [model(x, EDGES, edge_type=AddEdgeType()(chain(edge_attr=one_hot(kinds, 3))).edge_type) for kinds in (KINDS, 0 * KINDS)]
    assert not out[0].allclose(out[1], atol=1e-3)


def test_bonds_of_mutag_have_four_kinds(data_root: Path) -> None:
    graphs = load_tu("MUTAG", data_root).graphs
    kinds = torch.cat([AddEdgeType()(graph).edge_type for graph in graphs])
    assert kinds.bincount().tolist() == torch.cat([graph.edge_attr for graph in graphs]).sum(dim=0).int().tolist()
    assert len(kinds.unique()) == 4


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (chain(edge_attr=None), "'data' must have 'edge_attr', labels of its edges"),
        (
            chain(edge_attr=one_hot(KINDS) / 2),
            r"'data.edge_attr' must have a single 1 in every row and 0 elsewhere \(got \[0.5, 0.0, 0.0\]\); edges that a rewiring added",
        ),
        (
            chain(edge_attr=torch.ones(6, 2)),
            r"'data.edge_attr' must have a single 1 in every row and 0 elsewhere \(got \[1.0, 1.0\]\)",
        ),
        (chain(edge_attr=torch.ones(6)), r"with a column for every label \(got shape \[6\]\)"),
        (chain(edge_attr=torch.ones(6, 0)), r"with a column for every label \(got shape \[6, 0\]\)"),
        (chain(edge_attr=one_hot(KINDS)[:4]), r"must have a row for each of the 6 edges, .* \(got shape \[4, 3\]\)"),
        (chain(edge_attr=[0, 1]), r"must have a row for each of the 6 edges, .* \(got \[0, 1\]\)"),
        (chain(edge_type=KINDS), "'data' must not have 'edge_type' already"),
        (Batch.from_data_list([chain()]), "must be one graph"),
    ],
)
def test_what_has_no_labels_is_refused(data: Data, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AddEdgeType()(data)


def test_a_rewiring_that_numbers_its_own_edges_refuses_it() -> None:
    with pytest.raises(ValueError, match="must not have 'edge_type' with relation=True"):
        FoSR(1, relation=True)(AddEdgeType()(chain()))


def test_repr() -> None:
    assert repr(AddEdgeType()) == "AddEdgeType()"
