"""What holds for every network of patches."""

import pytest
import torch
from patched_graphs import GRAPHS, NO_EDGES, patched_graph, relabeled, run
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import AddRandomWalkPE

from gump.nn.models.graph_mlp_mixer import GraphMLPMixer
from gump.nn.models.graph_vit import GraphViT
from gump.nn.models.predictor import GraphPredictor
from gump.transforms.add_patches import AddPatches

NETWORKS = {GraphMLPMixer: {"num_patches": 6}, GraphViT: {"heads": 2}}
EVERY_NETWORK = pytest.mark.parametrize("network", NETWORKS)


def build(network, in_channels=3, **settings):
    """With batch norms that have seen something, so that they do not pass for the identity."""
    torch.manual_seed(0)
    model = network(in_channels, 8, 2, **NETWORKS[network], **{"num_patch_layers": 2, "edge_dim": 2} | settings).double()
    for _ in range(3):
        run(model, patched_graph("grid"))
    return model.eval()


@EVERY_NETWORK
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("equal_features", [True, False])
@pytest.mark.parametrize("exchange", [True, False])
def test_relabeling_vertices_with_their_patches_changes_nothing(network, name, equal_features, exchange):
    model, data = build(network, exchange=exchange), patched_graph(name, equal_features)
    assert (run(model, relabeled(data)) - run(model, data)).abs().max() < 1e-10


@EVERY_NETWORK
@pytest.mark.parametrize("exchange", [True, False])
def test_a_batch_of_graphs_equals_its_members(network, exchange):
    model, data_list = build(network, exchange=exchange), [patched_graph(name) for name in GRAPHS]
    together = run(model, Batch.from_data_list(data_list))
    assert together.shape == (len(GRAPHS), 8)
    assert (together - torch.cat([run(model, data) for data in data_list])).abs().max() < 1e-12


@EVERY_NETWORK
def test_patches_alone_tell_the_graphs_of_a_batch_apart(network):
    model, batch = build(network), Batch.from_data_list([patched_graph(name) for name in GRAPHS])
    together = run(model, batch)
    del batch.batch
    assert torch.equal(run(model, batch), together)


@EVERY_NETWORK
@pytest.mark.parametrize("norm", ["batch", "layer", None])
@pytest.mark.parametrize("exchange", [True, False])
def test_a_step_on_a_batch_lowers_the_loss_and_every_gradient_is_finite(network, norm, exchange):
    data_list = [AddRandomWalkPE(4, attr_name=None)(patched_graph(name)) for name in GRAPHS]
    for data in data_list:
        data.x = data.x.double()
    batch = Batch.from_data_list(data_list)
    torch.manual_seed(0)
    model = GraphPredictor(network(7, 16, 2, **NETWORKS[network], edge_dim=2, norm=norm, exchange=exchange), 3).double()
    target = torch.arange(len(data_list)) % 3
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(run(model, batch), target)
        loss.backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[1] < losses[0]


@EVERY_NETWORK
def test_a_graph_without_vertices_gets_a_row_of_zeros(network):
    empty = Data(x=torch.empty(0, 3).double(), edge_index=NO_EDGES, edge_attr=torch.empty(0, 2).double())
    data_list = [patched_graph("ring"), AddPatches(6, method="bfs")(empty), patched_graph("grid")]
    out = run(build(network), Batch.from_data_list(data_list))
    assert out.isfinite().all()
    assert out[1].abs().max() == 0


@EVERY_NETWORK
def test_dropout_is_active_in_training_alone(network):
    for settings in ({"dropout": 0.5}, {"patch_dropout": 0.5}):
        model, data = build(network, **settings), patched_graph("grid")
        assert torch.equal(run(model, data), run(model, data))
        model.train()
        assert not torch.equal(run(model, data), run(model, data))


@EVERY_NETWORK
def test_new_weights_are_drawn_for_every_parameter(network):
    model = build(network, exchange=True, out_channels=2)
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 7.0)
    model.reset_parameters()
    assert all((parameter != 7).all() for parameter in model.parameters())


@EVERY_NETWORK
def test_widths_are_told(network):
    assert network.pools
    assert (network(3, 8, 1).edge_dim, network(3, 8, 1, edge_dim=4).edge_dim) == (0, 4)
    assert (network(3, 8, 1).out_channels, network(3, 8, 1, 5).out_channels) == (8, 5)
    assert run(build(network, out_channels=5), patched_graph("ring")).shape == (1, 5)


@EVERY_NETWORK
@pytest.mark.parametrize("argument", ["num_layers", "hidden_channels", "num_patch_layers"])
def test_there_must_be_layers_and_channels(network, argument):
    arguments = {"in_channels": 3, "hidden_channels": 8, "num_layers": 1}
    with pytest.raises(ValueError, match=rf"'{argument}' must be at least 1 \(got 0\)"):
        network(**arguments | {argument: 0})


@EVERY_NETWORK
def test_a_plain_graph_is_refused(network):
    with pytest.raises(ValueError, match=r"'patch_index' must be given \(got None\); apply gump.transforms.AddPatches"):
        network(3, 8, 1)(torch.ones(3, 3), NO_EDGES)
