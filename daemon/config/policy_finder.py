"""Finds the policy that a configuration or a command line names: one of makeway, of an installed package, or
of a file.

A package offers policies as entry points of the group `makeway.policies`, each a `Policy`. A file is named by
a path that ends in `.py` and defines exactly one `Policy`; a file that other users could change is not run.
Both are read again at every call.
"""

import importlib.util
import os
import re
import stat
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from importlib.machinery import SourceFileLoader
from importlib.metadata import entry_points
from inspect import signature
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, TypeGuard, cast

from makeway.adapters.site.trust import distrust
from makeway.policies import registry
from makeway.policies.contract import Policy

GROUP = "makeway.policies"
SUFFIX = ".py"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class _FromSource(SourceFileLoader):
    """Runs the source itself. Compiled code next to it may be another's, or older."""

    def path_stats(self, path: Any) -> Any:
        """Without it, no compiled code is read or written."""
        raise OSError(f"{path}: compiled code is not used")


def find_policy(name: str, folder: Path | None = None) -> Policy[Any]:
    """The policy with this name.

    Args:
        name: the name of one of makeway's policies, of an entry point, or the path of a file.
        folder: where a relative path starts. None: the working directory.

    Raises:
        UnknownPolicy: there is none, or it cannot be used; the message says why.
    """
    if name.endswith(SUFFIX):
        return _of_file(Path(name) if folder is None else folder / name)
    if name not in registry.POLICIES:
        for point in entry_points(group=GROUP, name=name):
            return _of_package(point.value, point.load)
    if Path(name).suffix or os.sep in name:
        raise registry.UnknownPolicy(
            f"unknown policy {name!r}: the name of a policy file ends in {SUFFIX}, other names have neither "
            f"'.' nor '{os.sep}'"
        )
    return registry.find(name)


def _of_file(path: Path) -> Policy[Any]:
    where = f"policy file {path}"
    module = _run(path, where)
    found = {
        id(value): value
        for value in vars(module).values()
        if _is_policy(value) and value not in registry.POLICIES.values()
    }
    if len(found) != 1:
        names = ", ".join(sorted(policy.name for policy in found.values())) or "none"
        raise registry.UnknownPolicy(
            f"{where}: it defines {names}; accepted: exactly one Policy of makeway.policies.api"
        )
    return _sound(next(iter(found.values())), where)


def _run(path: Path, where: str) -> ModuleType:
    """Run the file as a module of its own, which `import` does not find; never what others can change."""
    try:
        found = path.stat()
        why = distrust(path)
    except (FileNotFoundError, NotADirectoryError):
        raise registry.UnknownPolicy(f"{where}: there is no such file") from None
    except OSError as error:
        raise registry.UnknownPolicy(
            f"{where}: it cannot be read: {error.strerror}; accepted: a file that user {os.geteuid()} can "
            "read"
        ) from error
    if not stat.S_ISREG(found.st_mode):
        raise registry.UnknownPolicy(f"{where}: it is no file; accepted: a file of Python")
    if why is not None:
        raise registry.UnknownPolicy(f"{where}: it is not run: {why}")
    name = f"makeway_policy_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_FromSource(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        line = _line_in(path, error)
        raise registry.UnknownPolicy(f"{where}: {type(error).__name__}: {error}{line}") from error
    return module


def _line_in(path: Path, error: BaseException) -> str:
    """Which line of the file raised the error. Empty: none did, or the error itself says so."""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f" (line {lines[-1]})" if lines else ""


def _of_package(value: str, load: Callable[[], object]) -> Policy[Any]:
    where = f"policy {value} of an installed package"
    try:
        policy = load()
    except (Exception, SystemExit) as error:
        raise registry.UnknownPolicy(f"{where}: {type(error).__name__}: {error}") from error
    if not _is_policy(policy):
        raise registry.UnknownPolicy(
            f"{where}: accepted: a Policy of makeway.policies.api, not a {type(policy).__name__}"
        )
    return _sound(policy, where)


def _is_policy(value: object) -> TypeGuard[Policy[Any]]:
    return isinstance(value, Policy)


def _sound(policy: Policy[Any], where: str) -> Policy[Any]:
    """The policy, if its name, its settings and its function can be used.

    Raises:
        UnknownPolicy: they cannot.
    """
    name = cast(object, policy.name)  # the policy comes from a file: no type is certain
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in registry.POLICIES:
        raise registry.UnknownPolicy(
            f"{where}: its name is {policy.name!r}; accepted: lower-case words joined by hyphens, "
            f"none of {', '.join(registry.POLICIES)}"
        )
    if not is_dataclass(policy.config_type):
        raise registry.UnknownPolicy(f"{where}: its config_type is not a dataclass")
    try:
        policy.config_type()
    except (TypeError, ValueError) as error:
        raise registry.UnknownPolicy(
            f"{where}: its config_type needs a default for every setting ({error})"
        ) from error
    if not _takes_two(policy.decide):
        raise registry.UnknownPolicy(
            f"{where}: its decide cannot be called; accepted: a function of a cluster and settings"
        )
    return policy


def _takes_two(function: object) -> bool:
    """Whether it can be called with two arguments. True too where Python does not know the parameters."""
    if not callable(function):
        return False
    try:
        signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        pass
    return True
