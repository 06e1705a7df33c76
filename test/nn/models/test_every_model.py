"""One law over every model that is exported. A new one joins with a line in MODELS, and one in PREPARE if it needs more of a graph than its
edges."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from graphs import SYMMETRIC, random_graph
from torch.func import functional_call, stack_module_state, vmap
from torch.utils.checkpoint import checkpoint
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import Compose

from gump.nn import models
from gump.nn.models import (
    ADGN,
    ENCODERS,
    GCNII,
    GPS,
    GRAND,
    GRIT,
    GUMP,
    KGCNSSM,
    MPNN,
    NBAGNN,
    DRewGCN,
    Exphormer,
    GraphMLPMixer,
    GraphPredictor,
    GraphViT,
    NodePredictor,
    OrthoGCN,
    UnitaryGCN,
)
from gump.transforms import AddHops, AddPatches, AddRRWP

PATCHES: dict[str, Any] = {"num_patch_layers": 2}
MODELS: dict[str, Callable[[int, int], torch.nn.Module]] = {
    "gcn": lambda channels, hidden: MPNN(channels, hidden, 3, conv="gcn"),
    "gin": lambda channels, hidden: MPNN(channels, hidden, 3, conv="gin"),
    "graph": lambda channels, hidden: MPNN(channels, hidden, 3, conv="graph"),
    "gcn with norm and residual": lambda channels, hidden: MPNN(channels, hidden, 3, norm="batch", residual=True),
    "gcn with feed forward": lambda channels, hidden: MPNN(channels, hidden, 3, norm="batch", feed_forward=True),
    "relational gcn": lambda channels, hidden: MPNN(channels, hidden, 3, conv="gcn", num_relations=2),
    "relational gin": lambda channels, hidden: MPNN(channels, hidden, 3, conv="gin", num_relations=2),
    "gcnii": lambda channels, hidden: GCNII(channels, hidden, 4),
    "adgn": lambda channels, hidden: ADGN(channels, hidden, 4),
    "adgn sum": lambda channels, hidden: ADGN(channels, hidden, 4, aggregation="sum", shared=False),
    "grand linear": lambda channels, hidden: GRAND(channels, hidden, 3, source=True),
    "grand nonlinear": lambda channels, hidden: GRAND(channels, hidden, 3, linear=False, method="rk4"),
    "ortho_gcn": lambda channels, hidden: OrthoGCN(channels, hidden, 3),
    "ortho_gcn with norm": lambda channels, hidden: OrthoGCN(channels, hidden, 3, norm="batch"),
    "drew_gcn": lambda channels, hidden: DRewGCN(channels, hidden, 3),
    "drew_gcn without delay": lambda channels, hidden: DRewGCN(channels, hidden, 3, delay=None, self_loops=True, l2_norm=True),
    "kgcn_ssm": lambda channels, hidden: KGCNSSM(channels, hidden, 3),
    "kgcn_ssm exact": lambda channels, hidden: KGCNSSM(channels, hidden, 3, exact=True),
    "nba gcn": lambda channels, hidden: NBAGNN(channels, hidden, 3, conv="gcn"),
    "nba gin": lambda channels, hidden: NBAGNN(channels, hidden, 3, conv="gin", norm="layer"),
    "nba with batch norm": lambda channels, hidden: NBAGNN(channels, hidden, 3, norm="batch"),
    "unitary": lambda channels, hidden: UnitaryGCN(channels, hidden, 3, unitary=True),
    "unitary real": lambda channels, hidden: UnitaryGCN(channels, hidden, 3, real=True, norm="layer"),
    "unitary lie": lambda channels, hidden: UnitaryGCN(channels, hidden, 3, lie=True, norm="batch"),
    "unitary lie real": lambda channels, hidden: UnitaryGCN(channels, hidden, 3, lie=True, real=True, residual=True),
    "gps gcn": lambda channels, hidden: GPS(channels, hidden, 2, conv="gcn", norm="layer"),
    "gps gin": lambda channels, hidden: GPS(channels, hidden, 2),
    "gps gine": lambda channels, hidden: GPS(channels, hidden, 2, conv="gine", edge_dim=2),
    "gps gated": lambda channels, hidden: GPS(channels, hidden, 2, conv="gated", edge_dim=2, norm=None),
    "gps performer": lambda channels, hidden: GPS(channels, hidden, 2, heads=2, attention="performer"),
    "grit": lambda channels, hidden: GRIT(channels, hidden, 2, num_steps=5),
    "grit with edge attributes": lambda channels, hidden: GRIT(channels, hidden, 2, num_steps=5, edge_dim=2, norm="layer"),
    "exphormer": lambda channels, hidden: Exphormer(channels, hidden, 2, num_virtual_nodes=2),
    "exphormer with edge attributes": lambda channels, hidden: Exphormer(channels, hidden, 2, conv="gine", edge_dim=2),
    "exphormer attention": lambda channels, hidden: Exphormer(channels, hidden, 2, conv=None, num_virtual_nodes=0, norm=None),
    "exphormer virtual": lambda channels, hidden: Exphormer(channels, hidden, 2, expander=False, norm="layer"),
    "graph_vit": lambda channels, hidden: GraphViT(channels, hidden, 2, heads=2, **PATCHES),
    "graph_vit with edge attributes": lambda channels, hidden: GraphViT(
        channels, hidden, 2, heads=2, edge_dim=2, exchange=True, **PATCHES
    ),
    "graph_mlp_mixer": lambda channels, hidden: GraphMLPMixer(channels, hidden, 2, num_patches=4, **PATCHES),
    "graph_mlp_mixer exchange": lambda channels, hidden: GraphMLPMixer(
        channels, hidden, 2, num_patches=4, exchange=True, norm="layer", **PATCHES
    ),
    "gump gcn": lambda channels, hidden: GUMP(channels, hidden, 3),
    "gump gin": lambda channels, hidden: GUMP(channels, hidden, 3, conv="gin", base="gin"),
    "gump with edge attributes": lambda channels, hidden: GUMP(channels, hidden, 3, conv="graph", edge_dim=2, norm="layer"),
    "gump with feed forward": lambda channels, hidden: GUMP(
        channels, hidden, 3, num_base_layers=2, feed_forward=True, base_feed_forward=True
    ),
}
"""From the width of the vertex features and the width inside, which is even and a multiple of four, to a small model."""


def with_edge_type(data: Data) -> Data:
    """An edge is of the second type if it joins vertices with different marks."""
    source, target = data.edge_index
    data.edge_type = (data.mark[source] + data.mark[target]) % 2
    return data


def with_edge_attr(data: Data) -> Data:
    """An edge carries the marks of its ends."""
    data.edge_attr = data.mark[data.edge_index].t().double()
    return data


def with_second_neighbors(data: Data) -> Data:
    """Stands in for an expander, since a random one would not follow a relabeling: vertices two steps apart."""
    step = torch.zeros(data.num_nodes, data.num_nodes).index_put_(tuple(data.edge_index), torch.ones(1))
    data.expander_index = (step @ step).fill_diagonal_(0).nonzero().t()
    return data


PREPARE: dict[str, Callable[[Data], Data]] = {
    "relational gcn": with_edge_type,
    "relational gin": with_edge_type,
    **{name: AddHops(max_distance=3) for name in ("drew_gcn", "drew_gcn without delay", "kgcn_ssm", "kgcn_ssm exact")},
    **dict.fromkeys(("gps gine", "gps gated"), with_edge_attr),
    "grit": AddRRWP(5),
    "grit with edge attributes": Compose([with_edge_attr, AddRRWP(5)]),
    **dict.fromkeys(("exphormer", "exphormer attention"), with_second_neighbors),
    "exphormer with edge attributes": Compose([with_edge_attr, with_second_neighbors]),
    **dict.fromkeys(("graph_vit", "graph_mlp_mixer", "graph_mlp_mixer exchange"), AddPatches(4, method="bfs")),
    "graph_vit with edge attributes": Compose([with_edge_attr, AddPatches(4, method="bfs")]),
    "gump with edge attributes": with_edge_attr,
}
"""What a model needs to be put on the graph first: a transform."""

OF_PATCHES = {name for name in MODELS if name.startswith(("graph_vit", "graph_mlp_mixer"))}
NOT_UNDER_VMAP = {
    "nba gcn",
    "nba gin",
    "nba with batch norm",
    *OF_PATCHES,
    "gump gcn",
    "gump gin",
    "gump with edge attributes",
    "gump with feed forward",
}
"""Models whose forward pass cannot run under ``torch.func.vmap``; GUMP and NBA-GNN can if they are given their line graph, see
``test_replicas.py``."""

NOT_IN_FORWARD: dict[str, set[str]] = {"ortho_gcn": {"scale"}, "ortho_gcn with norm": {"scale"}}
"""Parameters that the forward pass does not use, such as those of a regularizer."""

EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
EMPTY = torch.empty(2, 0, dtype=torch.long)
GRAPHS = SYMMETRIC | {
    "random": random_graph(0),
    "no edges": (EMPTY, 3),
    "one vertex": (EMPTY, 1),
    "one edge": (torch.tensor([[0], [1]]), 2),
}


def graph_of(name: str, graph: str, equal_features: bool = False, seed: int = 0) -> Data:
    """A graph in both directions, ready for the model; every vertex carries a mark, which is no input."""
    edges, num_nodes = GRAPHS[graph]
    generator = torch.Generator().manual_seed(seed)
    x = torch.ones(num_nodes, 3) if equal_features else torch.randn(num_nodes, 3, generator=generator)
    data = Data(x=x.double(), edge_index=torch.cat([edges, edges.flip(0)], dim=1))
    data.mark = torch.randint(2, (num_nodes,), generator=generator)
    return PREPARE.get(name, lambda d: d)(data)


def relabeled(name: str, data: Data) -> tuple[Data, torch.Tensor]:
    """The same graph with other numbers for its vertices: vertex v becomes label[v]."""
    label = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(1))
    back = label.argsort()
    other = Data(x=data.x[back], edge_index=label[data.edge_index], mark=data.mark[back])
    if name in OF_PATCHES:  # partitions depend on numbers, so that the very patches are carried over
        for key in ("edge_attr", "patch_index", *(k for k in data.to_dict() if "patch" in k)):
            if key in data:
                other[key] = label[data[key]] if key == "patch_index" else data[key]
        return other, label
    return PREPARE.get(name, lambda d: d)(other), label


def model_of(name: str, hidden_channels: int = 8) -> torch.nn.Module:
    torch.manual_seed(0)
    return MODELS[name](3, hidden_channels).double()


def inputs(model: torch.nn.Module, data: Data) -> dict[str, Any]:
    """Every attribute of the graph that the model's forward pass names, as a trainer would pass them."""
    encoder = getattr(model, "encoder", model) if isinstance(model, GraphPredictor | NodePredictor) else model
    return {key: data[key] for key in inspect.signature(encoder.forward).parameters if key in data}


def test_every_model_that_is_exported_is_here() -> None:
    assert {type(model_of(name)).__name__ for name in MODELS} == set(ENCODERS)


@EVERY_MODEL
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("equal_features", [True, False])
def test_relabeling_permutes_the_output_and_nothing_else(name: str, graph: str, equal_features: bool) -> None:
    data = graph_of(name, graph, equal_features)
    other, label = relabeled(name, data)
    model = model_of(name).eval()
    out, out2 = model(**inputs(model, data)), model(**inputs(model, other))
    if not getattr(model, "pools", False):
        assert out.shape == (data.num_nodes, model.out_channels)
        out2 = out2[label]
    assert (out - out2).abs().max() < 1e-9


@EVERY_MODEL
def test_a_batch_of_graphs_equals_its_members(name: str) -> None:
    members = [graph_of(name, graph, seed=k) for k, graph in enumerate(GRAPHS)]
    batch = Batch.from_data_list(members)
    model = model_of(name).eval()
    alone = torch.cat([model(**inputs(model, member)) for member in members])
    assert (model(**inputs(model, batch)) - alone).abs().max() < 1e-9


def padded(data: Data) -> tuple[Data, torch.Tensor]:
    """The same graph with four vertices of padding in between, of which two have edges, to themselves; vertex v becomes place[v]."""
    generator = torch.Generator().manual_seed(2)
    place, padding = torch.randperm(data.num_nodes + 4, generator=generator).split([data.num_nodes, 4])
    x = 100 * torch.randn(data.num_nodes + 4, 3, generator=generator).double()
    loops = padding[[0, 1, 1]].expand(2, -1)
    rows = {key: torch.cat([data[key], data[key][:3]]) for key in ("edge_attr", "edge_type") if key in data}
    mask = torch.ones(len(x), dtype=torch.bool).index_fill(0, padding, False)
    edge_index = torch.cat([place[data.edge_index], loops], dim=1)
    return Data(x=x.index_copy(0, place, data.x), edge_index=edge_index, mask=mask, **rows), place


@pytest.mark.parametrize("name", [name for name in MODELS if "mask" in inspect.signature(model_of(name).forward).parameters])
@pytest.mark.parametrize("graph", ["random", "star"])
def test_padding_that_a_mask_leaves_out_makes_no_difference_in_training(name: str, graph: str) -> None:
    data, model, other = graph_of(name, graph), model_of(name), model_of(name)
    among, place = padded(data)
    out, out2 = model(**inputs(model, data)), other(**inputs(other, among))[place]
    assert (out - out2).abs().max() < 1e-9
    for result in (out, out2):
        result.sin().sum().backward()
    for (key, value), value2 in zip(model.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(value2.grad, value.grad, atol=1e-8, rtol=1e-8, msg=key)
    torch.testing.assert_close(dict(other.named_buffers()), dict(model.named_buffers()))


@pytest.mark.parametrize("name", [name for name in MODELS if name not in OF_PATCHES])
@pytest.mark.parametrize("training", [True, False])
def test_a_graph_without_vertices_has_no_answers(name: str, training: bool) -> None:
    data = Data(x=torch.empty(0, 3).double(), edge_index=EMPTY.clone(), mark=torch.empty(0, dtype=torch.long), num_nodes=0)
    model, data = model_of(name).train(training), PREPARE.get(name, lambda d: d)(data)
    assert model(**inputs(model, data)).shape == (0, model.out_channels)


@EVERY_MODEL
def test_edges_matter(name: str) -> None:
    data = graph_of(name, "grid")
    bare = PREPARE.get(name, lambda d: d)(Data(x=data.x, edge_index=EMPTY, mark=data.mark))
    model = model_of(name).eval()
    assert (model(**inputs(model, data)) - model(**inputs(model, bare))).abs().max() > 1e-3


@EVERY_MODEL
@pytest.mark.parametrize("graph", ["random", "clique", "one edge", "no edges", "one vertex"])
def test_gradients_reach_every_parameter_and_are_finite(name: str, graph: str) -> None:
    data = graph_of(name, graph)
    model = model_of(name)
    model(**inputs(model, data)).square().sum().backward()
    for parameter, value in model.named_parameters():
        if parameter in NOT_IN_FORWARD.get(name, ()):
            continue
        assert value.grad is not None, parameter
        assert value.grad.isfinite().all(), parameter


class Wrapped(torch.nn.Module):
    """A linear layer as an adapter or a quantized layer has it: without a weight to read."""

    def __init__(self, layer: torch.nn.Linear) -> None:
        super().__init__()
        self.layer, self.num_calls = layer, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert isinstance(x, torch.Tensor)
        self.num_calls += 1
        return self.layer(x)


@EVERY_MODEL
@pytest.mark.parametrize("graph", ["random", "star"])
def test_what_is_put_in_the_place_of_a_linear_layer_is_called(name: str, graph: str) -> None:
    data, model = graph_of(name, graph), model_of(name).eval()
    expected, wrapped = model(**inputs(model, data)), []
    for module in list(model.modules()):
        for key, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear) and not isinstance(
                module, torch.nn.MultiheadAttention
            ):  # torch reads weights there
                wrapped.append(Wrapped(child))
                setattr(module, key, wrapped[-1])
    torch.testing.assert_close(model(**inputs(model, data)), expected)
    assert all(layer.num_calls for layer in wrapped)


@EVERY_MODEL
def test_made_without_memory_they_are_filled_by_reset_parameters(name: str) -> None:
    model = model_of(name)
    for value in [*model.parameters(), *model.buffers()]:
        if value.is_floating_point():
            value.data.fill_(float("nan"))
    model.reset_parameters()
    for key, value in [*model.named_parameters(), *model.named_buffers()]:
        assert value.isfinite().all(), key


@EVERY_MODEL
def test_states_that_are_computed_again_give_the_same_gradients(name: str) -> None:
    data, model, other = graph_of(name, "random"), model_of(name), model_of(name)
    given = inputs(model, data)
    model(**given).square().sum().backward()
    checkpoint(lambda x: other(**{**given, "x": x}), given["x"], use_reentrant=False).square().sum().backward()
    for (key, value), value2 in zip(model.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(value2.grad, value.grad, msg=key)


@EVERY_MODEL
def test_under_autocast_they_train(name: str) -> None:
    data = graph_of(name, "random").apply(lambda value: value.float() if value.dtype == torch.double else value)
    model = model_of(name).float()
    expected = model(**inputs(model, data))
    model.load_state_dict(model_of(name).float().state_dict())
    with torch.autocast("cpu", torch.bfloat16):
        out = model(**inputs(model, data))
        loss = out.float().square().sum()
    assert (out - expected).norm() < 0.1 * expected.norm()
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@EVERY_MODEL
@pytest.mark.parametrize("kind", [GraphPredictor, NodePredictor])
def test_steps_of_an_optimizer_lower_the_loss(name: str, kind: type[GraphPredictor] | type[NodePredictor]) -> None:
    encoder = model_of(name)
    if getattr(encoder, "pools", False) and kind is NodePredictor:
        pytest.skip("answers about graphs only")
    torch.manual_seed(0)
    model = kind(encoder, 2).double()
    batch = Batch.from_data_list([graph_of(name, graph, seed=k) for k, graph in enumerate(["star", "clique", "ring", "grid"])])
    y = torch.arange(batch.num_graphs if kind is GraphPredictor else batch.num_nodes) % 2
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        given = inputs(model, batch) | {"batch": batch.batch}
        losses.append(torch.nn.functional.cross_entropy(model(**given), y))
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < losses[0]


@EVERY_MODEL
def test_replicas_run_side_by_side_under_vmap(name: str) -> None:
    if name in NOT_UNDER_VMAP:
        pytest.skip("shapes or the number of operations depend on the data")
    graphs = [graph_of(name, "ring"), relabeled(name, graph_of(name, "ring", seed=1))[0]]
    models = []
    for seed in range(2):
        torch.manual_seed(seed)
        models.append(MODELS[name](3, 8).double().eval())
    given = [inputs(models[0], graph) for graph in graphs]
    together = {key: torch.stack([g[key] for g in given]) for key in given[0]}
    out = vmap(lambda state, kwargs: functional_call(models[0], state, (), kwargs))(stack_module_state(models), together)
    for k in range(2):
        assert (out[k] - models[k](**given[k])).abs().max() < 1e-10


@EVERY_MODEL
def test_reset_parameters_draws_new_ones(name: str) -> None:
    model = model_of(name)
    before = {key: value.clone() for key, value in model.named_parameters()}
    model.reset_parameters()
    after = dict(model.named_parameters())
    drawn = [key for key, value in after.items() if value.unique().numel() > 1]
    assert any(after[key].dim() > 1 for key in drawn)
    assert all(not torch.equal(before[key], after[key]) for key in drawn)


@EVERY_MODEL
def test_resetting_after_training_equals_a_new_start(name: str) -> None:
    model, data = model_of(name), graph_of(name, "grid")
    model(**inputs(model, data)).square().sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    model.reset_parameters()
    fresh = dict(MODELS[name](3, 8).named_parameters())
    for key, value in model.named_parameters():
        if value.dim() < 2 and fresh[key].unique().numel() == 1:  # those that start from a constant
            assert torch.equal(value, fresh[key].to(value)), key


@EVERY_MODEL
def test_the_width_of_the_result_is_told_and_obeyed(name: str) -> None:
    model = model_of(name, 12).eval()
    assert isinstance(model.out_channels, int)
    assert model(**inputs(model, graph_of(name, "grid"))).size(-1) == model.out_channels


@EVERY_MODEL
def test_repr_is_one_line_with_the_name(name: str) -> None:
    model = model_of(name)
    assert repr(model).startswith(f"{type(model).__name__}(3, 8, ")
    assert "\n" not in repr(model)


@pytest.mark.parametrize("argument", ["in_channels", "hidden_channels", "num_layers", "out_channels"])
@pytest.mark.parametrize("name", ENCODERS)
def test_sizes_of_which_nothing_can_be_made_are_refused_in_words(name: str, argument: str) -> None:
    sizes = {"in_channels": 3, "hidden_channels": 8, "num_layers": 2, "out_channels": 2}
    for wrong, message in ((0, "must be at least 1 (got 0)"), (1.5, "must be an integer (got 1.5)")):
        with pytest.raises(ValueError, match=re.escape(f"'{argument}' {message}")):
            getattr(models, name)(**{**sizes, argument: wrong})


@pytest.mark.parametrize("name", ENCODERS)
def test_resetting_draws_what_a_nonlinearity_has_learned_too(name: str) -> None:
    model = getattr(models, name)(in_channels=3, hidden_channels=8, num_layers=2, out_channels=2, act="prelu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7)
    model.reset_parameters()
    assert not [name for name, parameter in model.named_parameters() if bool((parameter == 7).all())]
