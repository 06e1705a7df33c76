import importlib
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
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
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


def forget() -> None:
    """What a new process knows of the module: nothing."""
    for name in ("my_models", "my_layers"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()


def test_runs_with_other_code_are_not_put_beside_each_other_in_silence(folder: Path) -> None:
    runner = Runner(folder / "records")
    [first] = runner.run(own_config(), [0])
    (folder / "my_models.py").write_text(MODULE.replace("relu", "tanh"))
    forget()
    warning = r"000\.json had other code of my_models:Sage, or of a transform, than there is now; pass --overwrite"
    with pytest.warns(UserWarning, match=warning):
        assert list(runner.run(own_config(), [0])) == [first]
    with pytest.warns(UserWarning, match=warning):
        list(runner.run(own_config(), [1]))
    [again] = Runner(folder / "records", overwrite=True).run(own_config(), [0])
    assert (again.provenance["code"], again.history) != (first.provenance["code"], first.history)


def test_the_code_that_counts_is_the_code_that_runs(folder: Path) -> None:
    kind = MODELS["my_models:Sage"]
    before = outside_code([kind])
    (folder / "my_models.py").write_text(MODULE.replace("relu", "tanh"))
    assert outside_code([kind]) == before, "it was imported before"
    forget()
    assert outside_code([MODELS["my_models:Sage"]]) != before


def test_files_that_a_class_imports_from_its_folder_count(folder: Path) -> None:
    (folder / "my_layers.py").write_text("FACTOR = 2")
    (folder / "my_models.py").write_text("import my_layers\n" + MODULE)
    before = outside_code([MODELS["my_models:Sage"]])
    (folder / "my_layers.py").write_text("FACTOR = 3")
    forget()
    assert outside_code([MODELS["my_models:Sage"]]) != before


def test_weights_with_other_code_are_loaded_with_a_warning(folder: Path) -> None:
    list(Runner(folder / "records", keep_weights=True).run(own_config(), [0]))
    (folder / "my_models.py").write_text(MODULE.replace("relu", "tanh"))
    forget()
    with pytest.warns(UserWarning, match=r"000\.pt had other code of my_models:Sage"):
        load_trained(folder / "records/test/mine/000.pt")


def test_a_model_that_asks_for_no_batch_sees_embedded_categories(folder: Path) -> None:
    tables = tiny_tables(dataset={"categorical": True}) | {"model": {"kind": "my_models:Sage"}}
    with pytest.raises(ValueError, match=r"'embedding\.channels' must be given for a model without 'hidden_channels' \(got Sage\)"):
        list(Runner(folder / "a").run(make_configs("t", tables)[0], [0]))
    [record] = Runner(folder / "b").run(make_configs("t", tables | {"embedding": {"channels": 5}})[0], [0])
    assert record.status == "finished"


def test_a_model_that_must_be_told_its_width_is_as_wide_as_its_layers(folder: Path) -> None:
    (folder / "my_models.py").write_text(
        MODULE.replace("in_channels: int, width: int = 8", "in_channels, hidden_channels, out_channels").replace(
            "width", "out_channels"
        )
    )
    [record] = Runner(folder / "records").run(own_config(hidden_channels=6), [0])
    assert record.status == "finished"
    (folder / "my_models.py").write_text(MODULE.replace("width: int = 8", "out_channels").replace("width", "out_channels"))
    forget()
    with pytest.raises(ValueError, match=r"'head\.num_layers' must be 0 for my_models:Sage, whose 'out_channels' has no default"):
        own_config()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "self.conv(x, edge_index).relu()",
            "x, edge_index",
            r"must return a row of 8 numbers, its 'out_channels', for every vertex, .* \(got tuple from Sage\)",
        ),
        (
            "self.conv(x, edge_index).relu()",
            "self.conv(x, edge_index)[:3]",
            r"of which there are \d+ \(got shape \[3, 8\] from Sage\)",
        ),
        ("SAGEConv(in_channels, width)", "SAGEConv(in_channels, 5)", r"\(got shape \[\d+, 5\] from Sage\)"),
        ("width: int = 8", "width: float = float('inf')", r"'model\.width' must be something that a record can keep \(got inf"),
        ("width: int = 8", "width: int = 8, act=torch.relu", r"'model\.act' must be something that a record can keep"),
    ],
)
def test_models_that_do_something_else_are_refused_in_words(folder: Path, old: str, new: str, message: str) -> None:
    (folder / "my_models.py").write_text(MODULE.replace(old, new))
    with pytest.raises(ValueError, match=message):
        list(Runner(folder / "records").run(own_config(), [0]))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "my_modles:Sage",
            r"'model\.kind' 'my_modles:Sage' cannot be imported \(No module named 'my_modles'\); it must name a class as 'module:Class'",
        ),
        (".my_models:Sage", r"must name a class as 'module:Class'"),
        (
            "my_models.Sage",
            r"'model\.kind' cannot be 'my_models\.Sage' .*; a class that is not the library's is called 'module:Class'",
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
