from dataclasses import replace
from typing import Any

import pytest
import torch
from fake_configs import tiny_config
from torch_geometric.data import Batch

from gump.datasets import fake_dataset
from gump.datasets.dataset import LEVELS, TASKS, Dataset
from gump.experiment.feed import GraphFeed, LinkFeed, NodeFeed
from gump.experiment.model import Embedded, build_model, check_rates, parts_with_rates, predict
from gump.experiment.protocol import Links, Official
from gump.experiment.registry import MODELS, takes_line_graph
from gump.experiment.store import GraphStore
from gump.experiment.task import TASKS as JUDGES
from gump.nn import GUMP, GraphPredictor, LinkPredictor, NodePredictor
from gump.nn.embedding import CategoricalEmbedding
from gump.transforms import AddPatches

KINDS = [(level, task) for level in LEVELS for task in TASKS if level != "link" or task == "binary"]


def first_batch(data: Dataset, line_graph: bool = False) -> Any:
    shuffle = torch.Generator().manual_seed(0)
    if data.level == "link":
        return next(LinkFeed(data, Links().split(data, 0), 0, line_graph, torch.device("cpu")).train_batches(shuffle))
    split = Official().split(data, 0)
    if data.level == "node":
        return next(NodeFeed(data[0], split, torch.device("cpu")).train_batches(shuffle))
    return next(GraphFeed(GraphStore(data.graphs), split, 6, data.level).train_batches(shuffle))


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize(("level", "task"), KINDS)
@pytest.mark.parametrize("kind", ["GUMP", "MPNN"])
def test_every_question_gets_answers_that_can_be_learned_from(kind: str, level: str, task: str, categorical: bool) -> None:
    data = fake_dataset(level, task, num_graphs=10, categorical=categorical, edge_features=True)
    settings = tiny_config(dataset={"level": level, "task": task}, model={"kind": kind}).settings
    torch.manual_seed(0)
    model, batch = build_model(settings, data), first_batch(data)
    assert isinstance(model, {"graph": GraphPredictor, "link": LinkPredictor}.get(level, NodePredictor))
    out = predict(model, batch)
    assert out.shape == (batch.y.size(0), data.num_targets)
    JUDGES[task].loss(out, batch.y).backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert gradients
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert any(gradient.ne(0).any() for gradient in gradients)


def test_what_the_model_answers_at_a_source_is_the_row_of_that_vertex() -> None:
    data = fake_dataset("source", num_graphs=10)
    model, batch = build_model(tiny_config(dataset={"level": "source"}).settings, data).eval(), first_batch(data)
    assert predict(model, batch).equal(model(batch.x, batch.edge_index)[batch.source_index])


def test_a_line_graph_that_was_built_before_gives_the_same_answers() -> None:
    data = fake_dataset("link", num_graphs=10)
    model = build_model(tiny_config(dataset={"level": "link"}).settings, data).double().eval()
    with_, without = first_batch(data, line_graph=True), first_batch(data)
    with_.x, without.x = with_.x.double(), without.x.double()
    assert torch.allclose(predict(model, with_), predict(model, without))
    assert takes_line_graph(GUMP)
    assert not takes_line_graph(MODELS["MPNN"])


def test_categories_are_embedded_as_wide_as_asked_for() -> None:
    data = fake_dataset(categorical=True, edge_features=True, num_graphs=10)
    model = build_model(tiny_config(embedding={"channels": 5}, model={"edge_dim": 3}).settings, data)
    encoder: Any = model.encoder
    assert isinstance(encoder, Embedded)
    assert (encoder.embedding.sizes, encoder.embedding.channels) == (data.x_sizes, 5)
    assert (encoder.edge_embedding.sizes, encoder.edge_embedding.channels) == (data.edge_sizes, 3)
    assert (encoder.encoder.in_channels, encoder.encoder.edge_dim) == (5, 3)
    batch = first_batch(data)
    by_hand = encoder.encoder(encoder.embedding(batch.x), batch.edge_index, edge_attr=encoder.edge_embedding(batch.edge_attr))
    assert encoder(batch.x, batch.edge_index, edge_attr=batch.edge_attr).equal(by_hand)
    plain: Any = build_model(tiny_config().settings, data).encoder
    assert (plain.embedding.channels, plain.edge_embedding) == (4, None)


def test_numbers_that_follow_categories_are_counted() -> None:
    data = fake_dataset(categorical=True, num_graphs=10)
    for graph in data:
        graph.x = torch.cat([graph.x.float(), torch.rand(graph.x.size(0), 2)], dim=1)
    encoder: Any = build_model(tiny_config().settings, data).encoder
    assert encoder.embedding.num_numeric == 2


def test_edge_attributes_reach_the_model_only_if_it_has_a_width_for_them() -> None:
    data = fake_dataset(edge_features=True, num_graphs=10)
    batch = first_batch(data)
    other = batch.clone()
    other.edge_attr = torch.zeros_like(batch.edge_attr)
    for width, same in ((0, True), (2, False)):
        torch.manual_seed(0)
        model = build_model(tiny_config(model={"edge_dim": width, "coin": "bounded"}).settings, data).eval()
        assert predict(model, batch).equal(predict(model, other)) == same


def test_a_wrong_width_of_edge_attributes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'model\.edge_dim' must be the number of edge features of fake, 2 \(got 3\)"):
        build_model(tiny_config(model={"edge_dim": 3}).settings, fake_dataset(edge_features=True))
    with pytest.raises(ValueError, match=r"'model\.edge_dim' must be the number of edge features of fake, 0 \(got 1\)"):
        build_model(tiny_config(model={"edge_dim": 1}).settings, fake_dataset())
    with pytest.raises(ValueError, match=r"edge features of fake, 2, or one more with their weights \(got 4\)"):
        build_model(tiny_config(model={"edge_dim": 4}).settings, weighted())


def weighted() -> Dataset:
    data = fake_dataset(edge_features=True, num_graphs=10)
    for graph in data:
        graph.edge_weight = torch.ones(graph.num_edges)
    return data


@pytest.mark.parametrize(("kind", "width"), [("GUMP", 2), ("GUMP", 3), ("NBAGNN", 2), ("GraphViT", 2), ("GraphViT", 3)])
def test_a_model_decides_whether_weights_are_among_the_edge_attributes(kind: str, width: int) -> None:
    data, own = weighted(), {"GUMP": {"base": "gcn"}, "GraphViT": {"heads": 1, "norm": None}}
    if kind == "GraphViT":
        data = replace(data, graphs=[AddPatches(4, method="bfs")(graph) for graph in data])
    model = build_model(tiny_config(model={"kind": kind, "edge_dim": width, **own.get(kind, {})}).settings, data)
    assert predict(model, first_batch(data)).isfinite().all()


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("kind", ["GUMP", "MPNN"])
def test_without_a_head_the_encoder_answers(kind: str, level: str) -> None:
    data = fake_dataset(level, num_graphs=10)
    config = tiny_config(dataset={"level": level}, head={"num_layers": 0}, model={"kind": kind})
    model, batch = build_model(config.settings, data), first_batch(data)
    assert isinstance(model.head, torch.nn.Identity)
    assert predict(model, batch).shape == (batch.y.size(0), data.num_targets)


def test_parts_with_rates_are_embeddings_and_base_network_then_the_coin_then_the_rest() -> None:
    data = fake_dataset(categorical=True, edge_features=True)
    model = build_model(tiny_config(model={"edge_dim": 4}).settings, data)
    parts = parts_with_rates(model)
    assert sum(map(len, parts.values())) == len(list(model.parameters()))
    assert {p for part in parts.values() for p in part} == set(model.parameters())
    starts = {
        "base": ("encoder.embedding.", "encoder.edge_embedding.", "encoder.encoder.encoder.", "encoder.encoder.base_norm."),
        "coin": ("encoder.encoder.coin.",),
    }
    for part, expected in starts.items():
        names = {name for name, parameter in model.named_parameters() if parameter in set(parts[part])}
        assert names == {name for name, _ in model.named_parameters() if name.startswith(expected)}
        assert all(any(name.startswith(prefix) for name in names) for prefix in expected)
    assert list(parts_with_rates(build_model(tiny_config(model={"kind": "MPNN"}).settings, fake_dataset()))) == [""]


@pytest.mark.parametrize("setting", ["coin_lr", "coin_weight_decay"])
@pytest.mark.parametrize("model", [{"kind": "GUMP", "coin": "grover"}, {"kind": "MPNN"}, {"kind": "ADGN"}])
def test_a_rate_of_coins_is_refused_where_there_are_none_with_parameters(model: dict[str, Any], setting: str) -> None:
    config = tiny_config(model=model, train={setting: 0.1})
    with pytest.raises(
        ValueError, match=rf"'train.{setting}' must be left out .* \(got 0\.1 for this \w+\); .* by coin_parameters\(\)"
    ):
        check_rates(build_model(config.settings, fake_dataset()), config.training)


@pytest.mark.parametrize("setting", ["base_lr", "base_weight_decay"])
def test_a_rate_of_the_base_is_refused_where_there_is_none(setting: str) -> None:
    config = tiny_config(model={"kind": "MPNN"}, train={setting: 0.1})
    with pytest.raises(ValueError, match=rf"'train\.{setting}' must be left out where a model has no base parameters"):
        check_rates(build_model(config.settings, fake_dataset()), config.training)


@pytest.mark.parametrize("rates", [{}, {"coin_lr": 0.1}, {"base_lr": 0.1, "coin_weight_decay": 0.0}])
def test_rates_of_what_there_is_are_taken(rates: dict[str, float]) -> None:
    config = tiny_config(model={"kind": "GUMP", "base": "gin"}, train=rates)
    check_rates(build_model(config.settings, fake_dataset()), config.training)


@pytest.mark.parametrize(
    "named",
    [
        lambda model: [*model.coin.parameters(), *model.coin.parameters()],
        lambda model: [torch.nn.Parameter(torch.ones(1))],
        lambda model: model.base_parameters(),
    ],
    ids=["twice", "of another", "of the base too"],
)
def test_parts_are_parameters_of_the_model_each_once(named: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny_config(model={"kind": "GUMP", "base": "gin"})
    monkeypatch.setattr(GUMP, "coin_parameters", named)
    with pytest.raises(ValueError, match="'coin_parameters' of GUMP must return parameters of the model, none of them twice"):
        check_rates(build_model(config.settings, fake_dataset()), config.training)


def test_a_batch_of_two_equals_two_singles() -> None:
    data = fake_dataset(num_graphs=5, categorical=True)
    torch.manual_seed(0)
    model = build_model(tiny_config().settings, data).double().eval()
    both = predict(model, Batch.from_data_list(data[:2]))
    singles = torch.cat([predict(model, Batch.from_data_list([graph])) for graph in data[:2]])
    assert torch.allclose(both, singles)


def test_new_weights_can_be_drawn() -> None:
    encoder = GUMP(4, 4, 1)
    model = Embedded(encoder, CategoricalEmbedding([3], 4), CategoricalEmbedding([2], 4))
    before = [p.detach().clone() for p in model.parameters() if p.dim() > 1]
    model.reset_parameters()
    assert all(not a.equal(b) for a, b in zip(before, (p for p in model.parameters() if p.dim() > 1), strict=True))
    model = Embedded(encoder, None)
    model.reset_parameters()


def test_a_model_that_does_not_keep_its_edge_dim_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgets(torch.nn.Module):
        out_channels = 3

        def __init__(self, in_channels: int, edge_dim: int = 0, **kwargs: Any) -> None:
            super().__init__()

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_attr: torch.Tensor | None = None) -> torch.Tensor:
            return x

    monkeypatch.setitem(MODELS, "Forgets", Forgets)
    settings = tiny_config().settings | {"model": {"kind": "Forgets", "edge_dim": 2, "hidden_channels": 3}}
    with pytest.raises(ValueError, match=r"'model.kind' must be one that keeps its 'edge_dim', .* \(got Forgets\)"):
        build_model(settings, fake_dataset(edge_features=True))


@pytest.mark.parametrize(
    "named",
    [lambda model: model.named_parameters(), lambda model: None, lambda model: [[]], {"a": 1}],
    ids=["with names", "none", "lists", "no method"],
)
def test_what_names_no_parameters_is_refused(named: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GUMP, "coin_parameters", named)
    with pytest.raises(ValueError, match="'coin_parameters' of GUMP must be a method that returns parameters"):
        parts_with_rates(build_model(tiny_config().settings, fake_dataset()))
