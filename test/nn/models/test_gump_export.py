"""The model as engineers deploy it: exported, compiled, copied and saved."""

import copy
import io
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from graphs import SYMMETRIC, Graph, clique, grid, random_graph, star
from torch import Tensor
from torch._dynamo.testing import CompileCounter
from torch.func import functional_call

from gump import EulerianLineGraph
from gump.nn import GUMP, GraphPredictor, NodePredictor
from gump.nn.models.gump import CONVS

HUB = (star(6)[0], 8)
"""A vertex with six neighbors and one without any."""

SETTINGS: dict[str, tuple[Graph, dict[str, Any]]] = {
    **{name: (graph, {}) for name, graph in SYMMETRIC.items()},
    **{conv: (random_graph(0), {"conv": conv, "base": None if conv == "gcnii" else conv}) for conv in CONVS},
    **{coin: (clique(4), {"coin": coin}) for coin in ("polar", "newton_schulz", "near_identity", "perturbed", "scores", "grover")},
    "bilinear": (random_graph(1), {"scores": "bilinear", "norm": "layer", "base_norm": None, "jk": "weighted", "act": "gelu"}),
    "linear": (random_graph(0), {"conv": "gcnii", "theta": 0.0, "linear": True, "norm": None}),
    "hub": (HUB, {"max_block": 4}),
    "grover hub": (HUB, {"max_block": 4, "coin": "grover"}),
    "directed": (random_graph(2), {"directed": True, "edge_dim": 2, "residual": True}),
    "loop": ((torch.zeros(2, 1, dtype=torch.long), 2), {}),
    "no edges": ((torch.zeros(2, 0, dtype=torch.long), 3), {}),
}


class OnGraph(torch.nn.Module):
    """A model for the vertices of one graph."""

    def __init__(self, model: torch.nn.Module, edge_index: Tensor, line_graph: EulerianLineGraph) -> None:
        super().__init__()
        self.model, self.edge_index, self.line_graph = model, edge_index, line_graph

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x, self.edge_index, line_graph=self.line_graph)


def equal_and_random(num_nodes: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.ones(num_nodes, 3, dtype=torch.double), torch.randn(num_nodes, 3, dtype=torch.double, generator=generator)


def made(name: str) -> tuple[torch.nn.Module, Tensor, dict[str, Any]]:
    """A model in double precision, its edges, and what else it is given."""
    (edge_index, num_nodes), settings = SETTINGS[name]
    torch.manual_seed(0)
    model = GraphPredictor(GUMP(3, 8, 2, **settings), 2).double()
    given: dict[str, Any] = {"batch": torch.arange(num_nodes) // 4, "num_graphs": (num_nodes + 3) // 4}
    given["line_graph"] = EulerianLineGraph.from_edge_index(edge_index, num_nodes, settings.get("directed", False))
    if "edge_dim" in settings:
        given["edge_attr"] = torch.randn(edge_index.size(1), settings["edge_dim"], dtype=torch.double)
    return model, edge_index, given


def for_grid(
    height: int, width: int, transform: Callable[[Graph], Graph] = lambda graph: graph
) -> tuple[tuple[Tensor, Tensor], dict[str, Any]]:
    edge_index, num_nodes = transform(grid(height, width))
    x = torch.randn(num_nodes, 3, generator=torch.Generator().manual_seed(0))
    return (x, edge_index), {"line_graph": EulerianLineGraph.from_edge_index(edge_index, num_nodes)}


@pytest.mark.parametrize("name", SETTINGS)
def test_an_exported_program_answers_like_the_model_to_other_features(name: str) -> None:
    model, edge_index, given = made(name)
    equal, other = equal_and_random(given["line_graph"].num_nodes)
    program = torch.export.export(model.eval(), (equal, edge_index), given).module()
    for x in (other, 2 * equal):
        torch.testing.assert_close(program(x, edge_index, **given), model(x, edge_index, **given), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["gin", pytest.param("hub", marks=pytest.mark.slow)])
def test_a_strict_export_answers_like_the_model_too(name: str) -> None:
    model, edge_index, given = made(name)
    equal, other = equal_and_random(given["line_graph"].num_nodes)
    program = torch.export.export(model.eval(), (equal, edge_index), given, strict=True).module()
    torch.testing.assert_close(program(other, edge_index, **given), model(other, edge_index, **given), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["gin", "hub"])
def test_gradients_through_an_exported_program_are_those_of_the_model(name: str) -> None:
    model, edge_index, given = made(name)
    _, x = equal_and_random(given["line_graph"].num_nodes)
    program = torch.export.export(model.eval(), (x, edge_index), given).module()
    program(x, edge_index, **given).square().sum().backward()
    grads = {key: p.grad for key, p in program.named_parameters()}
    other = copy.deepcopy(model)
    other.zero_grad()
    other(x, edge_index, **given).square().sum().backward()
    for key, p in other.named_parameters():
        torch.testing.assert_close(grads[key], p.grad, rtol=1e-9, atol=1e-11)
    assert grads["encoder.coin.lin_score.weight"].abs().max() > 1e-6


@pytest.mark.parametrize("max_block", [4, 64])
def test_a_program_for_one_graph_can_be_saved_and_takes_features_alone(max_block: int) -> None:
    edge_index, num_nodes = HUB
    line_graph = EulerianLineGraph.from_edge_index(edge_index, num_nodes)
    model = NodePredictor(GUMP(3, 8, 2, max_block=max_block), 2).double().eval()
    equal, other = equal_and_random(num_nodes)
    file = io.BytesIO()
    torch.export.save(torch.export.export(OnGraph(model, edge_index, line_graph), (equal,)), file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    expected = model(
        other, edge_index, line_graph=line_graph
    )  # a second time with this line graph, of which nothing may be left of the first
    torch.testing.assert_close(loaded(other), expected, rtol=0, atol=1e-12)


def test_a_program_takes_every_graph_of_the_same_degrees_and_refuses_others() -> None:
    model, edge_index, given = made("barbell")
    line_graph = given["line_graph"]
    _, x = equal_and_random(line_graph.num_nodes)
    file = io.BytesIO()
    torch.export.save(torch.export.export(model.eval(), (x, edge_index), given), file)
    file.seek(0)
    program = torch.export.load(file).module()
    order = torch.randperm(line_graph.num_nodes, generator=torch.Generator().manual_seed(1))
    relabeled = order[edge_index]
    given |= {"line_graph": EulerianLineGraph.from_edge_index(relabeled, line_graph.num_nodes)}
    assert not torch.equal(given["line_graph"].arcs, line_graph.arcs)
    torch.testing.assert_close(program(x, relabeled, **given), model(x, relabeled, **given), rtol=0, atol=1e-12)
    fewer = relabeled[:, 1:]
    with pytest.raises(ValueError, match="exported input tree spec"):
        program(x, fewer, **given | {"line_graph": EulerianLineGraph.from_edge_index(fewer, line_graph.num_nodes)})


@pytest.mark.parametrize("max_block", [64, pytest.param(3, marks=pytest.mark.slow)])
def test_one_program_answers_for_graphs_of_any_size(max_block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = (("gump.nn.coin", "LARGE"), ("gump.nn.coin", "KEEP"), ("gump.linalg.low_rank_polar", "CHUNK"))
    for module, name in limits:  # beyond which the last of the graphs is
        monkeypatch.setattr(sys.modules[module], name, 2**18 if name == "LARGE" else 2**16)
    model = GUMP(3, 8, 2, max_block=max_block).eval()
    sizes = torch.export.AdditionalInputs()
    sizes.add(*for_grid(5, 7))
    args, kwargs = for_grid(4, 5)
    program = torch.export.export(model, args, kwargs, dynamic_shapes=sizes).module()
    for shape in ((5, 7), (4, 6), (20, 30)):
        args, kwargs = for_grid(*shape)
        torch.testing.assert_close(program(*args, **kwargs), model(*args, **kwargs))


@pytest.mark.slow
def test_with_cliques_apart_one_program_answers_for_graphs_of_any_degrees_up_to_theirs() -> None:
    def with_cliques(graph: Graph) -> Graph:
        """One of each degree up to four, so that every one of them occurs, and more than once."""
        edge_index, num_nodes = graph
        for size in range(2, 6):
            edge_index, num_nodes = torch.cat([edge_index, num_nodes + clique(size)[0]], dim=1), num_nodes + size
        return edge_index, num_nodes

    model = GUMP(3, 8, 2).eval()
    sizes = torch.export.AdditionalInputs()
    sizes.add(*for_grid(1, 9, lambda _: with_cliques(random_graph(3))))
    args, kwargs = for_grid(4, 5, with_cliques)
    program = torch.export.export(model, args, kwargs, dynamic_shapes=sizes).module()
    for graph in (star(4), SYMMETRIC["ring"], grid(3, 4)):
        (x, edge_index), kwargs = for_grid(1, 9, lambda _, graph=graph: with_cliques(graph))
        edges, num_nodes = graph
        torch.testing.assert_close(program(x, edge_index, **kwargs)[:num_nodes], model(x[:num_nodes], edges))


def test_exports_say_what_must_be_given() -> None:
    model, edge_index, given = made("gin")
    x, _ = equal_and_random(given["line_graph"].num_nodes)
    del given["num_graphs"]
    with pytest.raises(ValueError, match="'num_graphs' must be given with 'batch' to a model that is exported"):
        torch.export.export(model.eval(), (x, edge_index), given)
    del given["line_graph"]
    with pytest.raises(
        ValueError, match=r"'line_graph' must be given to a model that is exported.*pass line_graph=gump\.EulerianLineGraph"
    ):
        torch.export.export(model.eval(), (x, edge_index), given)
    with pytest.raises(
        torch._dynamo.exc.Unsupported, match=r"'line_graph' must be given to a model that is.*compiled with fullgraph=True"
    ):
        torch.compile(model, backend="eager", fullgraph=True)(x, edge_index, **given)


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("clique", "aot_eager"),
        ("gin", "eager"),
        ("polar", "eager"),
        ("hub", "eager"),
        *(pytest.param(name, "aot_eager", marks=pytest.mark.slow) for name in SETTINGS if name != "clique"),
        pytest.param("gin", "inductor", marks=pytest.mark.slow),
    ],
)
def test_compiled_it_trains_as_it_does_by_itself(name: str, backend: str) -> None:
    torch.compiler.reset()
    model, edge_index, given = made(name)
    other = copy.deepcopy(model)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    for x in equal_and_random(given["line_graph"].num_nodes):
        results = [answer(x, edge_index, **given) for answer in (compiled, other)]
        for result in results:
            result.square().sum().backward()
        torch.testing.assert_close(*results, rtol=1e-9, atol=1e-11)
    assert max(float(p.grad.abs().max()) for p in other.parameters() if p.grad is not None) > 1e-3
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-9, atol=1e-11)
    for b, c in zip(model.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(b, c)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_compiled_it_answers_without_gradients_as_it_does_by_itself(mode: Callable[[], Any]) -> None:
    torch.compiler.reset()
    model, edge_index, given = made("grid")
    _, x = equal_and_random(given["line_graph"].num_nodes)
    with mode():
        out = torch.compile(model.eval(), backend="eager", fullgraph=True)(x, edge_index, **given)
    torch.testing.assert_close(out, model(x, edge_index, **given), rtol=0, atol=1e-12)


def test_compiled_without_a_line_graph_it_builds_one_outside() -> None:
    torch.compiler.reset()
    model, edge_index, given = made("grid")
    _, x = equal_and_random(given.pop("line_graph").num_nodes)
    counter = CompileCounter()
    compiled = torch.compile(model.eval(), backend=counter)
    torch.testing.assert_close(compiled(x, edge_index, **given), model(x, edge_index, **given), rtol=0, atol=1e-12)
    assert counter.frame_count <= 3  # what comes before, what comes after, and the head


def test_graphs_of_the_same_degrees_are_compiled_twice_at_most() -> None:
    torch.compiler.reset()
    model, counter = GUMP(3, 8, 2).eval(), CompileCounter()
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    for shape in ((4, 5), (4, 6), (5, 7), (6, 6), (3, 8)):
        args, kwargs = for_grid(*shape)
        torch.testing.assert_close(compiled(*args, **kwargs), model(*args, **kwargs))
    assert counter.frame_count == 2


def saved(model: torch.nn.Module) -> torch.nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded: torch.nn.Module = torch.load(file, weights_only=False)
    return loaded


@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        lambda model: pickle.loads(pickle.dumps(model)),
        saved,
        lambda model: lambda *args, **kwargs: functional_call(model, model.state_dict(), args, kwargs),
    ],
    ids=["deepcopy", "pickle", "torch.save", "functional_call"],
)
@pytest.mark.parametrize("name", ["gin", "hub"])
def test_a_copy_of_a_trained_model_answers_like_it(name: str, copied: Callable[[torch.nn.Module], Callable[..., Tensor]]) -> None:
    model, edge_index, given = made(name)
    _, x = equal_and_random(given["line_graph"].num_nodes)
    model(x, edge_index, **given).square().sum().backward()
    other = copied(model.eval())
    assert torch.equal(other(x, edge_index, **given), model(x, edge_index, **given))
