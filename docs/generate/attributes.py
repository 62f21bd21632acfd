"""The docstrings below the fields of a class, read from its source: `inspect` does not know them."""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from itertools import pairwise


def field_docstrings(record: type) -> Mapping[str, str]:
    """What a class says about each of its fields, its own and inherited ones. A field without a docstring is
    left out.

    Args:
        record: a dataclass or a model of pydantic whose source is there.
    """
    found: dict[str, str] = {}
    for one in reversed(record.__mro__):
        if one.__module__.startswith("makeway."):
            found |= _own_docstrings(one)
    return found


def _own_docstrings(record: type) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(record)))
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef))
    found: dict[str, str] = {}
    for field, after in pairwise(body):
        match field, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
            case _:
                pass
    return found
