import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gump.report.explore import write_explore


def content(**changed: Any) -> dict[str, Any]:
    return {"title": "drawn", "seed": 0, "bounded": np.array([0.1, -1 / 3]), "arcs": np.array([[0, 1], [1, 0]]), **changed}


def embedded(page: str) -> dict[str, Any]:
    [text] = re.findall(r'<script type="application/json" id="content">(.*?)</script>', page, flags=re.DOTALL)
    return json.loads(text)


def test_arrays_come_back_without_loss(tmp_path: Path) -> None:
    page = write_explore(content(), tmp_path / "folder" / "page.html").read_text()
    read = embedded(page)
    assert np.frombuffer(base64.b64decode(read["bounded"]["base64"]), "<f8").tolist() == [0.1, -1 / 3]
    assert np.frombuffer(base64.b64decode(read["arcs"]["base64"]), "<i4").tolist() == [0, 1, 1, 0]
    assert (read["bounded"]["type"], read["arcs"]["type"], read["seed"]) == ("float64", "int32", 0)


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    pages = [write_explore(content(), tmp_path / name).read_bytes() for name in ("a.html", "b.html")]
    assert pages[0] == pages[1]


def test_a_name_cannot_break_out_of_its_place(tmp_path: Path) -> None:
    name = "</script><b>{{content}} & more"
    page = write_explore(content(title=name), tmp_path / "page.html").read_text()
    assert embedded(page)["title"] == name
    assert "<title>&lt;/script&gt;&lt;b&gt;" in page
    assert page.count("</script>") == 2


def test_the_page_asks_for_nothing_from_elsewhere(tmp_path: Path) -> None:
    page = write_explore(content(), tmp_path / "page.html").read_text()
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}, "a namespace, which nobody loads"
    assert "default-src 'none'" in page
    assert not re.findall(r"\b(?:src|@import|fetch|XMLHttpRequest)\s*[=(]", page)


def test_what_is_not_finite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_explore(content(seed=float("nan")), tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
