"""What keeps the rooms readable: the length of functions and modules, and the modules of a folder."""

import ast
from pathlib import Path

from tests.paths import ROOT

FOLDERS = ("policies", "adapters", "daemon", "simharness", "tests", "bench", "docs")
MOST_LINES = 400
"""Of a module."""
MOST_LINES_OF_A_FUNCTION = 50
MOST_MODULES = 14
"""Of a folder, its `__init__` not counted: about 12, and two more where it is one idea."""


def sources() -> list[Path]:
    """Every Python file of the project."""
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(found) > 100
    return found


def test_no_module_is_too_long() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in sources()}
    assert {str(path): lines for path, lines in lengths.items() if lines > MOST_LINES} == {}


def test_no_function_is_too_long() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {length} lines"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and (length := node.end_lineno - node.lineno + 1) > MOST_LINES_OF_A_FUNCTION
    ]
    assert wrong == []


def test_no_folder_is_crowded() -> None:
    modules: dict[Path, int] = {}
    for path in sources():
        if path.name != "__init__.py":
            modules[path.parent] = modules.get(path.parent, 0) + 1
    assert {str(folder): count for folder, count in modules.items() if count > MOST_MODULES} == {}
