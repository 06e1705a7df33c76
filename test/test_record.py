import json
import math
from pathlib import Path

import pytest

from gump.record import Record, load_records


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
