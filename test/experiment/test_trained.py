import errno
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_configs import tiny_config, tiny_tables
from torch_geometric.data import Data

from gump.datasets import fake_dataset
from gump.experiment.config import make_configs
from gump.experiment.model import build_model
from gump.experiment.preprocess import prepare
from gump.experiment.run import Runner
from gump.experiment.task import TASKS
from gump.experiment.trained import load_trained, save_trained

WALKS: dict[str, Any] = {"kind": "AddRandomWalkPE", "walk_length": 3, "attr_name": "none"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUMP_CACHE", str(tmp_path / "cache"))


def raw_graphs(config: Any) -> Any:
    return prepare(config.settings | {"transform": []}, line_graph=False)


@pytest.mark.parametrize("num_replicas", [None, 2])
@pytest.mark.parametrize("select", ["loss", "last"])
@pytest.mark.parametrize(
    ("dataset", "transform"),
    [
        ({}, []),
        ({"level": "source"}, []),
        ({"task": "regression"}, [WALKS]),
        ({"task": "multilabel", "categorical": True}, [WALKS]),
        ({"edge_features": True}, []),
    ],
)
def test_kept_weights_answer_as_the_record_says(
    dataset: dict[str, Any], transform: list[Any], select: str, num_replicas: int | None, tmp_path: Path
) -> None:
    num_replicas = None if "level" in dataset else num_replicas  # sources are asked about one by one
    model = {"edge_dim": 2} if "edge_features" in dataset else {}
    tables = tiny_tables(dataset=dataset, model=model, train={"epochs": 4, "lr": 0.05, "select": select})
    [config] = make_configs("test/tiny", tables | {"transform": transform})
    data, task = raw_graphs(config), TASKS[config.settings["dataset"].get("task", "multiclass")]
    for record in Runner(tmp_path, num_replicas=num_replicas, keep_weights=True).run(config, [0, 1]):
        trained = load_trained(tmp_path / f"{record.name}/{record.index:03d}.pt")
        answers = task.answer(trained([data[i] for i in record.test_index]))
        assert torch.tensor(answers).allclose(torch.tensor(record.predictions[select]), rtol=1e-3, atol=1e-4)
        assert repr(trained).endswith(f"{data.task} of {data.level}s like those of fake)")


@pytest.mark.parametrize("kind", ["GUMP", "MPNN"])
def test_kept_weights_answer_in_the_precision_of_training(kind: str, tmp_path: Path) -> None:
    config = tiny_config(dataset={"task": "regression"}, model={"kind": kind}, train={"precision": "bf16-mixed"})
    [record] = Runner(tmp_path, keep_weights=True).run(config, [0])
    trained, data = load_trained(tmp_path / f"{record.name}/{record.index:03d}.pt"), raw_graphs(config)
    graphs, said = [data[i] for i in record.test_index], torch.tensor(record.predictions[config.training.select])
    answers = trained(graphs)
    trained.settings = config.settings | {"train": config.settings["train"] | {"precision": "32-true"}}
    assert answers.dtype == torch.float32
    assert (answers.flatten() - said.flatten()).abs().max() < 1e-5 < (trained(graphs).flatten() - said.flatten()).abs().max()


def test_vertices_and_pairs_can_be_asked_about_too(tmp_path: Path) -> None:
    [record] = Runner(tmp_path, keep_weights=True).run(tiny_config(dataset={"level": "node"}), [0])
    config = tiny_config(dataset={"level": "node"})
    [graph] = raw_graphs(config)
    answers = load_trained(tmp_path / f"{record.name}/000.pt")([graph])
    assert answers.argmax(-1)[record.test_index].tolist() == record.predictions["loss"]
    config = tiny_config(dataset={"level": "link", "task": "binary"}, protocol={"kind": "links"})
    [record] = Runner(tmp_path / "links", keep_weights=True).run(config, [0])
    [graph] = raw_graphs(config)
    graph.edge_label_index = torch.tensor([[0, 1, 2], [3, 4, 5]])
    assert load_trained(tmp_path / f"links/{record.name}/000.pt")([graph]).shape == (3, 1)


@pytest.mark.parametrize("num_replicas", [None, 2])
def test_weights_of_a_run_that_was_interrupted_are_those_of_one_that_was_not(num_replicas: int | None, tmp_path: Path) -> None:
    def interrupt(config: Any, index: int, epoch: int, results: dict[str, float]) -> None:
        if epoch == 4:
            raise KeyboardInterrupt

    config = tiny_config(train={"epochs": 5, "lr": 0.3})
    common: Any = {"num_replicas": num_replicas, "save_every_s": 0, "keep_weights": True}
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path / "a", watches=[interrupt], **common).run(config, [0, 1]))
    for folder in "ab":
        records = list(Runner(tmp_path / folder, **common).run(config, [0, 1]))
    assert {record.results["loss"]["epoch"] for record in records} & {1, 2, 3}, "before the interruption"
    for index in range(2):
        a, b = (load_trained(tmp_path / f"{folder}/{config.name}/{index:03d}.pt").model.state_dict() for folder in "ab")
        assert all(torch.equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize("num_replicas", [None, 2])
def test_a_checkpoint_with_weights_of_another_rule_is_not_gone_on_from(num_replicas: int | None, tmp_path: Path) -> None:
    def interrupt(config: Any, index: int, epoch: int, results: dict[str, float]) -> None:
        if epoch == 3:
            raise KeyboardInterrupt

    common: Any = {"num_replicas": num_replicas, "save_every_s": 0, "keep_weights": True}
    with pytest.raises(KeyboardInterrupt):
        list(Runner(tmp_path, watches=[interrupt], **common).run(tiny_config(train={"select": "last"}), [0, 1]))
    with pytest.warns(UserWarning, match=r"is not gone on from, so the run starts anew: weights.0 was 'last', is 'loss'"):
        list(Runner(tmp_path, **common).run(tiny_config(), [0, 1]))
    assert load_trained(tmp_path / "test/tiny/000.pt").settings["train"]["select"] == "loss"


def test_weights_are_kept_only_where_they_are_asked_for_and_go_with_their_record(tmp_path: Path) -> None:
    config, place = tiny_config(), tmp_path / "test/tiny/000.pt"
    list(Runner(tmp_path).run(config, [0]))
    assert not place.exists()
    with pytest.raises(
        ValueError, match=r"000.json has no weights of the epoch that counts by 'loss' beside it; pass --overwrite to train"
    ):
        list(Runner(tmp_path, keep_weights=True).run(config, [0]))
    list(Runner(tmp_path, keep_weights=True, overwrite=True).run(config, [0]))
    assert place.exists()
    list(Runner(tmp_path, keep_weights=True).run(config, [0]))
    with pytest.raises(ValueError, match=r"000.json has no weights of the epoch that counts by 'last' beside it"):
        list(Runner(tmp_path, keep_weights=True).run(tiny_config(train={"select": "last"}), [0]))
    list(Runner(tmp_path, overwrite=True).run(tiny_config(train={"lr": 0.5}), [0]))
    assert not place.exists(), "which were those of another record"


def test_graphs_asked_about_in_parts_have_the_answers_of_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signs: dict[str, Any] = {"kind": "AddLaplacianEigenvectorPE", "k": 2, "is_undirected": True}  # drawn by the place of the graph
    [config] = make_configs("test/tiny", tiny_tables(train={"epochs": 1}) | {"transform": [signs]})
    list(Runner(tmp_path, keep_weights=True).run(config, [0]))
    trained, graphs = load_trained(tmp_path / "test/tiny/000.pt"), list(raw_graphs(config))
    whole = trained(graphs)
    torch.testing.assert_close(torch.cat([trained(graphs[:7]), trained(graphs[7:], first=7)]), whole)
    assert not torch.cat([trained(graphs[:7]), trained(graphs[7:])]).allclose(whole), "other signs"
    monkeypatch.setattr("gump.experiment.trained.AT_ONCE", 3)
    torch.testing.assert_close(trained(graphs), whole)


@pytest.mark.parametrize(
    ("dataset", "changes", "message"),
    [
        ({}, {"x": None}, r"^graph 1 must have 'x', 'edge_index', as those of fake have \(got no 'x'\)$"),
        (
            {},
            {"x": torch.ones(8, 3)},
            r"^graph 1 must have 4 columns in 'x' after transforms, as those of fake have \(got shape \[8, 3\]\)$",
        ),
        (
            {"level": "source"},
            {"source_index": None},
            r"must have 'x', 'edge_index', 'source_index', .* \(got no 'source_index'\)",
        ),
        (
            {"edge_features": True},
            {"edge_attr": None},
            r"must have 'x', 'edge_index', 'edge_attr', .* \(got no 'edge_attr'\)",
        ),
        ({"edge_features": True}, {"edge_attr": torch.ones(4, 1)}, r"^graph 1 must have 2 columns in 'edge_attr' .* \[4, 1\]"),
    ],
)
def test_graphs_of_another_kind_are_refused(dataset: dict[str, Any], changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    config = tiny_config(dataset=dataset, model={"edge_dim": 2} if "edge_features" in dataset else {}, train={"epochs": 1})
    list(Runner(tmp_path, keep_weights=True).run(config, [0]))
    graphs = raw_graphs(config)[:2]
    for name, value in changes.items():
        graphs[1][name] = value
    with pytest.raises(ValueError, match=message):
        load_trained(tmp_path / "test/tiny/000.pt")(graphs)


def test_weights_are_read_and_asked_without_the_packages_of_the_command(tmp_path: Path) -> None:
    list(Runner(tmp_path, keep_weights=True).run(tiny_config(train={"epochs": 1}), [0]))
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    packages = [name.replace("-", "_") for name in project["optional-dependencies"]["cli"]]
    code = (
        f"import sys\nsys.modules.update(dict.fromkeys({packages}))\n"  # which cannot be imported then
        "from gump.datasets import fake_dataset\nfrom gump.experiment.trained import load_trained\n"
        f"print(len(load_trained({str(tmp_path / 'test/tiny/000.pt')!r})(list(fake_dataset()))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("32\n", 0), done.stderr


def test_a_transform_that_fails_names_the_graph(tmp_path: Path) -> None:
    signs: dict[str, Any] = {"kind": "AddLaplacianEigenvectorPE", "k": 3, "is_undirected": True}
    [config] = make_configs("test/tiny", tiny_tables(train={"epochs": 1}) | {"transform": [signs]})
    list(Runner(tmp_path, keep_weights=True).run(config, [0]))
    small = Data(x=torch.ones(2, 4), edge_index=torch.tensor([[0, 1], [1, 0]]))
    with pytest.raises(ValueError, match=r"^graph 1 cannot be transformed by AddLaplacianEigenvectorPE \(.+\)$"):
        load_trained(tmp_path / "test/tiny/000.pt")([raw_graphs(config)[0], small])


def test_what_is_no_list_of_graphs_is_refused(tmp_path: Path) -> None:
    config = tiny_config(train={"epochs": 1})
    list(Runner(tmp_path, keep_weights=True).run(config, [0]))
    trained = load_trained(tmp_path / "test/tiny/000.pt")
    for graphs, kind in (([], "none"), (raw_graphs(config)[0], "Data")):
        with pytest.raises(ValueError, match=rf"'graphs' must be a list with a graph at least \(got {kind}\)"):
            trained(graphs)


def test_damaged_weights_are_refused_in_our_words_and_made_again(tmp_path: Path) -> None:
    config, path = tiny_config(train={"epochs": 1}), tmp_path / "test/tiny/000.pt"
    list(Runner(tmp_path, keep_weights=True).run(config, [0]))
    whole = path.read_bytes()
    half = len(whole) // 2
    for damaged in (b"", b"junk", b"some text\n", bytes(5000), whole[:half], whole[:-100], whole[:-1], whole[:-60] + b"\xff" * 60):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"'path' must be a file of weights .* which is none, or damaged\)$"):
            load_trained(path)
        with pytest.raises(ValueError, match="has no weights of the epoch that counts by 'loss' beside it; pass --overwrite"):
            list(Runner(tmp_path, keep_weights=True).run(config, [0]))
    list(Runner(tmp_path, overwrite=True, keep_weights=True).run(config, [0]))
    load_trained(path)


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "Permission denied"), OSError(errno.EIO, "I/O"), MemoryError()])
def test_weights_that_cannot_be_read_now_are_not_called_damaged(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, path = tiny_config(train={"epochs": 1}), tmp_path / "test/tiny/000.pt"
    list(Runner(tmp_path, keep_weights=True).run(config, [0]))

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("torch.load", fail)
    with pytest.raises(type(error)):
        load_trained(path)
    for overwrite in (False, True):
        with pytest.raises(type(error)):
            list(Runner(tmp_path, keep_weights=True, overwrite=overwrite).run(config, [0]))


def test_what_is_no_file_of_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"'path' must be a file of weights .*; `gump run --keep-weights` leaves one"):
        load_trained(tmp_path / "000.pt")
    torch.save({"weights": {}}, tmp_path / "000.pt")
    with pytest.raises(ValueError, match="'path' must be a file of weights that `gump run --keep-weights` has left"):
        load_trained(tmp_path / "000.pt")


@pytest.mark.parametrize("num_layers", [0, 2])
def test_weights_of_a_regression_from_before_targets_had_units_answer_as_they_did(num_layers: int, tmp_path: Path) -> None:
    data = fake_dataset(task="regression", num_targets=2)
    settings = tiny_config(dataset={"task": "regression", "num_targets": 2}, head={"num_layers": num_layers}).settings
    model = build_model(settings, data).eval()
    old = {key.replace("head.0.", "head."): value for key, value in model.state_dict().items() if not key.startswith("head.1.")}
    save_trained(tmp_path / "old.pt", settings, data, old)
    graph = data[0]
    assert load_trained(tmp_path / "old.pt")([graph]).allclose(model(graph.x, graph.edge_index))
