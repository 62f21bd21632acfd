"""Who may import whom, and which modules of the standard library stay at the edge."""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.paths import ROOT

FOLDERS = ("policies", "adapters", "daemon", "simharness")

ALLOWED: dict[str, tuple[str, ...]] = {
    "policies": ("makeway.policies",),
    "adapters": ("makeway.adapters", "makeway.policies.model"),
    "daemon": ("makeway.daemon", "makeway.adapters", "makeway.policies"),
    "simharness": ("makeway.simharness", "makeway.daemon", "makeway.adapters", "makeway.policies"),
}
"""Prefixes of our own modules that a folder may import."""

MODEL = ("nouns", "actions", "model")
FOREIGN_IN_POLICIES = {"eviction": "numpy", "solver": "ortools"}
"""What is not of the standard library, by the policies' module that may have it."""
EDGE = frozenset({"subprocess", "os.system", "pty", "multiprocessing"})
"""Ways to start a process: `adapters/command.py` alone has them."""
IMPURE = frozenset(
    {"time", "random", "socket", "sqlite3", "threading", "os", "pathlib", "datetime", "logging"}
)
"""What a pure function has no use for."""


@dataclass(frozen=True)
class Import:
    """One imported module, where it stands."""

    path: Path
    line: int
    module: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.module}"


def imports_of(path: Path) -> Iterator[Import]:
    """Every module that a file imports, also inside functions; `from a import b` counts as a and as a.b."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(path, node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            assert node.module is not None
            if node.module in {"makeway", "makeway.policies"}:
                for alias in node.names:
                    yield Import(path, node.lineno, f"{node.module}.{alias.name}")
            else:
                yield Import(path, node.lineno, node.module)


def sources(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found, f"no sources in {folder}"
    return found


def under(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_go_one_way(folder: str) -> None:
    wrong = [
        str(found)
        for path in sources(folder)
        for found in imports_of(path)
        if under(found.module, "makeway") and not any(under(found.module, ok) for ok in ALLOWED[folder])
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", [*FOLDERS, "tests", "bench"])
def test_nobody_imports_a_folder_by_its_bare_name(folder: str) -> None:
    wrong = [
        str(found)
        for path in sources(folder)
        for found in imports_of(path)
        if found.module.split(".")[0] in FOLDERS
    ]
    assert wrong == []


def test_policies_are_pure() -> None:
    standard = __import__("sys").stdlib_module_names
    wrong = [
        str(found)
        for path in sources("policies")
        for found in imports_of(path)
        if (top := found.module.split(".")[0]) != "makeway"
        and (top in IMPURE or (top not in standard and top != FOREIGN_IN_POLICIES.get(path.stem)))
    ]
    assert wrong == []


def test_the_model_and_its_parts_import_the_standard_library_alone() -> None:
    standard = __import__("sys").stdlib_module_names
    wrong = [
        str(found)
        for name in MODEL
        for found in imports_of(ROOT / "policies" / f"{name}.py")
        if found.module.split(".")[0] not in standard
        and found.module not in {f"makeway.policies.{part}" for part in MODEL}
    ]
    assert wrong == []


def test_the_parts_of_the_model_are_reached_through_it() -> None:
    parts = {f"makeway.policies.{name}" for name in MODEL[:-1]}
    wrong = [
        str(found)
        for folder in (*FOLDERS, "tests", "bench")
        for path in sources(folder)
        for found in imports_of(path)
        if found.module in parts and not (folder == "policies" and path.stem in MODEL)
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_one_module_starts_processes(folder: str) -> None:
    wrong = [
        str(found)
        for path in sources(folder)
        if path != ROOT / "adapters" / "command.py"
        for found in imports_of(path)
        if found.module in EDGE
    ]
    assert wrong == []


def test_only_the_executor_calls_verbs() -> None:
    verbs = {"checkpoint", "requeue", "cancel", "shrink", "expand", "reserve", "release", "prioritise"}
    wrong = []
    for path in sources("daemon"):
        if path.name == "executor.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            owner = ast.unparse(node.func.value)
            if node.func.attr in verbs and "adapter" in owner:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} calls {owner}.{node.func.attr}")
    assert wrong == []


def test_every_folder_is_packaged() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert set(tool["packages"]) == {f"makeway.{folder}" for folder in FOLDERS}
    for folder in FOLDERS:
        assert (ROOT / folder / "py.typed").is_file()
        assert [
            path for path in (ROOT / folder).iterdir() if path.is_dir() and path.name != "__pycache__"
        ] == []
        link = ROOT / ".typing" / "makeway" / folder
        assert link.is_symlink()
        assert link.resolve() == ROOT / folder
