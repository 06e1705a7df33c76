"""What the model is given: what it refuses, in whose words, and what it makes of types."""

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from graphs import SYMMETRIC, random_graph
from torch.func import functional_call, vmap
from torch_geometric.data import Data

from gump import EulerianLineGraph
from gump.nn import GUMP, MPNN, Coin
from gump.nn.models.gump import CONVS

EDGES, NUM_NODES = random_graph(0)
X = torch.randn(NUM_NODES, 3, generator=torch.Generator().manual_seed(0))

FEATURES: list[tuple[Any, str]] = [
    (X[:, :2], r"'x' must have 3 columns, the model's in_channels \(got 2\)"),
    (X.long(), r"'x' must be real floating-point features \(got torch.int64\); call .float\(\)"),
    (X[:, 0], rf"'x' must have shape \[num_nodes, in_channels\] \(got \[{NUM_NODES}\]\); call x.unsqueeze\(-1\)"),
    (X.unsqueeze(0), r"'x' must have shape \[num_nodes, in_channels\] \(got \[1, \d+, 3\]\)$"),
    (X.double(), r"'x' must have the type of the model, torch.float32 \(got torch.float64\); call x.to\(torch.float32\)"),
    (X.tolist(), r"'x' must be a tensor \(got list\)"),
]
MODELS = {
    "gump": lambda: GUMP(3, 8, 2),
    "gump without base": lambda: GUMP(3, 8, 2, base=None),
    "gump with orthogonal weights": lambda: GUMP(3, 8, 2, orthogonal_weights=True),
    "mpnn": lambda: MPNN(3, 8, 2),
    "gin": lambda: MPNN(3, 8, 2, conv="gin"),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("x", "message"), FEATURES)
def test_features_that_do_not_fit_are_refused(name: str, x: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MODELS[name]()(x, EDGES)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("edge_index", [EDGES.tolist(), EDGES.numpy(), EDGES.int(), EDGES.t()])
def test_edges_that_do_not_fit_are_refused(name: str, edge_index: Any) -> None:
    with pytest.raises(ValueError, match=r"'edge_index' must (be a tensor|hold integers of type torch.long|have shape)"):
        MODELS[name]()(X, edge_index)


@pytest.mark.parametrize("edge_index", [EDGES.tolist(), EDGES.numpy(), EDGES.int()])
def test_also_where_the_line_graph_is_given(edge_index: Any) -> None:
    with pytest.raises(ValueError, match="'edge_index' must"):
        GUMP(3, 8, 2)(X, edge_index, line_graph=EulerianLineGraph.from_edge_index(EDGES, NUM_NODES))


def test_replicas_side_by_side_are_checked_as_one() -> None:
    model = GUMP(3, 8, 2).eval()
    state = {key: torch.stack([value, 2 * value]) for key, value in model.state_dict().items()}
    line_graph = EulerianLineGraph.from_edge_index(EDGES, NUM_NODES)

    def run(state: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return functional_call(
            model, state, (x, EDGES), {"line_graph": line_graph, "mask": torch.ones(NUM_NODES, dtype=torch.bool)}
        )

    assert vmap(run)(state, torch.stack([X, X])).shape == (2, NUM_NODES, 16)
    with pytest.raises(ValueError, match="'x' must have 3 columns"):
        vmap(run)(state, torch.stack([X, X])[..., :2])


@pytest.mark.parametrize("name", MODELS)
def test_a_mask_that_leaves_out_more_than_padding_is_refused(name: str) -> None:
    model = MODELS[name]().eval()
    everything = torch.ones(NUM_NODES, dtype=torch.bool)
    torch.testing.assert_close(model(X, EDGES, mask=everything), model(X, EDGES))
    for mask in (everything.long(), everything[1:]):
        with pytest.raises(ValueError, match=rf"'mask' must have one boolean for each of {NUM_NODES} vertices \(got"):
            model(X, EDGES, mask=mask)
    everything[EDGES[1, (EDGES[0] != EDGES[1]).nonzero()[0]]] = False
    with pytest.raises(ValueError, match=r"'mask' must leave out padding alone, .* \(got an edge from \d+ to \d+\)"):
        model(X, EDGES, mask=everything)


def test_what_is_no_line_graph_is_refused() -> None:
    with pytest.raises(TypeError, match=r"'line_graph' must be a gump.EulerianLineGraph \(got Data\)"):
        GUMP(3, 8, 2)(X, EDGES, line_graph=Data(edge_index=EDGES, num_nodes=NUM_NODES))  # type: ignore[arg-type]


def test_with_a_mask_too_a_line_graph_of_other_edges_is_refused() -> None:
    line_graph = EulerianLineGraph.from_edge_index(EDGES, NUM_NODES)
    with pytest.raises(ValueError, match=r"'line_graph' must be that of 'edge_index' \(got that of other edges\)"):
        GUMP(3, 8, 2)(X, EDGES.flip(1), line_graph=line_graph, mask=torch.ones(NUM_NODES, dtype=torch.bool))


@pytest.mark.parametrize("name", ["gump", "mpnn"])
def test_a_replica_of_data_parallel_which_has_no_parameters_runs(name: str) -> None:
    model = MODELS[name]().eval()
    expected = model(X, EDGES)
    for module in model.modules():  # as torch.nn.DataParallel makes them: weights are tensors, and parameters none
        for key, value in list(module._parameters.items()):
            del module._parameters[key]
            module.__dict__[key] = None if value is None else value.detach()
    assert not list(model.parameters())
    assert torch.equal(model(X, EDGES), expected)


def test_a_nonlinearity_there_must_be() -> None:
    with pytest.raises(ValueError, match=r"'act' must be the name of a nonlinearity \(got None\)"):
        GUMP(3, 8, 2, act=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("num_columns", [1, 3])
def test_edge_weights_are_one_number_each_and_not_attributes(num_columns: int) -> None:
    attributes = torch.ones(EDGES.size(1), num_columns)
    message = rf"'edge_weight' must be one number for each edge \(got shape \[{EDGES.size(1)}, {num_columns}\]\); pass attributes as edge_attr="
    with pytest.raises(ValueError, match=message):
        GUMP(3, 8, 2)(X, EDGES, attributes)


@pytest.mark.parametrize("given", ["edge_weight", "edge_attr"])
def test_what_has_the_wrong_length_is_called_by_its_name(given: str) -> None:
    model = GUMP(3, 8, 2, edge_dim=int(given == "edge_attr"))
    with pytest.raises(ValueError, match=rf"'{given}' must have one row for each of the {EDGES.size(1)} edges \(got 2\)"):
        model(X, EDGES, **{given: torch.ones(2)})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"in_channels": 0}, r"'in_channels' must be at least 1 \(got 0\)"),
        ({"in_channels": -1}, r"'in_channels' must be at least 1 \(got -1\)"),
        ({"out_channels": 0}, r"'out_channels' must be at least 1 \(got 0\)"),
        ({"hidden_channels": 8.0}, r"'hidden_channels' must be an integer \(got 8.0\)"),
        ({"num_layers": "2"}, r"'num_layers' must be an integer \(got '2'\)"),
    ],
)
@pytest.mark.parametrize("model", [GUMP, MPNN])
def test_sizes_that_do_not_exist_are_refused(model: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(**{"in_channels": 3, "hidden_channels": 8, "num_layers": 2, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attention_channels": 0}, r"'attention_channels' must be at least 1 \(got 0\)"),
        ({"num_steps": 2.5}, r"'num_steps' must be an integer \(got 2.5\)"),
        ({"num_steps": -1}, r"'num_steps' must be at least 0 \(got -1\)"),
        ({"max_block": 0}, r"'max_block' must be at least 1 \(got 0\)"),
    ],
)
def test_so_are_coins(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GUMP(3, 8, 2, **arguments)
    with pytest.raises(ValueError, match=message):
        Coin(16, **arguments)


def test_sizes_may_come_from_numpy() -> None:
    assert GUMP(np.int64(3), 8, np.int32(2))(X, EDGES).shape == (NUM_NODES, 16)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_the_result_has_the_type_of_the_features(dtype: torch.dtype) -> None:
    for base, conv, norm, out_channels in itertools.product(("gcn", "gin", None), CONVS, ("batch", None), (None, 5)):
        model = GUMP(3, 8, 2, out_channels, base=base, conv=conv, norm=norm)
        with torch.autocast("cpu", dtype=dtype):
            results = model(X, EDGES, return_arcs=True)
        assert {r.dtype for r in results} == {torch.float32}, (base, conv, norm, out_channels)
        assert all(r.isfinite().all() for r in results)
    with torch.autocast("cpu", dtype=dtype), pytest.raises(ValueError, match="'x' must have the type of the model"):
        model(X.double(), EDGES)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_half_precision_it_trains_but_not_under_autocast_nor_with_orthogonal_weights(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, x = GUMP(3, 8, 2, max_block=2, norm="layer"), X.to(dtype)
    expected = model(X, EDGES)
    out = model.to(dtype)(x, EDGES)
    torch.testing.assert_close(out.float(), expected, rtol=0.1, atol=0.05)
    out.float().square().sum().backward()
    assert all(p.grad.isfinite().all() and p.grad.any() for p in model.coin.parameters())
    with (
        torch.autocast("cpu", dtype=dtype),
        pytest.raises(ValueError, match=r"a model must have single precision under autocast \(got"),
    ):
        model(x, EDGES)
    model = GUMP(3, 8, 2, orthogonal_weights=True)
    with torch.autocast("cpu", dtype=dtype):
        assert model(x, EDGES).isfinite().all()
    with pytest.raises(ValueError, match=rf"'orthogonal_weights' must be False for a model of type {dtype} \(got True\)"):
        model.to(dtype)(x, EDGES)


def test_a_line_graph_from_inference_mode_can_be_trained_with() -> None:
    with torch.inference_mode():
        line_graph = EulerianLineGraph.from_edge_index(EDGES, NUM_NODES)
    model = GUMP(3, 8, 2)
    model(X, EDGES, line_graph=line_graph).sum().backward()
    assert model.coin.lin_score.weight.grad is not None


def test_orthogonal_weights_are_saved_by_their_state() -> None:
    model, other = (GUMP(3, 8, 2, orthogonal_weights=True).eval() for _ in range(2))
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(model)
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other(X, EDGES), model(X, EDGES))


def relabeling_error(name: str, equal_features: bool, num_layers: int = 20, **settings: Any) -> float:
    """By how much a relabeling of the vertices changes what a model in training mode says of them."""
    edge_index, num_nodes = SYMMETRIC[name]
    torch.manual_seed(0)
    x = torch.ones(num_nodes, 3).double() if equal_features else torch.randn(num_nodes, 3).double()
    model = GUMP(3, 8, num_layers, **settings).double().train()
    label = torch.randperm(num_nodes)
    with torch.no_grad():
        return float((model(x[label.argsort()], label[edge_index])[label] - model(x, edge_index)).abs().max())


@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("norm", ["layer", None])
def test_in_training_mode_too_equal_vertices_stay_equal_without_batch_norm(name: str, norm: str | None) -> None:
    assert relabeling_error(name, equal_features=True, norm=norm, base_norm=norm) < 1e-10
    assert relabeling_error(name, equal_features=False, norm=norm, base_norm=norm) < 1e-10


@pytest.mark.parametrize("name", SYMMETRIC)
def test_with_batch_norm_it_takes_vertices_that_differ(name: str) -> None:
    assert relabeling_error(name, equal_features=False, base=None) < 1e-10


@pytest.mark.parametrize("conv", ["gcn", "gin"])
@pytest.mark.parametrize("name", SYMMETRIC)
def test_on_a_cpu_batch_norm_does_not_make_something_of_rounding(name: str, conv: str) -> None:
    assert relabeling_error(name, equal_features=True, num_layers=5, conv=conv, base=conv) < 1e-7
