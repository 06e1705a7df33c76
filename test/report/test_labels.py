from typing import Any

import pytest

from gump.record import Record
from gump.report.labels import command, label, split_variant


def record(name: str, dataset: dict[str, Any], variant: str = "", index: int = 0, **settings: Any) -> Record:
    return Record(name, index, {"dataset": dataset, **settings}, "accuracy", variant=variant)


@pytest.mark.parametrize(
    ("name", "dataset", "expected"),
    [
        ("tu/mutag_gin_gump", {"kind": "tu", "name": "MUTAG"}, ("tu", "MUTAG", "gin_gump", "gin")),
        ("tu/nci109_gcn", {"kind": "tu", "name": "NCI109"}, ("tu", "NCI109", "gcn", "gcn")),
        ("tu/more/mutag_grit", {"kind": "tu", "name": "MUTAG"}, ("tu/more", "MUTAG", "grit", "")),
        ("lrgb/peptides_func_gcn_gump", {"kind": "peptides", "name": "func"}, ("lrgb", "func", "gcn_gump", "gcn")),
        ("lrgb/peptides_func_gcn_gump", {"name": "Peptides-func"}, ("lrgb", "Peptides-func", "gcn_gump", "gcn")),
        ("ogb/molhiv_gin_gump", {"kind": "molhiv"}, ("ogb", "molhiv", "gin_gump", "gin")),
        ("ogb/molhiv_gin_gump", {"name": "ogbg-molhiv"}, ("ogb", "ogbg-molhiv", "gin_gump", "gin")),
        ("transfer/crossed_ring_gcn", {"kind": "transfer", "name": "CrossedRing"}, ("transfer", "CrossedRing", "gcn", "gcn")),
        ("transfer/crossedring_gcn", {"kind": "transfer", "task": "CrossedRing"}, ("transfer", "CrossedRing", "gcn", "gcn")),
        ("link/cora_gcn", {"kind": "planetoid", "name": "Cora", "level": "link"}, ("link", "Cora (links)", "gcn", "gcn")),
        ("mine/esol_gin", {"kind": "smiles", "path": "data/ESOL.csv.gz", "task": "regression"}, ("mine", "ESOL", "gin", "gin")),
        (
            "tox_gcn",
            {"kind": "smiles", "path": "tox.tsv", "targets": "NR-AR", "task": None},
            ("records", "tox (NR-AR)", "gcn", "gcn"),
        ),
        ("mine", {"name": "MUTAG"}, ("records", "MUTAG", "mine", "")),
    ],
)
def test_label_by_hand(name: str, dataset: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert label(record(name, dataset))[:4] == expected


def test_title_is_the_method() -> None:
    assert label(record("tu/mutag_gin_gump", {"name": "MUTAG"}, title="GIN-GUMP")).method == "GIN-GUMP"


@pytest.mark.parametrize("name", ["transfer/ring_8_random_gcn", "transfer/ring_random_features_8_gcn", "transfer/ring_gcn_random"])
def test_transfer_tasks_are_told_apart_by_features_and_size(name: str) -> None:
    found = label(record(name, {"kind": "transfer", "name": "Ring", "num_nodes": 8, "random_features": True}))
    assert (found.dataset, found.method, found.overrides) == ("Ring (random features)", "gcn", {"dataset.num_nodes": "8"})


def test_size_of_a_task_is_mentioned_once() -> None:
    found = label(record("transfer/ring_gcn", {"task": "Ring", "num_nodes": 8}, "dataset.num_nodes=8,model.num_layers=5"))
    assert found.overrides == {"dataset.num_nodes": "8", "model.num_layers": "5"}


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("", {}),
        ("train.epochs=2", {"train.epochs": "2"}),
        ("a.b=[1, 2],transform.0.k=x=y", {"a.b": "[1, 2]", "transform.0.k": "x=y"}),
    ],
)
def test_variant_is_split_at_settings(variant: str, expected: dict[str, str]) -> None:
    assert split_variant(variant) == expected


def test_command_names_runs_and_settings() -> None:
    runs = [record("tu/mutag_gin", {"name": "MUTAG"}, "model.norm=None,train.deterministic=False", i) for i in (4, 0, 1, 2, 9)]
    for run in runs:
        run.settings |= {"model": {"norm": None}, "train": {"deterministic": False}}
    expected = "gump run configs/tu/mutag_gin.toml --splits 0-2,4,9 --set model.norm=none --set train.deterministic=false"
    assert command(runs) == f"{expected} --records out/again"


def test_command_takes_values_from_the_settings_and_quotes_them() -> None:
    variant = "model.act=a_b c,model.word=2,train.lr=0.0033333333333,transform.0.sizes=[1, 2]"
    run = record("tu/mutag_gin", {"name": "MUTAG"}, variant)
    run.settings |= {"model": {"act": "a/b c", "word": "2"}, "train": {"lr": 0.003333333}, "transform": [{"sizes": [1, 2]}]}
    expected = "gump run configs/tu/mutag_gin.toml --splits 0 --set 'model.act=a/b c' --set 'model.word=\"2\"' --set train.lr=0.0033333333333"
    assert command([run]) == f"{expected} --set 'transform.0.sizes=[1, 2]' --records out/again"


def test_command_names_the_file_the_device_and_the_groups() -> None:
    runs = [record("mine", {"name": "MUTAG"}, index=i) for i in (0, 1, 2, 3, 4)]
    for run, others in zip(runs, ([2], [3], [0], [1], [5]), strict=True):
        run.provenance = {"config": "/a b/mine.toml", "device": "cuda: NVIDIA H200", "side_by_side_with": others}
    runs.append(record("mine", {"name": "MUTAG"}, index=7))
    runs[-1].provenance = {"config": "mine.toml", "device": "cpu: x86_64", "num_devices": 2, "side_by_side_with": []}
    assert command(runs).split("\n") == [
        "gump run '/a b/mine.toml' --splits 0,2 --device cuda --replicas 2 --records out/again",
        "gump run '/a b/mine.toml' --splits 1,3 --device cuda --replicas 2 --records out/again",
        "gump run '/a b/mine.toml' --splits 4-5 --device cuda --replicas 2 --records out/again",
        "gump run mine.toml --splits 7 --device cpu --devices 2 --records out/again",
    ]


def test_groups_that_follow_each_other_are_one_command() -> None:
    runs = [record("mine", {"name": "MUTAG"}, index=i) for i in range(5)]
    for run in runs[:4]:
        run.provenance = {"side_by_side_with": [run.index ^ 1]}
    assert command(runs).split("\n") == [
        "gump run configs/mine.toml --splits 0-3 --replicas 2 --records out/again",
        "gump run configs/mine.toml --splits 4 --records out/again",
    ]


def test_record_without_a_dataset_is_refused() -> None:
    with pytest.raises(ValueError, match=r"settings\['dataset'\]\['name'\] \(got none in 'tu/mutag_gin'"):
        label(Record("tu/mutag_gin", 0, {}, "accuracy"))
