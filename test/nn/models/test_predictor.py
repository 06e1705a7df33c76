import re
from collections.abc import Callable

import pytest
import torch
from graphs import random_graph, ring
from torch import Tensor
from torch.nn.functional import gelu
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCN

from gump.nn import GUMP, MPNN, GraphPredictor, LinkPredictor, NodePredictor
from gump.nn.models.predictor import POOLS


def encoder() -> GUMP:
    torch.manual_seed(0)
    return GUMP(3, 8, 2)


def test_a_graph_is_predicted_from_the_mean_of_its_vertices() -> None:
    batch = Batch.from_data_list([Data(x=torch.randn(n, 3), edge_index=ring(n)[0]) for n in (4, 7)])
    model = GraphPredictor(encoder(), 2).eval()
    x = model.encoder(batch.x, batch.edge_index)
    expected = model.head(torch.stack([x[:4].mean(0), x[4:].mean(0)]))
    assert torch.allclose(model(batch.x, batch.edge_index, batch=batch.batch), expected, atol=1e-6)


def arsinh_of_sum(x: torch.Tensor, dim: int, keepdim: bool) -> torch.Tensor:
    total = x.sum(dim, keepdim=keepdim)
    return total.sign() * (total.abs() + (total**2 + 1).sqrt()).log()


@pytest.mark.parametrize(("pool", "reduce"), [("sum", torch.sum), ("max", torch.amax), ("log_sum", arsinh_of_sum)])
def test_other_pools(pool: str, reduce: Callable[..., torch.Tensor]) -> None:
    edge_index, num_nodes = ring(5)
    x = torch.randn(num_nodes, 3)
    model = GraphPredictor(encoder(), 2, pool=pool).eval()
    expected = model.head(reduce(model.encoder(x, edge_index), 0, keepdim=True))
    assert torch.allclose(model(x, edge_index), expected, atol=1e-6)


@pytest.mark.parametrize("pool", ["mean", "sum", "log_sum"])
def test_padding_is_left_out_of_a_pool(pool: str) -> None:
    edge_index, num_nodes = ring(5)
    x, model = torch.randn(num_nodes, 3), GraphPredictor(encoder(), 2, pool=pool).eval()
    padding = {
        "batch": torch.zeros(num_nodes + 2, dtype=torch.long),
        "mask": torch.tensor([True] * num_nodes + [False] * 2),
        "num_graphs": 1,
    }
    padded = model(torch.cat([x, torch.full((2, 3), 7.0)]), edge_index, **padding)
    assert torch.allclose(padded, model(x, edge_index), atol=1e-6)


def test_graphs_without_vertices_at_the_end_are_counted() -> None:
    edge_index, num_nodes = ring(5)
    batch = torch.zeros(num_nodes, dtype=torch.long)
    assert GraphPredictor(encoder(), 2)(torch.randn(num_nodes, 3), edge_index, batch=batch, num_graphs=3).shape == (3, 2)


def test_a_vertex_is_predicted_from_itself() -> None:
    edge_index, num_nodes = random_graph(0)
    x = torch.randn(num_nodes, 3)
    model = NodePredictor(encoder(), 4).eval()
    assert torch.equal(model(x, edge_index), model.head(model.encoder(x, edge_index)))
    assert model(x, edge_index).shape == (num_nodes, 4)


def test_a_pair_has_one_answer_in_both_orders() -> None:
    edge_index, num_nodes = random_graph(0)
    x = torch.randn(num_nodes, 3)
    pairs = torch.tensor([[0, 1, 2], [3, 4, 2]])
    model = LinkPredictor(encoder()).eval()
    out = model(x, edge_index, edge_label_index=pairs)
    assert out.shape == (3, 1)
    assert torch.equal(out, model(x, edge_index, edge_label_index=pairs.flip(0)))
    assert (out[0] - out[1]).abs() > 1e-6


@pytest.mark.parametrize("kind", [GraphPredictor, NodePredictor, LinkPredictor])
def test_any_encoder_that_tells_its_width_will_do(kind: type[GraphPredictor]) -> None:
    edge_index, num_nodes = random_graph(0)
    pairs = {"edge_label_index": edge_index} if kind is LinkPredictor else {}
    model = kind(GCN(3, 8, 2), 2)
    model.reset_parameters()
    model(torch.randn(num_nodes, 3), edge_index, **pairs).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    with pytest.raises(ValueError, match=r"'encoder' must tell the width of its output as 'out_channels' \(got Linear\)"):
        kind(torch.nn.Linear(3, 8), 2)


def test_an_encoder_that_does_not_ask_for_the_batch_is_not_given_it() -> None:
    class Plain(torch.nn.Module):
        out_channels = 3

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return x

    edge_index, num_nodes = random_graph(0)
    batch = torch.zeros(num_nodes, dtype=torch.long)
    assert GraphPredictor(Plain(), 2)(torch.randn(num_nodes, 3), edge_index, batch=batch).shape == (1, 2)


def test_the_head_has_the_nonlinearity_that_it_was_given() -> None:
    edge_index, num_nodes = random_graph(0)
    x = torch.randn(num_nodes, 3)
    model = NodePredictor(encoder(), 2, num_layers=3, act="gelu").eval()
    first, second, last = model.head.lins
    expected = last(gelu(second(gelu(first(model.encoder(x, edge_index))))))
    torch.testing.assert_close(model(x, edge_index), expected)


@pytest.mark.parametrize("kind", [GraphPredictor, NodePredictor, LinkPredictor])
def test_what_the_head_is_given_can_be_dropped(kind: type[GraphPredictor]) -> None:
    edge_index, num_nodes = random_graph(0)
    model, seen = kind(encoder(), 2, num_layers=1, input_dropout=0.5), []
    model.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model.encoder.register_forward_hook(lambda *_: torch.ones(num_nodes, 16))
    more = {"edge_label_index": edge_index} if kind is LinkPredictor else {}
    for training in (True, False):
        model.train(training)(torch.randn(num_nodes, 3), edge_index, **more)
    assert set(seen[0].unique().tolist()) == {0.0, 2.0}, "what is left makes up for it"
    assert set(seen[1].unique().tolist()) == {1.0}
    with pytest.raises(ValueError, match=r"^'input_dropout' must be a probability below 1 \(got 1\.5\)$"):
        kind(encoder(), 2, input_dropout=1.5)


def test_an_unknown_pool_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'pool' must be one of 'mean', 'sum', 'log_sum', 'max' \(got 'median'\)"):
        GraphPredictor(encoder(), 2, pool="median")


@pytest.mark.parametrize("shape", [[4], [6], [5, 1]])
@pytest.mark.parametrize("padded", [False, True])
def test_a_batch_of_other_vertices_is_refused(shape: list[int], padded: bool) -> None:
    edge_index, num_nodes = ring(5)
    mask = {"mask": torch.ones(num_nodes, dtype=torch.bool), "num_graphs": 1} if padded else {}
    message = rf"'batch' must have one entry for each of 5 vertices \(got {re.escape(str(shape))}\)"
    with pytest.raises(ValueError, match=message):
        GraphPredictor(encoder(), 2)(torch.randn(num_nodes, 3), edge_index, batch=torch.zeros(shape, dtype=torch.long), **mask)


@pytest.mark.parametrize(
    ("batch", "num_graphs", "error"),
    [
        (torch.tensor([0, 0, 1]).int(), None, r"'batch' must hold integers of type torch.long \(got torch.int32\); call .long\(\)"),
        (torch.tensor([0.0, 0, 1]), None, r"'batch' must hold integers of type torch.long \(got torch.float32\)"),
        (torch.tensor([0, 0, 1]), 1, r"'num_graphs' must be above the number of every graph in 'batch', 1 \(got 1\)"),
    ],
)
def test_a_batch_that_does_not_tell_the_graphs_is_refused(batch: torch.Tensor, num_graphs: int | None, error: str) -> None:
    model = GraphPredictor(GUMP(2, 4, 1), 3)
    with pytest.raises(ValueError, match=error):
        model(torch.ones(3, 2), torch.tensor([[0], [1]]), batch=batch, num_graphs=num_graphs)


@pytest.mark.parametrize("pair", [[0, 3], [-1, 0]])
def test_pairs_of_vertices_that_are_not_there_are_refused(pair: list[int]) -> None:
    model = LinkPredictor(GUMP(2, 4, 1), 1)
    with pytest.raises(ValueError, match=r"'edge_label_index' must name vertices from 0 to 2 \(got "):
        model(torch.ones(3, 2), torch.tensor([[0], [1]]), edge_label_index=torch.tensor(pair).view(2, 1))


def test_the_number_of_graphs_without_the_graph_of_every_vertex_is_refused() -> None:
    edge_index, num_nodes = ring(6)
    model, x = GraphPredictor(encoder(), 2), torch.randn(num_nodes, 3)
    with pytest.raises(ValueError, match=r"'batch' must tell the graph of every vertex for num_graphs=3 \(got None\)"):
        model(x, edge_index, num_graphs=3)
    assert model(x, edge_index, num_graphs=1).shape == (1, 2)


@pytest.mark.parametrize("shape", [(3, 2), (2,), (2, 3, 1)])
def test_pairs_that_are_not_two_rows_are_refused(shape: tuple[int, ...]) -> None:
    edge_index, num_nodes = ring(6)
    with pytest.raises(
        ValueError, match=rf"'edge_label_index' must have shape \[2, num_pairs\] \(got {re.escape(str(list(shape)))}\)"
    ):
        LinkPredictor(encoder())(torch.randn(num_nodes, 3), edge_index, edge_label_index=torch.zeros(shape, dtype=torch.long))


def test_pairs_are_not_looked_up_among_the_rows_of_graphs() -> None:
    pooled = GraphPredictor(encoder(), 4)
    edge_index, num_nodes = ring(6)
    with pytest.raises(ValueError, match=r"'encoder' must return a row of 4 numbers.* for every vertex, of which there are 6"):
        LinkPredictor(pooled)(torch.randn(num_nodes, 3), edge_index, edge_label_index=torch.zeros(2, 1, dtype=torch.long))


def test_resetting_draws_what_the_nonlinearity_of_the_head_has_learned_too() -> None:
    model = NodePredictor(encoder(), 2, act="prelu")
    before = [parameter.clone() for parameter in model.head.parameters()]
    torch.nn.init.ones_(model.head.act.weight)
    model.reset_parameters()
    assert model.head.act.weight.item() == 0.25
    assert all(not torch.equal(old, new) for old, new in zip(before, model.head.parameters(), strict=True) if old.dim() > 1)


def test_repr() -> None:
    assert repr(NodePredictor(GUMP(3, 8, 2), 4)).startswith("NodePredictor(GUMP(3, 8, num_layers=2,")


def test_an_encoder_that_takes_a_mask_and_no_batch_is_given_none() -> None:
    class Plain(torch.nn.Module):
        out_channels = 3

        def forward(self, x: Tensor, edge_index: Tensor, mask: Tensor | None = None) -> Tensor:
            return x

    x, edge_index = torch.randn(5, 3), torch.empty(2, 0, dtype=torch.long)
    model, batch, mask = GraphPredictor(Plain(), 2), torch.tensor([0, 0, 1, 1, 1]), torch.tensor([True, True, True, True, False])
    out = model(x, edge_index, batch=batch, num_graphs=2, mask=mask)
    torch.testing.assert_close(out, model(x[:4], edge_index, batch=batch[:4], num_graphs=2))


@pytest.mark.parametrize("pool", POOLS)
def test_one_graph_without_vertices_is_answered_as_it_is_in_a_batch(pool: str) -> None:
    torch.manual_seed(0)
    model = GraphPredictor(MPNN(3, 8, 2), 1, pool=pool).eval()
    x, edge_index = torch.empty(0, 3), torch.empty(2, 0, dtype=torch.long)
    expected = model(x, edge_index, batch=torch.empty(0, dtype=torch.long), num_graphs=1)
    assert expected.isfinite().all()
    for given in ({}, {"num_graphs": 1}):
        assert torch.equal(model(x, edge_index, **given), expected)
