from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_configs import tiny_config

from gump.datasets import fake_dataset
from gump.datasets.dataset import Dataset
from gump.experiment import preprocess
from gump.experiment.model import build_model
from gump.experiment.run import Runner
from gump.experiment.task import TASKS
from gump.experiment.units import Units, spread_of, units_of


def test_numbers_of_mean_zero_and_spread_one_become_those_of_the_targets() -> None:
    units = Units(2)
    units.fit(torch.tensor([[torch.nan, 5.0], [3000.0, torch.nan], [3200.0, 5.0]]))
    assert units(torch.tensor([[0.0, 0.0], [1.0, -1.0]])).tolist() == [[3100.0, 5.0], [3200.0, 4.0]]
    units.fit(torch.tensor([[1e-9], [3e-9]]).expand(2, 2))
    torch.testing.assert_close(units(torch.tensor([0.0, 2.0])), torch.tensor([2e-9, 4e-9]), rtol=1e-6, atol=0)
    assert not list(units.parameters()), "nothing of it is learned"


@pytest.mark.parametrize("num_layers", [0, 1, 2])
def test_a_regression_has_units_with_or_without_a_head_and_classes_have_none(num_layers: int) -> None:
    tables: dict[str, Any] = {"head": {"num_layers": num_layers}}
    data = fake_dataset(task="regression", num_targets=2, num_graphs=10)
    model = build_model(tiny_config(dataset={"task": "regression", "num_targets": 2}, **tables).settings, data)
    units = units_of(model)
    assert units is not None
    assert spread_of(model) is units.spread
    graph, before = data[0], model.eval()(data[0].x, data[0].edge_index)
    units.fit(torch.tensor([[3000.0, 5.0], [3200.0, 5.0]]))
    torch.testing.assert_close(model(graph.x, graph.edge_index), before * torch.tensor([100.0, 1.0]) + torch.tensor([3100.0, 5.0]))
    model.reset_parameters()  # type: ignore[operator]
    assert spread_of(build_model(tiny_config().settings, fake_dataset())) is None


def test_the_loss_is_that_of_standardized_numbers() -> None:
    out, y, spread = torch.tensor([[1.0, 100.0]]), torch.tensor([[3.0, torch.nan]]), torch.tensor([4.0, 50.0])
    assert TASKS["regression"].loss(out, y, spread) == 0.5
    assert TASKS["regression"].loss(out, torch.tensor([[3.0, 200.0]]), spread) == 1.25
    assert TASKS["regression"].judge(out, y) == 2.0, "which leaves the measure alone"


@pytest.mark.parametrize("num_replicas", [None, 2])
@pytest.mark.parametrize(("shift", "scale"), [(3000, 100), (0, 2**-30), (0, 2**60)])
def test_numbers_of_any_size_are_learned_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shift: float, scale: float, num_replicas: int | None
) -> None:
    fake = preprocess.DATASETS["fake"]
    config = tiny_config(
        dataset={"task": "regression", "num_targets": 1},
        protocol={"kind": "fresh", "num_runs": 2},
        train={"epochs": 8, "batch_size": 4, "lr": 1e-2},
    )
    plain = list(Runner(tmp_path / "plain", num_replicas=num_replicas).run(config))

    @wraps(fake)
    def moved(**settings: Any) -> Dataset:
        dataset = fake(**settings)
        for graph in dataset.graphs:
            graph.y = shift + scale * graph.y
        return dataset

    monkeypatch.setitem(preprocess.DATASETS, "fake", moved)
    for record, other in zip(Runner(tmp_path / "moved", num_replicas=num_replicas).run(config), plain, strict=True):
        assert record.results["last"]["test"] == pytest.approx(scale * other.results["last"]["test"], rel=0.02)
        assert record.history["train_loss"] == pytest.approx(other.history["train_loss"], rel=0.02)
        error = [abs(a - b) for a, b in zip(record.predictions["last"], record.predictions["target"], strict=True)]
        assert sum(error) / len(error) == pytest.approx(record.results["last"]["test"], rel=1e-3), "seven digits are kept"
