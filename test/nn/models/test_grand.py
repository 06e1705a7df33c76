import pytest
import torch
from graphs import SYMMETRIC, random_graph
from torch_geometric.utils import to_dense_adj, to_undirected

from gump.nn.models.grand import GRAND

GRAPHS = SYMMETRIC | {"random": random_graph(0), "empty": (torch.empty(2, 0, dtype=torch.long), 3)}


def setting(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    edges, num_nodes = GRAPHS[name]
    torch.manual_seed(0)
    return torch.randn(num_nodes, 8).double(), to_undirected(edges, num_nodes=num_nodes)


def matrix(model: GRAND, x: torch.Tensor, edge_index: torch.Tensor, **kwargs: torch.Tensor) -> torch.Tensor:
    """Attention as a dense matrix: row v holds the weights with which v gathers."""
    index, weight = model.attention(x, edge_index, **kwargs)
    return to_dense_adj(index, edge_attr=weight, max_num_nodes=len(x))[0].t()


def dense_attention(model: GRAND, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The same from the formula, with the weight of every edge."""
    query, key = model.lin_query(x).view(len(x), model.heads, -1), model.lin_key(x).view(len(x), model.heads, -1)
    heads = []
    for h in range(model.heads):
        score = query[:, h] @ key[:, h].t() / key.size(-1) ** 0.5
        value = weights * score.exp()
        heads.append(value / value.sum(1, keepdim=True))
    return torch.stack(heads).mean(0)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("weighted", [False, True])
def test_attention_is_its_formula_and_its_rows_sum_to_one(name: str, weighted: bool) -> None:
    x, edge_index = setting(name)
    model = GRAND(8, 8, 1).double()
    weight = torch.rand(edge_index.size(1)).double()
    given = {"edge_weight": weight} if weighted else {}
    weights = to_dense_adj(edge_index, edge_attr=weight if weighted else None, max_num_nodes=len(x))[0].double().t()
    weights = weights.fill_diagonal_(1.0)
    attention = matrix(model, x, edge_index, **given)
    assert (attention.sum(1) - 1).abs().max() < 1e-12
    assert (attention - dense_attention(model, x, weights)).abs().max() < 1e-12
    assert attention.min() >= 0


def test_an_edge_of_weight_zero_is_no_edge_and_leaves_every_gradient_finite() -> None:
    x, edge_index = setting("random")
    weight = torch.rand(edge_index.size(1), dtype=torch.float64) + 0.5
    weight[::3] = 0
    weight.requires_grad_()
    model = GRAND(8, 8, 2).double()
    out = model(x, edge_index, edge_weight=weight)
    keep = weight != 0
    assert (out - model(x, edge_index[:, keep], edge_weight=weight[keep])).abs().max() < 1e-12
    out.sin().sum().backward()
    assert weight.grad.isfinite().all()
    assert weight.grad[keep].abs().max() > 0


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_constant_states_rest(name: str, linear: bool, method: str) -> None:
    x, edge_index = setting(name)
    x = x[:1].expand_as(x)
    model = GRAND(8, 8, 10, linear=linear, method=method).double()
    assert (model.diffuse(x, edge_index) - x).abs().max() < 1e-12


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("step_size", [0.1, 1.0])
def test_no_value_leaves_the_range_of_its_neighborhood_in_a_step(name: str, linear: bool, step_size: float) -> None:
    x, edge_index = setting(name)
    model = GRAND(8, 8, 1, linear=linear, step_size=step_size).double()
    torch.nn.init.constant_(model.rate, 10.0)  # full speed
    seen = (to_dense_adj(edge_index, max_num_nodes=len(x))[0] > 0) | torch.eye(len(x), dtype=torch.bool)
    out = model.diffuse(x, edge_index)
    for v in range(len(x)):
        assert bool((out[v] <= x[seen[v]].amax(0) + 1e-12).all())
        assert bool((out[v] >= x[seen[v]].amin(0) - 1e-12).all())
    assert torch.equal(out[seen.sum(1) == 1], x[seen.sum(1) == 1])


def test_connected_states_become_equal_in_time() -> None:
    x, edge_index = setting("barbell")
    out = GRAND(8, 8, 3000).double().diffuse(x, edge_index)
    assert (out - out[0]).abs().max() < 1e-6


@pytest.mark.parametrize("name", GRAPHS)
def test_euler_steps_are_powers_of_a_matrix(name: str) -> None:
    x, edge_index = setting(name)
    model = GRAND(8, 8, 5, step_size=0.3).double()
    torch.nn.init.constant_(model.rate, 0.4)
    identity = torch.eye(len(x)).double()
    step = identity + 0.3 * torch.sigmoid(model.rate) * (matrix(model, x, edge_index) - identity)
    assert (model.diffuse(x, edge_index) - torch.linalg.matrix_power(step, 5) @ x).abs().max() < 1e-12


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("rk4", 4)])
def test_smaller_steps_approach_the_exponential_with_the_order_of_the_method(method: str, order: int) -> None:
    x, edge_index = setting("random")
    torch.manual_seed(0)
    model = GRAND(8, 8, 1, method=method).double()
    generator = torch.sigmoid(model.rate) * (matrix(model, x, edge_index) - torch.eye(len(x)).double())
    exact = torch.linalg.matrix_exp(2 * generator) @ x
    errors = []
    for num_layers in (4, 8):
        model.num_layers, model.step_size = num_layers, 2 / num_layers
        errors.append((model.diffuse(x, edge_index) - exact).norm())
    assert 2 ** (order - 0.5) < errors[0] / errors[1] < 2 ** (order + 0.5)


def test_the_nonlinear_kind_computes_attention_from_every_state() -> None:
    x, edge_index = setting("random")
    model = GRAND(8, 8, 3, linear=False, step_size=0.7).double()
    h = x
    for _ in range(3):
        h = h + 0.7 * 0.5 * (matrix(model, h, edge_index) @ h - h)
    assert (model.diffuse(x, edge_index) - h).abs().max() < 1e-12
    model.linear = True
    assert (model.diffuse(x, edge_index) - h).abs().max() > 1e-4


def test_the_first_states_may_be_a_source() -> None:
    x, edge_index = setting("empty")  # where nothing flows
    model = GRAND(8, 8, 4, source=True, step_size=0.5).double()
    assert model.source is not None
    torch.nn.init.constant_(model.source, 0.25)
    assert (model.diffuse(x, edge_index) - 1.5 * x).abs().max() < 1e-12


def test_the_model_is_a_linear_map_the_diffusion_and_a_nonlinearity() -> None:
    x, edge_index = setting("grid")
    model = GRAND(8, 8, 3, out_channels=2).double()
    expected = model.lin(torch.relu(model.diffuse(model.encoder(x), edge_index)))
    assert torch.equal(model(x, edge_index), expected)
    model = GRAND(8, 8, 3, dropout=0.9).double()
    assert (model(x, edge_index) == 0).double().mean() > (model.eval()(x, edge_index) == 0).double().mean()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_layers": 0}, r"'num_layers' must be at least 1 \(got 0\)"),
        ({"method": "dopri5"}, r"'method' must be one of 'euler', 'rk4' \(got 'dopri5'\)"),
        ({"heads": 3}, r"'attention_channels' must be a multiple of 'heads' \(got 8 and 3\)"),
    ],
)
def test_settings_that_do_not_exist_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GRAND(**{"in_channels": 3, "hidden_channels": 8, "num_layers": 2, **arguments})


def test_repr() -> None:
    expected = "GRAND(3, 8, num_layers=2, out_channels=8, linear=True, method='euler', step_size=1.0, heads=4)"
    assert repr(GRAND(3, 8, 2)) == expected
