import json
import math
from pathlib import Path

import pytest

from gump.record import Record, format_indices, load_records, parse_indices, record_path


def record(**changes: object) -> Record:
    return Record(**({"name": "tu/x", "index": 3, "settings": {"model": {"kind": "GUMP"}}, "metric": "accuracy"} | changes))  # type: ignore[arg-type]


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    saved = record(results={"loss": {"epoch": 2, "test": 0.5}}, history={"val": [0.25, 0.5]}, predictions={"loss": [1, 0]})
    path = saved.save(tmp_path)
    assert path == tmp_path / "tu" / "x" / "003.json"
    assert Record.load(path) == saved
    assert load_records(tmp_path) == [saved]


def test_a_list_has_one_line_and_its_words_are_kept(tmp_path: Path) -> None:
    words = ["a, b", "[\n 1,\n 2\n]", "{x}", " c", "\n"]
    saved = record(
        history={"val": list(range(100)), "empty": []}, note="[\n]", provenance={"words": words[:1] + words[3:], "more": words}
    )
    path = saved.save(tmp_path)
    assert Record.load(path) == saved
    text = path.read_text()
    assert f'  "val": [{",".join(map(str, range(100)))}],' in text.splitlines()
    assert len(text.splitlines()) < 50


def test_variants_lie_beside_the_configuration_as_it_is(tmp_path: Path) -> None:
    assert record(variant="train.epochs=2").path(tmp_path) == tmp_path / "tu" / "x" / "train.epochs=2" / "003.json"


def test_numbers_are_rounded_and_what_is_none_is_null(tmp_path: Path) -> None:
    path = record(history={"val": [1 / 3, math.nan, math.inf]}).save(tmp_path)
    assert json.loads(path.read_text())["history"]["val"] == [0.3333333, None, None]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not a record: "),
        ("[]", "is not a record of torch-gump"),
        ('{"name": "x"}', "is not a record of torch-gump"),
        ('{"name": "x", "index": 0, "settings": {}, "metric": "a", "format": 99}', "must have format 1"),
    ],
)
def test_what_is_no_record_is_refused_by_name(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        Record.load(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("text", "indices"), [("3", [3]), ("0-2", [0, 1, 2]), ("0-1,5, 7-8", [0, 1, 5, 7, 8]), ("4-4", [4]), ("2,0-3,2", [2, 0, 1, 3])]
)
def test_numbers_of_runs_are_numbers_and_ranges_each_once(text: str, indices: list[int]) -> None:
    assert parse_indices(text) == indices


@pytest.mark.parametrize("text", ["", "a", "3-", "-3", "5-2", "1,,2", "1-2-3", "1.5", "²"])
def test_what_is_no_number_of_a_run_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="'--splits' must be numbers and ranges such as 0-9,12"):
        parse_indices(text)


@pytest.mark.parametrize(("indices", "text"), [([3], "3"), ([0, 1, 2, 5], "0-2,5"), ([4, 5, 0], "4-5,0"), ([], "")])
def test_numbers_of_runs_are_written_as_they_are_read(indices: list[int], text: str) -> None:
    assert format_indices(iter(indices)) == text
    assert not text or parse_indices(text) == indices


def test_a_title_names_what_was_set_otherwise() -> None:
    assert record().title == "tu/x"
    assert record(variant="train.epochs=2").title == "tu/x [train.epochs=2]"


def test_where_a_record_lies_is_known_before_there_is_one(tmp_path: Path) -> None:
    assert record_path(tmp_path, "tu/x", "a=1", 3) == record(variant="a=1").path(tmp_path)
