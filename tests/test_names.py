"""One public class name, one meaning."""

import ast
from collections import defaultdict

from tests.test_architecture import FOLDERS, dotted, sources


def modules_by_class() -> dict[str, list[str]]:
    """The modules that define each public top-level class, by its name."""
    found = defaultdict(list)
    for folder in FOLDERS:
        for path in sources(folder):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(dotted(path))
    return found


def test_no_public_class_name_occurs_twice() -> None:
    assert {name: modules for name, modules in modules_by_class().items() if len(modules) > 1} == {}
