import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from fake_configs import TINY, tiny_tables
from torch_geometric.transforms import BaseTransform

from gump.experiment.config import Config, make_configs
from gump.experiment.outside import Kinds, outside_code
from gump.experiment.registry import MODELS
from gump.experiment.run import Runner
from gump.experiment.trained import load_trained
from gump.nn import GUMP

MODULE = """
import torch
from torch_geometric.nn import SAGEConv
from torch_geometric.transforms import BaseTransform


class Sage(torch.nn.Module):
    def __init__(self, in_channels: int, width: int = 8):
        super().__init__()
        self.conv, self.out_channels = SAGEConv(in_channels, width), width

    def forward(self, x, edge_index):
        return self.conv(x, edge_index).relu()


class Twice(BaseTransform):
    def __init__(self, factor: float = 2.0):
        self.factor = factor

    def forward(self, data):
        data.x = self.factor * data.x
        return data


class Nameless(torch.nn.Module):
    def __init__(self, width: int = 8):
        super().__init__()


number = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The present folder, with a module of models in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_models.py").write_text(MODULE)
    yield tmp_path
    sys.modules.pop("my_models", None)


def own_config(kind: str = "my_models:Sage", **model: object) -> Config:
    tables = tiny_tables() | {"model": {"kind": kind, **model}}
    return make_configs("test/mine", tables)[0]


def test_a_model_of_ones_own_is_trained_and_found_again(folder: Path) -> None:
    config = own_config(width=4)
    assert config.settings["model"] == {"kind": "my_models:Sage", "width": 4}
    [record] = Runner(folder / "records", keep_weights=True).run(config, [0])
    assert record.status == "finished"
    assert record.provenance["code"] == outside_code([MODELS["my_models:Sage"]])
    trained = load_trained(folder / "records/test/mine/000.pt")
    assert type(trained.model.encoder).__name__ == "Sage"


def test_transforms_of_ones_own_are_applied(folder: Path) -> None:
    plain, twice = (tiny_tables() | {"transform": chain} for chain in ([], [{"kind": "my_models:Twice", "factor": 3.0}]))
    records = [
        next(iter(Runner(folder / name).run(make_configs("t", tables)[0], [0]))) for name, tables in (("a", plain), ("b", twice))
    ]
    assert records[0].history != records[1].history
    assert "code" not in records[0].provenance
    assert records[1].provenance["code"]


def test_models_of_pyg_are_named_the_same_way(tmp_path: Path) -> None:
    config = own_config("torch_geometric.nn:GraphSAGE", hidden_channels=8, num_layers=2)
    [record] = Runner(tmp_path).run(config, [0])
    assert record.status == "finished"
    assert "code" not in record.provenance, "its version is among those of packages"


def test_runs_with_other_code_are_not_put_beside_each_other_in_silence(folder: Path) -> None:
    runner = Runner(folder / "records")
    list(runner.run(own_config(), [0]))
    (folder / "my_models.py").write_text(MODULE.replace("relu", "tanh"))
    with pytest.warns(UserWarning, match=r"000\.json and 0 others were made with other code of my_models:Sage"):
        list(runner.run(own_config(), [1]))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "my_modles:Sage",
            r"'model\.kind' 'my_modles:Sage' must name a class as 'module:Class', .* \(No module named 'my_modles'\)",
        ),
        (":Sage", r"must name a class as 'module:Class'"),
        ("my_models:Saga", r"must be a class that inherits from torch\.nn\.modules\.module\.Module \(got nothing of that name\)"),
        ("my_models:number", r"must be a class that inherits from .*Module \(got 3\)"),
        ("my_models:Twice", r"must be a class that inherits from .*Module \(got <class 'my_models\.Twice'>\)"),
        (
            "my_models:Nameless",
            r"'model\.kind' must be a class whose arguments have 'in_channels' among them \(got my_models:Nameless\)",
        ),
    ],
)
def test_what_is_no_model_is_refused(folder: Path, kind: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        own_config(kind)


def test_settings_of_ones_own_are_checked_like_others(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"'model\.widht' is not a setting \(did you mean 'model\.width'\?\)"):
        own_config(widht=3)
    with pytest.raises(ValueError, match=r"'head\.num_layers' must be at least 1: my_models:Sage has no argument 'out_channels'"):
        make_configs("t", tiny_tables() | {"model": {"kind": "my_models:Sage"}, "head": {"num_layers": 0}})


def test_installed_modules_come_before_files_of_the_present_folder(folder: Path) -> None:
    (folder / "torch_geometric.py").write_text("raise RuntimeError('not this one')")
    assert MODELS["torch_geometric.nn:GCN"].__module__.startswith("torch_geometric.nn")
    assert sys.path[-1] == str(folder)


def test_names_without_a_module_are_the_librarys() -> None:
    kinds = Kinds(torch.nn.Module, {"GUMP": GUMP})
    assert "GUMP" in kinds
    assert "GIN" not in kinds
    assert "a:b" in kinds
    assert list(kinds) == ["GUMP"]
    with pytest.raises(KeyError):
        kinds["GIN"]
    assert outside_code([GUMP, BaseTransform]) == ""
    assert TINY["model"]["kind"] in MODELS
