"""Policies are pure, and one module starts processes."""

import ast
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.test_architecture import FOLDERS, dotted, imports_of, sources, under

FOREIGN_IN_POLICIES: Mapping[str, frozenset[str]] = {
    **{
        f"policies.programme.{name}": frozenset({"numpy"})
        for name in ("bound", "fixing", "knapsack", "worth_trying")
    },
    "policies.horizon.cp_sat": frozenset({"ortools"}),
    "policies.choice.highs": frozenset({"numpy", "highspy"}),
    "policies.joint.highs": frozenset({"numpy", "highspy"}),
    **{
        f"policies.choice.{name}": frozenset({"numpy"})
        for name in (
            "ascent",
            "bounds",
            "by_node",
            "choose",
            "covers",
            "crowded",
            "prices",
            "programme",
            "search",
            "table",
        )
    },
}
"""What is not of the standard library, by the module of the policies that may import it."""
EDGE = frozenset({"subprocess", "os.system", "pty", "multiprocessing"})
"""Ways to start a process: `adapters/command.py` alone has them."""
STARTS = re.compile(r"os\.(system|popen|fork|forkpty|posix_spawn|exec|spawn)|create_subprocess")
"""The functions of a module, which is imported for other things, that start a process."""
PURE = frozenset(
    {
        "bisect",
        "collections",
        "copy",
        "dataclasses",
        "difflib",
        "enum",
        "functools",
        "heapq",
        "itertools",
        "math",
    }
    | {"operator", "types", "typing"}
)
"""What of the standard library a pure function may use."""
FINDS_POLICIES: Mapping[str, frozenset[str]] = {
    "policies.registry": frozenset({"importlib"}),
    "policies.contract": frozenset({"traceback"}),
    "policies.model.memo": frozenset({"inspect"}),
}
"""What modules around the policies use besides."""
SIDE_EFFECTS = frozenset({"open", "print", "input", "exec", "eval", "__import__"})


def test_policies_are_pure() -> None:
    wrong = [
        str(found)
        for path in sources("policies")
        for found in imports_of(path)
        if (top := found.name.split(".")[0]) != "makeway"
        and (
            top not in PURE | FINDS_POLICIES.get(dotted(path), frozenset())
            and top not in FOREIGN_IN_POLICIES.get(dotted(path), ())
        )
    ]
    assert wrong == []
    called = [
        f"{path}:{node.lineno} calls {node.func.id}"
        for path in sources("policies")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SIDE_EFFECTS
    ]
    assert called == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_one_module_starts_processes(folder: str) -> None:
    wrong = [
        str(found)
        for path in sources(folder)
        if path != ROOT / "adapters" / "command.py"
        for found in imports_of(path)
        if any(under(found.name, edge) for edge in EDGE)
    ]
    assert wrong == []
    assert [
        found
        for path in sources(folder)
        if path != ROOT / "adapters" / "command.py"
        for found in starts_of_processes(path)
    ] == []


def starts_of_processes(path: Path) -> list[str]:
    """Where a file starts a process by a function of a module that it may import."""
    return [
        f"{path.name}:{node.lineno} {ast.unparse(node)}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and STARTS.search(ast.unparse(node))
    ]


@pytest.mark.parametrize("planted", ["os.system('x')", "os.execvp('x', [])", "run = os.posix_spawn"])
def test_another_way_to_start_a_process_is_found(tmp_path: Path, planted: str) -> None:
    source = tmp_path / "planted.py"
    source.write_text(f"import os\n\n\ndef _start():\n    {planted}\n")
    assert len(starts_of_processes(source)) == 1
