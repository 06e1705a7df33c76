import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData

from gump import transforms

EDGES = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
OWN = [
    transforms.AddExpander(degree=2),
    transforms.AddHops(max_distance=2),
    transforms.AddLineGraph(),
    transforms.AddPatches(num_patches=2),
    transforms.AddRRWP(num_steps=3),
]


@pytest.mark.parametrize(
    "transform", [*OWN, transforms.CapDegree(3), transforms.FoSR(2)], ids=lambda transform: type(transform).__name__
)
def test_what_is_no_graph_is_refused_in_words(transform):
    with pytest.raises(ValueError, match=r"'data' must have 'edge_index' \(got Data\(num_nodes=3\)\)"):
        transform(Data(num_nodes=3))
    with pytest.raises(
        ValueError, match=r"'data' must be a torch_geometric.data.Data \(got HeteroData\); call .to_homogeneous\(\)"
    ):
        transform(HeteroData())


@pytest.mark.parametrize("transform", [*OWN, transforms.CapDegree(3)], ids=lambda transform: type(transform).__name__)
def test_a_batch_is_refused(transform):
    with pytest.raises(ValueError, match=r"'data' must be one graph \(got a batch of 2\)"):
        transform(Batch.from_data_list([EDGES, EDGES]))
