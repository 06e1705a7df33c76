import pytest
import torch
from graphs import SYMMETRIC, random_graph
from torch_geometric.nn import GCNConv
from torch_geometric.utils import to_undirected

from gump.linalg import unitarity_error
from gump.nn.models.ortho_gcn import OrthoGCN

GRAPHS = SYMMETRIC | {"random": random_graph(0)}


def setting(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    edges, num_nodes = GRAPHS[name]
    torch.manual_seed(0)
    return torch.randn(num_nodes, 3).double(), to_undirected(edges, num_nodes=num_nodes)


@pytest.mark.parametrize("hidden_channels", [4, 16, 64])
@pytest.mark.parametrize("beta", [0.2, 0.5, 1.0])
def test_weights_are_orthogonal(hidden_channels: int, beta: float) -> None:
    torch.manual_seed(0)
    model = OrthoGCN(3, hidden_channels, 5, beta=beta, num_iters=30).double()
    weights = model.orthogonal_weights()
    assert weights.shape == (5, hidden_channels, hidden_channels)
    assert unitarity_error(weights).max() < 1e-10
    assert (weights - torch.eye(hidden_channels)).abs().max() > 1e-2


@pytest.mark.parametrize("smallest", [1e-3, 1.0])
def test_the_defaults_are_orthogonal_where_no_singular_value_is_below_a_thousandth_of_the_norm(smallest: float) -> None:
    torch.manual_seed(0)
    model = OrthoGCN(3, 16, 1).double()
    left, _, right = torch.linalg.svd(torch.randn(16, 16).double())
    z = left * torch.linspace(1, smallest, 16).double() @ right
    model.weight.data[0] = (z - (1 - model.beta) * torch.eye(16)) / model.beta
    assert unitarity_error(model.orthogonal_weights()).item() < 1e-10


def test_weights_are_orthogonal_by_default_and_still_after_training() -> None:
    x, edge_index = setting("grid")
    model = OrthoGCN(3, 64, 4).double()
    before = model.orthogonal_weights().detach()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(10):
        optimizer.zero_grad()
        model(x, edge_index).square().mean().backward()
        optimizer.step()
    after = model.orthogonal_weights().detach()
    assert unitarity_error(before).max() < 1e-5
    assert unitarity_error(after).max() < 1e-5
    assert (after - before).abs().max() > 1e-3


def test_weights_are_the_polar_factor() -> None:
    torch.manual_seed(0)
    model = OrthoGCN(3, 16, 3, beta=0.7, num_iters=40).double()
    left, _, right = torch.linalg.svd(0.7 * model.weight + 0.3 * torch.eye(16).double())
    assert (model.orthogonal_weights() - left @ right).abs().max() < 1e-9


@pytest.mark.parametrize("num_iters", [0, 1, 4])
@pytest.mark.parametrize(("num_groups", "center"), [(1, False), (2, False), (2, True)])
def test_the_iteration_is_the_published_one_up_to_its_regularization(num_iters: int, num_groups: int, center: bool) -> None:
    torch.manual_seed(0)
    model = OrthoGCN(3, 8, 1, beta=0.4, num_iters=num_iters, num_groups=num_groups, center=center).double()
    z = 0.4 * model.weight[0] + 0.6 * torch.eye(8).double()
    groups = []
    for rows in z.chunk(num_groups):
        rows = rows - rows.mean(1, keepdim=True) if center else rows
        s = rows @ rows.t()
        norm = s.norm()
        b = torch.eye(len(rows)).double()
        for _ in range(num_iters):
            b = 1.5 * b - 0.5 * b @ b @ b @ (s / norm)
        groups.append(b @ rows / norm.sqrt())
    assert (model.orthogonal_weights()[0] - torch.cat(groups)).abs().max() < 1e-12


def test_the_published_settings_are_not_orthogonal() -> None:
    torch.manual_seed(0)
    few = OrthoGCN(3, 64, 1, num_iters=4)
    assert unitarity_error(few.orthogonal_weights()).item() > 0.1
    centered = OrthoGCN(3, 64, 1, num_iters=60, center=True).double()
    assert (centered.orthogonal_weights() @ torch.ones(64).double()).abs().max() < 1e-6, "the constant vector is lost"


@pytest.mark.parametrize("name", GRAPHS)
def test_layers_are_graph_convolutions_with_those_weights(name: str) -> None:
    x, edge_index = setting(name)
    weight = torch.rand(edge_index.size(1)).double()
    model = OrthoGCN(3, 8, 3, out_channels=2).double()
    torch.nn.init.normal_(model.bias)
    h = torch.relu(model.encoder(x))
    for matrix, bias in zip(model.orthogonal_weights(), model.bias, strict=True):
        conv = GCNConv(8, 8).double()
        conv.load_state_dict({"lin.weight": matrix.t(), "bias": bias})
        h = torch.relu(conv(h, edge_index, weight))
    assert (model(x, edge_index, edge_weight=weight) - model.lin(h)).abs().max() < 1e-12


def test_the_regularization_is_its_formula() -> None:
    torch.manual_seed(0)
    model = OrthoGCN(3, 6, 2, num_iters=2, num_groups=2, penalty=0.3).double()
    torch.nn.init.uniform_(model.scale)
    expected = 0.0
    for w, c in zip(model.orthogonal_weights(), model.scale, strict=True):
        for i in range(6):
            for j in range(6):
                expected += 0.3 * (w[i] @ w[j] - (c if i == j else 0)) ** 2
    assert model.regularization().item() == pytest.approx(float(expected))
    assert OrthoGCN(3, 6, 2, num_iters=2, penalty=0.0).regularization().item() == 0


def test_the_regularization_is_zero_for_orthogonal_weights_and_makes_others_orthogonal() -> None:
    torch.manual_seed(0)
    assert OrthoGCN(3, 8, 3, num_iters=40, penalty=1.0).double().regularization() < 1e-18
    model = OrthoGCN(3, 8, 3, num_iters=2, penalty=1.0).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(200):
        optimizer.zero_grad()
        losses.append(model.regularization())
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < 0.01 * losses[0]
    gram = model.orthogonal_weights() @ model.orthogonal_weights().mT
    assert (gram / model.scale[:, None, None] - torch.eye(8)).abs().max() < 0.1


def test_gradients_of_the_regularization_are_finite_where_it_is_zero() -> None:
    model = OrthoGCN(3, 4, 1, beta=0.0)
    model.regularization().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_layers": 0}, r"'num_layers' must be at least 1 \(got 0\)"),
        ({"num_groups": 3}, r"'hidden_channels' must be a multiple of 'num_groups' \(got 8 and 3\)"),
        ({"penalty": -1.0}, r"'penalty' must not be negative \(got -1.0\)"),
        ({"norm": "pair"}, "'norm' must be one of"),
    ],
)
def test_settings_that_make_no_sense_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OrthoGCN(**{"in_channels": 3, "hidden_channels": 8, "num_layers": 2, **arguments})


def test_repr() -> None:
    expected = "OrthoGCN(3, 8, num_layers=2, out_channels=8, beta=0.5, num_iters=25, num_groups=1, center=False)"
    assert repr(OrthoGCN(3, 8, 2)) == expected
