"""Who may import whom."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "gump"
SHARED = {"linalg", "kernels", "line_graph"}
ROOMS = SHARED | {"files", "record", "datasets", "transforms", "nn", "diagnostics", "loader"}
MAY_IMPORT: dict[str, set[str]] = {
    "linalg": {"kernels"},
    "kernels": set(),
    "files": set(),
    "record": {"files"},
    "line_graph": {"linalg"},
    "datasets": SHARED | {"files"},
    "transforms": SHARED,
    "nn": SHARED,
    "diagnostics": SHARED,
    "loader": SHARED,
    "experiment": ROOMS | {"gump"},  # its version
    "report": {"record", "files"},
    "cli": {"experiment", "report", "record", "files"},
}


def rooms_imported(source: str) -> set[str]:
    """The rooms of gump that a file imports, also inside functions; ``"gump"`` where it takes a name from the package itself."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative imports hide where a name comes from"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    parts = [name.split(".") for name in names]
    return {p[1] if p[1:] and p[1] in MAY_IMPORT else "gump" for p in parts if p[0] == "gump"}


def broken(room: str, source: str) -> set[str]:
    return rooms_imported(source) - MAY_IMPORT[room] - {room}


FILES = sorted(p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*.py") if p.parent != PACKAGE or p.stem != "__init__")


@pytest.mark.parametrize("file", FILES)
def test_rooms_import_only_what_they_may(file: str) -> None:
    room = file.split("/")[0].removesuffix(".py")
    assert room in MAY_IMPORT, f"gump/{room} is a new room: say in this table what it may import"
    assert not broken(room, (PACKAGE / file).read_text()), f"gump/{file} must not import these rooms"


@pytest.mark.parametrize(
    ("room", "source", "found"),
    [
        ("nn", "import gump.datasets.transfer", {"datasets"}),
        ("nn", "from gump.transforms import AddLineGraph", {"transforms"}),
        ("report", "def f():\n    from gump import nn", {"nn"}),
        ("nn", "from gump import EulerianLineGraph", {"gump"}),
        ("line_graph", "import gump", {"gump"}),
        ("nn", "import torch\nfrom gump.nn.coin import Coin\nfrom gump.line_graph import EulerianLineGraph", set()),
    ],
)
def test_broken_rules_are_found(room: str, source: str, found: set[str]) -> None:
    assert broken(room, source) == found
