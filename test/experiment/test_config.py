import math
from pathlib import Path
from typing import Any

import pytest
from fake_configs import TINY, tiny_config, tiny_tables, write_toml

from gump.experiment.config import complete, config_files, load_config, load_configs, made_by, make_configs, side_by_side
from gump.experiment.protocol import Official
from gump.experiment.training import Training


def test_every_default_is_filled_in(tmp_path: Path) -> None:
    [config] = load_config(write_toml(tmp_path / "configs/a/b.toml", tiny_tables()))
    assert (config.name, config.variant, config.title, config.published) == ("a/b", "", "a/b", {})
    assert config.settings["train"]["weight_decay"] == Training().weight_decay
    assert config.settings["model"]["coin"] == "bounded"
    assert config.settings["head"] == {"pool": "mean", "num_layers": 2, "dropout": 0.0, "act": "relu", "input_dropout": 0.0}
    assert config.settings["embedding"] == {"channels": None}
    assert "root" not in config.settings["dataset"]
    assert config.protocol == Official(num_runs=2)
    assert config.training == Training(**TINY["train"])


def test_a_file_in_no_folder_of_configurations_is_called_by_its_own_name(tmp_path: Path) -> None:
    assert load_config(write_toml(tmp_path / "mine.toml", tiny_tables()))[0].name == "mine"
    nested = write_toml(tmp_path / "configs/old/configs/x.toml", tiny_tables())
    assert load_config(nested)[0].name == "x"


def test_the_head_is_that_of_the_level() -> None:
    assert "pool" not in tiny_config(dataset={"level": "node"}).settings["head"]
    with pytest.raises(ValueError, match=r"'head\.pool' is not a setting"):
        tiny_config(dataset={"level": "link", "task": "binary"}, protocol={"kind": "links"}, head={"pool": "sum"})


def test_overrides_replace_settings_and_are_the_variant() -> None:
    [config] = make_configs("a", tiny_tables(), {"train.lr": 1, "model.base": "none", "head.num_layers": 1})
    assert (config.settings["train"]["lr"], config.settings["model"]["base"], config.settings["head"]["num_layers"]) == (
        1.0,
        None,
        1,
    )
    assert config.title == "a [head.num_layers=1,model.base=none,train.lr=1]"


def test_the_order_of_overrides_does_not_matter() -> None:
    one, other = ({"train.lr": 0.5, "train.epochs": 7}, {"train.epochs": 7, "train.lr": 0.5})
    assert make_configs("a", tiny_tables(), one) == make_configs("a", tiny_tables(), other)


def test_a_variant_is_one_folder() -> None:
    [config] = make_configs("a", tiny_tables(), {"model.act": "re/lu"})
    assert config.variant == "model.act=re_lu"


def test_settings_of_transforms_are_called_by_their_position() -> None:
    tables = tiny_tables() | {"transform": [{"kind": "AddRandomWalkPE", "walk_length": 3}]}
    [config] = make_configs("a", tables, {"transform.0.walk_length": 5})
    assert config.settings["transform"][0]["walk_length"] == 5
    assert tables["transform"][0]["walk_length"] == 3
    for key in ("transform.walk_length", "transform.0", "transform.².walk_length"):
        with pytest.raises(ValueError, match=f"'{key}' is not a setting; those of transforms are called transform.0.NAME"):
            make_configs("a", tables, {key: 5})
    with pytest.raises(ValueError, match=r"'transform.1.walk_length' must be a setting of a transform that .* from 0 \(it has 1\)"):
        make_configs("a", tables, {"transform.1.walk_length": 5})


def test_a_transform_is_applied_once_unless_it_says_otherwise() -> None:
    walks = {"kind": "AddRandomWalkPE", "walk_length": 3}
    [config] = make_configs("a", tiny_tables() | {"transform": [walks, walks | {"when": "batch"}]})
    assert [transform["when"] for transform in config.settings["transform"]] == ["once", "batch"]
    with pytest.raises(ValueError, match=r"'transform.0.when' must be one of \('once', 'batch'\) \(got 'never'\)"):
        make_configs("a", tiny_tables() | {"transform": [walks | {"when": "never"}]})


def test_a_configuration_knows_its_file_from_the_present_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, outside = (write_toml(tmp_path / path, tiny_tables()) for path in ("here/configs/a.toml", "there/a.toml"))
    monkeypatch.chdir(tmp_path / "here")
    assert [load_config(path)[0].path for path in (inside, "configs/a.toml", outside)] == ["configs/a.toml"] * 2 + [str(outside)]


def test_complete_settings_are_complete_and_a_run_hangs_on_all_but_its_title_and_what_is_selected() -> None:
    settings = make_configs("a", tiny_tables() | {"title": "A"})[0].settings
    assert complete(settings) == settings
    assert made_by(settings)["train"].keys() == settings["train"].keys() - {"select"}
    assert made_by(settings).keys() == settings.keys() - {"title"}


SWEEP: dict[str, list[Any]] = {"model.num_layers": [1, 2, 3], "train.lr": [0.1, 0.2, 0.3]}


def test_a_sweep_goes_through_its_lists_together() -> None:
    configs = make_configs("a", tiny_tables(sweep=SWEEP))
    assert [(c.settings["model"]["num_layers"], c.settings["train"]["lr"]) for c in configs] == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert [c.variant for c in configs][:2] == ["model.num_layers=1,train.lr=0.1", "model.num_layers=2,train.lr=0.2"]


def test_an_override_picks_points_of_a_sweep_and_keeps_their_names() -> None:
    [config] = make_configs("a", tiny_tables(sweep=SWEEP), {"model.num_layers": 2})
    assert config == make_configs("a", tiny_tables(sweep=SWEEP))[1]
    [new] = make_configs("a", tiny_tables(sweep=SWEEP), {"model.num_layers": 9})
    assert new.variant == "model.num_layers=9,train.lr=0.1"
    assert len(make_configs("a", tiny_tables(sweep=SWEEP), {"train.epochs": 1})) == 3


GRID: dict[str, list[Any]] = {"train.base_lr": [1e-3, 1e-2], "train.weight_decay": [0.0, 0.1, 0.2]}


def test_a_grid_goes_through_all_combinations() -> None:
    configs = make_configs("a", tiny_tables(grid=GRID))
    found = [(c.settings["train"]["base_lr"], c.settings["train"]["weight_decay"]) for c in configs]
    assert found == [(1e-3, 0.0), (1e-3, 0.1), (1e-3, 0.2), (1e-2, 0.0), (1e-2, 0.1), (1e-2, 0.2)]
    assert configs[1].variant == "train.base_lr=0.001,train.weight_decay=0.1"
    assert len({c.variant for c in configs}) == 6


def test_every_point_of_a_sweep_has_the_whole_grid() -> None:
    configs = make_configs("a", tiny_tables(sweep=SWEEP, grid={"model.base": ["none", "gcn"]}))
    found = [(c.settings["model"]["num_layers"], c.settings["train"]["lr"], c.settings["model"]["base"]) for c in configs]
    assert found == [(n, lr, base) for n, lr in ((1, 0.1), (2, 0.2), (3, 0.3)) for base in (None, "gcn")]
    assert configs[0].variant == "model.num_layers=1,train.lr=0.1,model.base=none"


def test_an_override_picks_points_of_a_grid_and_keeps_their_names() -> None:
    tables = tiny_tables(sweep=SWEEP, grid=GRID)
    every = make_configs("a", tables)
    assert make_configs("a", tables, {"train.weight_decay": 0, "model.num_layers": 2}) == every[6:12:3]
    assert make_configs("a", tables, {"train.weight_decay": 0.2, "train.base_lr": 0.01, "train.lr": 0.3}) == every[-1:]
    new = make_configs("a", tiny_tables(grid=GRID), {"train.weight_decay": 0.9, "train.epochs": 1})
    assert [c.variant for c in new] == [f"train.base_lr={lr},train.weight_decay=0.9,train.epochs=1" for lr in (0.001, 0.01)]


def test_what_runs_side_by_side_share_is_all_but_what_each_can_have_for_itself() -> None:
    first = side_by_side(tiny_config().settings)
    own = {"lr": 0.5, "weight_decay": 0.1, "patience": 3, "select": "last", "stop_at": 1.0, "plateau_factor": 0.2}
    assert side_by_side(tiny_config(train=own).settings) == first
    assert side_by_side(make_configs("b", tiny_tables() | {"title": "B"})[0].settings) == first
    for table, setting in (
        ("train", {"clip": 1.0}),
        ("model", {"dropout": 0.1}),
        ("protocol", {"seed": 1}),
        ("head", {"pool": "sum"}),
    ):
        assert side_by_side(tiny_config(**{table: setting}).settings) != first


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            tiny_tables(grid={"train.lr": 1}),
            r"'grid' must hold lists of values by names such as \"train.lr\", in quotes \(got 1 for 'train.lr'\)",
        ),
        (tiny_tables(grid={"train.lr": []}), r"'grid' must hold lists of values .* \(got \[\] for 'train.lr'\)"),
        (tiny_tables(grid={"train": {"lr": [1]}}), r"'grid' must hold lists of values .* \(got {'lr': \[1\]} for 'train'\)"),
        (tiny_tables(grid={"train.lr": [math.nan]}), r"'train.lr' must be finite and not negative \(got nan\)"),
        (tiny_tables(grid={"train.lr": [0.1, 0.2, 0.1]}), r"'grid' must not name a value twice \(got 0.1 for 'train.lr'\)"),
        (tiny_tables(grid={"train.lr": [1, 1.0]}), r"'grid' must not name a value twice \(got 1.0 for 'train.lr'\)"),
        (tiny_tables(grid={"train.rate": [1.0]}), r"'train.rate' is not a setting"),
        (tiny_tables(grid={"lr": [1.0]}), r"'lr' is not a setting"),
        (
            tiny_tables(grid={"train.lr": [1]}, sweep=SWEEP),
            r"'grid' must hold other settings than 'sweep' \(got 'train.lr' in both\)",
        ),
        (tiny_tables() | {"grid": [1]}, r"'grid' must be a table \(got \[1\]\)"),
        (tiny_tables(trian={}), r"'trian' is not a table of a configuration \(did you mean 'train'\?\)"),
        (tiny_tables(train={"learning_rate": 1}), r"'train.learning_rate' is not a setting \(did you mean 'train.lr'\?\)"),
        (tiny_tables(train={"lr": "fast"}), r"'train.lr' must be a number \(got 'fast'\)"),
        (tiny_tables(train={"plateau_factor": 1.0}), r"'train.plateau_factor' must be at least 0 and below 1 \(got 1.0\)"),
        (tiny_tables(train={"plateau_factor": -0.5}), r"'train.plateau_factor' must be at least 0 and below 1 \(got -0.5\)"),
        (tiny_tables(model={"kind": "GCNII", "hidden_channels": 0}), r"'model.hidden_channels' must be at least 1 \(got 0\)"),
        (tiny_tables(train={"average": 1.0}), r"'train.average' must be between 0 and 1, or 'none' for no average \(got 1.0\)"),
        (tiny_tables(train={"clip": 0.0}), r"'train.clip' must be above 0, or 'none' for no clipping"),
        (tiny_tables(train={"stop_at": math.inf}), r"'train.stop_at' must be finite \(got inf\)"),
        (
            tiny_tables(protocol={"kind": "links"}),
            r"'protocol.kind' must be 'links' for questions about links, and for no others \(got 'links' for graphs\)",
        ),
        (
            tiny_tables(dataset={"level": "link", "task": "binary"}, protocol={"kind": "fresh"}),
            r"'protocol.kind' must be 'links' for questions about links, and for no others \(got 'fresh' for links\)",
        ),
        (tiny_tables(model={"directed": True}), r"'model.directed' must be false in a configuration"),
        (
            tiny_tables() | {"transform": [{"kind": "AddRandomWalkPE", "walk_length": 2, "attr_name": "pe"}]},
            r"'transform.0.attr_name' must be 'none', which appends to the features that models read \(got 'pe'\)",
        ),
        (tiny_tables(train={"lr": -1.0}), r"'train.lr' must be finite and not negative \(got -1.0\)"),
        (tiny_tables(train={"patience": -1}), r"'train.patience' must be finite and not negative"),
        (tiny_tables(train={"epochs": 0}), r"'train.epochs' must be at least 1 \(got 0\)"),
        (tiny_tables(train={"optimizer": "sgd"}), r"'train.optimizer' must be one of \('adam', 'adamw'\) \(got 'sgd'\)"),
        (tiny_tables(train={"schedule": "cos"}), r"'train.schedule' must be one of"),
        (tiny_tables(train={"precision": "16-mixed"}), r"'train.precision' must be one of .*'bf16-mixed'.* \(got '16-mixed'\)"),
        (tiny_tables(train={"monitor": "val"}), r"'train.monitor' must be one of"),
        (tiny_tables(model={"kind": "GUMPY"}), r"'model.kind' cannot be 'GUMPY' \(did you mean 'GUMP'\?\)"),
        (tiny_tables(model={"in_channels": 3}), r"'model.in_channels' is not a setting"),
        (tiny_tables(dataset={"kind": "tu"}), r"'dataset.num_graphs' is not a setting"),
        (tiny_tables() | {"dataset": {"kind": "tu"}}, r"'dataset.name' is missing: load_tu needs it"),
        (tiny_tables() | {"dataset": {}}, r"'dataset.kind' must be one of fake, molhiv, peptides"),
        (
            {"model": TINY["model"], "dataset": TINY["dataset"]},
            r"'protocol' is missing: a configuration needs a table of that name",
        ),
        (tiny_tables() | {"head": 3}, r"'head' must be a table \(got 3\)"),
        (tiny_tables() | {"title": 3}, r"'title' must be a string \(got 3\)"),
        (
            tiny_tables() | {"transform": {"kind": "AddLineGraph"}},
            r"'transform' must be a list of tables, each under \[\[transform\]\]",
        ),
        (tiny_tables() | {"transform": ["AddLineGraph"]}, r"'transform' must be a list of tables"),
        (
            tiny_tables() | {"transform": [{"kind": "AddLine"}]},
            r"'transform.0.kind' cannot be 'AddLine' \(did you mean 'AddLineGraph'\?\)",
        ),
        (tiny_tables(sweep={"train.lr": 1}), r"'sweep' must hold lists of one length"),
        (tiny_tables(sweep={"train.lr": []}), r"'sweep' must hold lists of one length"),
        (tiny_tables(sweep={"train.lr": [1.0], "train.epochs": [1, 2]}), r"'sweep' must hold lists of one length"),
    ],
)
def test_what_is_no_configuration_is_refused(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_configs("a", tables)


@pytest.mark.parametrize("key", ["lr", "trian.lr", "train.", "sweep.x", "published.value", "title.x", "title"])
def test_overrides_of_what_is_no_setting_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match=f"'{key}' is not a setting.*; settings are called TABLE.NAME, such as train.epochs"):
        make_configs("a", tiny_tables(), {key: 1})


def test_more_overrides_than_a_folder_can_be_named_after_are_refused() -> None:
    longest = 10 ** (254 - len("dataset.seed="))
    assert len(make_configs("a", tiny_tables(), {"dataset.seed": longest})[0].variant) == 255
    with pytest.raises(
        ValueError, match=r"must take at most 255 bytes, .* \(got 256: dataset\.seed=10+…\); write some of it into the conf"
    ):
        make_configs("a", tiny_tables(), {"dataset.seed": 10 * longest})


def test_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.toml does not exist; it should be a configuration such as"):
        load_config(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[model")
    with pytest.raises(ValueError, match=r"bad\.toml is not valid TOML: "):
        load_config(tmp_path / "bad.toml")
    with pytest.raises(ValueError, match=r"a\.toml: 'train\.lr' must be a number"):
        load_config(write_toml(tmp_path / "a.toml", tiny_tables()), {"train.lr": "x"})


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(ValueError, match=r"bad\.toml is not valid TOML: "):
        load_config(tmp_path / "bad.toml")


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = write_toml(tmp_path / "a.toml", tiny_tables())
    [plain] = load_config(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_config(path) == [plain]


@pytest.mark.parametrize("channels", [0, -4])
def test_an_embedding_without_width_is_refused(channels: int) -> None:
    with pytest.raises(
        ValueError, match=rf"'embedding.channels' must be at least 1 \(got {channels}\); leave it out for the width"
    ):
        make_configs("a", tiny_tables(embedding={"channels": channels}))


def test_a_table_in_the_place_of_a_setting_is_not_what_was_meant() -> None:
    with pytest.raises(ValueError, match=r"^'model' is not a setting; settings are called TABLE.NAME"):
        make_configs("test/tiny", tiny_tables(), {"model": 3})


@pytest.mark.parametrize(
    ("published", "message"),
    [
        ({"valeu": 3.0}, r"'published\.valeu' is not a setting \(did you mean 'published\.value'\?\)"),
        ({"value": "high"}, r"'published\.value' must be a number or 'none' \(got 'high'\)"),
    ],
)
def test_a_published_number_is_checked_before_anything_is_trained(published: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_configs("x", tiny_tables(published=published))


def test_another_dataset_has_no_published_number() -> None:
    tables = tiny_tables(published={"value": 1.0})
    assert make_configs("x", tables, {"train.epochs": 1})[0].published == {"value": 1.0}
    assert make_configs("x", tables, {"dataset.num_graphs": 30})[0].published == {}


@pytest.mark.parametrize("several", ["sweep", "grid"])
def test_a_published_number_stays_with_the_data_of_its_file(several: str) -> None:
    def published(key: str, values: list[Any], overrides: dict[str, Any] | None = None) -> list[float | None]:
        tables = tiny_tables(published={"value": 1.0}, **{several: {key: values}})
        tables["dataset"] = (
            {"kind": "planetoid", "name": "Cora"} if key == "dataset.name" else tables["dataset"] | {"task": "binary"}
        )
        return [config.published.get("value") for config in make_configs("x", tables, overrides)]

    assert published("dataset.name", ["CiteSeer", "Cora"]) == [None, 1.0]
    assert published("dataset.name", ["CiteSeer", "Cora"], {"dataset.name": "PubMed"}) == [None]
    assert published("dataset.task", ["multiclass", "binary"]) == [None, 1.0]
    assert published("dataset.num_nodes", [4, 6]) == [1.0, 1.0]
    assert published("train.lr", [0.1, 0.2]) == [1.0, 1.0]


def test_encodings_are_appended_to_what_models_read() -> None:
    [config] = make_configs("a", tiny_tables() | {"transform": [{"kind": "AddRandomWalkPE", "walk_length": 2}]})
    [named] = make_configs("a", tiny_tables() | {"transform": [{"kind": "AddRandomWalkPE", "walk_length": 2, "attr_name": "none"}]})
    assert config.settings["transform"][0]["attr_name"] is None
    assert config.settings == named.settings


def test_files_and_folders_of_configurations_are_read_each_once(tmp_path: Path) -> None:
    first, second = (write_toml(tmp_path / f"configs/{name}.toml", tiny_tables()) for name in ("b", "deeper/a"))
    (tmp_path / "configs/notes.txt").write_text("")
    assert config_files([second, tmp_path]) == [second, first, second]
    configs = load_configs([second, tmp_path, tmp_path / "configs"], {"train.epochs": 1})
    assert [(config.name, config.training.epochs) for config in configs] == [("deeper/a", 1), ("b", 1)]
    with pytest.raises(FileNotFoundError, match=r"missing\.toml does not exist; it should be a configuration such as"):
        load_configs([tmp_path / "missing.toml"])
