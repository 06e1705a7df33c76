"""Message-passing networks whose sums over neighbors are taken by a kernel."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from graphs import SYMMETRIC, random_graph, star
from torch.nn.utils.prune import l1_unstructured
from torch_geometric.explain import Explainer, GNNExplainer, ModelConfig

from gump import EulerianLineGraph
from gump.kernels import LAUNCHED
from gump.nn import GUMP
from gump.nn.models import MPNN
from gump.nn.models.mpnn import CONVS
from gump.nn.neighbors import Neighbors
from gump.nn.normalized_adjacency import normalized_adjacency

pytest.importorskip("triton", reason="needs Triton, to run kernels on a GPU or in its interpreter")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GRAPHS = {
    **SYMMETRIC,
    "random": random_graph(0),  # with self-loops and isolated vertices
    "hub": star(70),
    "no edges": (torch.empty(2, 0, dtype=torch.long), 3),
}
OURS = {"neighbor_sum", "linear"}
every_conv = pytest.mark.parametrize("conv", CONVS)


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has kernels interpreted where there is no GPU."""
    for module in ("neighbors", "linear"):
        monkeypatch.setattr(f"gump.nn.{module}.runs_kernels", lambda *tensors: all(x.dtype == torch.float32 for x in tensors))
    LAUNCHED.clear()


def line_graph_of(name: str) -> EulerianLineGraph:
    edge_index, num_nodes = GRAPHS[name]
    return EulerianLineGraph.from_edge_index(edge_index.to(DEVICE), num_nodes)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(DEVICE)


def model_of(conv: str, **settings: Any) -> MPNN:
    torch.manual_seed(0)
    return MPNN(3, 8, 3, out_channels=2, conv=conv, **settings).to(DEVICE)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_matrix_of_a_gcn_has_one_loop_at_every_vertex(name: str) -> None:
    line_graph = line_graph_of(name)
    index, weight = normalized_adjacency(line_graph.arcs, None, line_graph.num_nodes, torch.float)
    dense = torch.zeros(line_graph.num_nodes, line_graph.num_nodes, device=DEVICE).index_put(tuple(index), weight, accumulate=True)
    identity = torch.eye(line_graph.num_nodes, device=DEVICE)
    torch.testing.assert_close(Neighbors(line_graph).normalized(torch.float)(identity), dense)


@every_conv
@pytest.mark.parametrize("name", GRAPHS)
def test_a_model_with_sorted_edges_is_the_model_without_and_so_are_its_gradients(conv: str, name: str) -> None:
    line_graph, model, other = line_graph_of(name), model_of(conv), model_of(conv)
    x = normal(line_graph.num_nodes, 3).requires_grad_()
    if conv == "gin":
        for module in (*model.convs, *other.convs):
            module.sum.eps.fill_(0.3)
    expected = other(x, line_graph.arcs)
    assert not OURS & LAUNCHED
    out = model(x, line_graph.arcs, sorted_edges=line_graph)
    assert (OURS if conv == "gin" else {"neighbor_sum"}) == OURS & LAUNCHED
    torch.testing.assert_close(out, expected, atol=1e-4, rtol=1e-4)
    along = normal(*out.shape)
    ours = torch.autograd.grad(out, [x, *model.parameters()], along)
    theirs = torch.autograd.grad(expected, [x, *other.parameters()], along)
    torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(dict(model.named_buffers()), dict(other.named_buffers()), atol=1e-4, rtol=1e-4)


@every_conv
def test_padding_makes_no_difference(conv: str) -> None:
    line_graph = line_graph_of("ring")
    arcs = torch.cat([line_graph.arcs, torch.full((2, 2), 6, device=DEVICE)], dim=1)  # a vertex with two loops
    reverse = torch.cat([line_graph.reverse, torch.arange(12, 14, device=DEVICE)])
    every = torch.ones(14, dtype=torch.bool, device=DEVICE)
    padded = EulerianLineGraph(arcs, reverse, 7, {2: 7}, torch.arange(14, device=DEVICE), every)
    x, mask = normal(7, 3), torch.arange(7, device=DEVICE) < 6
    out = model_of(conv)(x, arcs, mask=mask, sorted_edges=padded)[:6]
    assert "neighbor_sum" in LAUNCHED
    torch.testing.assert_close(out, model_of(conv)(x[:6], line_graph.arcs), atol=1e-4, rtol=1e-4)


def hooked(model: MPNN) -> None:
    model.convs[1].register_forward_hook(lambda module, given, out: None)


def pruned(model: MPNN) -> None:
    layer = next(m for name, m in model.convs[0].named_modules() if name in ("lin", "lin1", "lin_rel"))
    l1_unstructured(layer, "weight", 0.5)


@every_conv
@pytest.mark.parametrize("watch", [hooked, pruned])
def test_a_model_into_which_someone_looks_takes_the_edges(conv: str, watch: Callable[[MPNN], None]) -> None:
    line_graph, model = line_graph_of("grid"), model_of(conv).eval()
    watch(model)
    x = normal(9, 3)
    out = model(x, line_graph.arcs, sorted_edges=line_graph)
    assert not OURS & LAUNCHED
    torch.testing.assert_close(out, model(x, line_graph.arcs))


@every_conv
def test_explainers_of_pyg_see_edges(conv: str) -> None:
    line_graph, model = line_graph_of("grid"), MPNN(2, 8, 1, conv=conv, out_channels=1, mlp_norm=None, act="tanh").to(DEVICE)
    config = ModelConfig(mode="regression", task_level="node", return_type="raw")
    algorithm = GNNExplainer(epochs=2, lr=0.1)
    explainer = Explainer(model, algorithm, explanation_type="model", edge_mask_type="object", model_config=config)
    mask = explainer(normal(9, 2), line_graph.arcs, index=0, sorted_edges=line_graph).edge_mask
    assert mask[line_graph.arcs[1] == 0].min() > 0


@every_conv
def test_other_edges_weights_and_relations_take_the_edges(conv: str) -> None:
    line_graph, model = line_graph_of("grid"), model_of(conv).eval()
    x, weight = normal(9, 3), torch.rand(line_graph.num_arcs, device=DEVICE)
    there = [
        (model, line_graph.arcs.clone(), {}),
        (model, line_graph.arcs[:, :-2], {}),
        (model_of(conv, num_relations=2).eval(), line_graph.arcs, {"edge_type": (weight > 0.5).long()}),
        (model_of(conv).double().eval(), line_graph.arcs, {}),
    ]
    there += [] if conv == "gin" else [(model, line_graph.arcs, {"edge_weight": weight})]
    for each, edges, given in there:
        x = x.to(next(each.parameters()).dtype)
        torch.testing.assert_close(each(x, edges, sorted_edges=line_graph, **given), each(x, edges, **given))
    assert not OURS & LAUNCHED
    x = normal(9, 3)
    out = model(x, line_graph.arcs, edge_weight=weight if conv == "gin" else None, sorted_edges=line_graph)
    assert "neighbor_sum" in LAUNCHED
    torch.testing.assert_close(out, model(x, line_graph.arcs), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("directed", [False, True])
def test_the_base_of_gump_sums_over_neighbors_as_well(directed: bool) -> None:
    edge_index, num_nodes = GRAPHS["grid"]
    torch.manual_seed(0)
    model = GUMP(3, 8, 2, base="graph", directed=directed).to(DEVICE)
    model.start(normal(num_nodes, 3), edge_index.to(DEVICE))
    assert ("neighbor_sum" in LAUNCHED) is not directed
