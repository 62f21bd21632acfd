"""Results of experiments on disk, so that an interrupted run resumes and a repeated one only reports.

The key of a result: the work function, every value of the trial, the bytes of the traces, and the source of
every module of makeway that the work function reaches by imports. Whatever of it changes, the result is
computed again; nothing is ever out of date. One file holds one result and may be deleted at any time.
"""

import ast
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Generic, TypeGuard, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from makeway.daemon.errors import UserError
from makeway.simharness.results.files import replacing

FORMAT = 1
"""The version of the files; it grows when they are written differently."""
NAMESPACE = "makeway."

TrialT = TypeVar("TrialT")
ResultT = TypeVar("ResultT")


def default_directory(command: str) -> Path:
    """The default folder of a command's results: $XDG_CACHE_HOME/makeway/COMMAND, or that below ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "makeway" / command


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultCache:
    """A directory of results, and the files whose contents count for every trial."""

    directory: Path
    traces: tuple[Path, ...] = ()
    option: str = "--cache"
    """The option that names the directory."""
    bypass: str | None = "--no-cache"
    """The option that does without it. None: there is none."""

    def require(self) -> None:
        """Make the directory, and make sure that results can be written there.

        Raises:
            UserError: they cannot.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.directory).close()
        except OSError as error:
            instead = f", or {self.bypass}" if self.bypass else ""
            raise UserError(
                f"{self.option} {self.directory}: no results can be kept there ({error.strerror}); accepted: "
                f"a directory that can be written{instead}"
            ) from error

    def of(self, work: Callable[[TrialT], ResultT]) -> "KeptResults[TrialT, ResultT]":
        """The part of it that holds the results of one work function, whose annotations say what they are.

        Raises:
            TypeError: the function does not say what it returns.
        """
        hints = get_type_hints(work)
        if hints.get("return") is None:
            raise TypeError(f"{work!r} does not say what it returns")
        return KeptResults(
            directory=self.directory / f"{work.__module__.removeprefix(NAMESPACE)}.{work.__qualname__}",
            prefix=(
                str(FORMAT),
                f"{work.__module__}.{work.__qualname__}",
                source_digest(work.__module__),
                *(file_digest(path) for path in self.traces),
            ),
            adapter=TypeAdapter(hints["return"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResults(Generic[TrialT, ResultT]):
    """The results of one work function."""

    directory: Path
    prefix: tuple[str, ...]
    """What is the same for all trials."""
    adapter: TypeAdapter[ResultT]

    def path(self, trial: TrialT) -> Path:
        """The file that holds the result, if there is one."""
        text = json.dumps([*self.prefix, plain(trial)], sort_keys=True)
        return self.directory / f"{hashlib.sha256(text.encode()).hexdigest()}.json"

    def get(self, trial: TrialT) -> tuple[ResultT] | None:
        """The stored result. None: there is none, or its file is damaged, which is reported."""
        path = self.path(trial)
        try:
            return (self.adapter.validate_json(path.read_bytes()),)
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            cause = error.strerror if isinstance(error, OSError) else "damaged"
            print(f"makeway: warning: {path}: {cause}; computed again", file=sys.stderr)
            return None

    def put(self, trial: TrialT, result: ResultT) -> None:
        """Store a result: its file is complete or absent.

        A failure to write is reported on standard error.

        Raises:
            TypeError: the result would not come back as it is, because it holds something else than plain
                values.
        """
        text = json.dumps(self.adapter.dump_python(result, mode="json"))
        if self.adapter.validate_json(text) != result:
            raise TypeError(f"a {type(result).__name__} does not come back from JSON as it was")
        path = self.path(trial)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as part:
                part.write_text(text, encoding="utf-8")
        except OSError as error:
            print(f"makeway: warning: {path}: a result was not kept ({error.strerror})", file=sys.stderr)


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)


def _is_set(value: object) -> TypeGuard[frozenset[object]]:
    return isinstance(value, frozenset)


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def plain(value: object) -> object:
    """A trial as values of JSON. A name of a file counts as the file's contents, another path not at all.

    Raises:
        TypeError: something in it is no plain value.
    """
    if is_dataclass(value) and not isinstance(value, type):
        values = {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        return [type(value).__qualname__, values]
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, str | Path) and os.path.isfile(value):
        return {"file": file_digest(Path(value))}
    if isinstance(value, Path):
        return None
    if _is_mapping(value):
        return {str(key): plain(one) for key, one in value.items()}
    if _is_set(value):
        return sorted(map(plain, value), key=json.dumps)
    if _is_sequence(value):
        return [plain(one) for one in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{value!r} is no plain value: it cannot be part of a trial whose result is stored")


@cache
def file_digest(path: Path) -> str:
    """The SHA-256 of a file, read once in the life of the process."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def source_digest(module: str) -> str:
    """The SHA-256 of the source of a module and of every module of makeway that it reaches."""
    digest = hashlib.sha256()
    for name, source in sorted(_reached(module).items()):
        digest.update(f"{name}\n{len(source)}\n".encode())
        digest.update(source)
    return digest.hexdigest()


def reached(module: str) -> frozenset[str]:
    """The modules of makeway that a module imports, anywhere in it, or names in a string."""
    return frozenset(_reached(module))


def _reached(module: str) -> dict[str, bytes]:
    """The source of each module; that of the first one in any case."""
    found: dict[str, bytes] = {}
    open_yet = [module]
    while open_yet:
        name = open_yet.pop()
        spec = None if name in found else _spec(name)
        if spec is None or spec.origin is None:
            continue
        found[name] = Path(spec.origin).read_bytes()
        open_yet.extend(_named(ast.parse(found[name])))
    return found


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is. None: the name is no module's."""
    try:
        return find_spec(name)
    except ModuleNotFoundError:  # what is before the last dot is no package
        return None


def _named(tree: ast.AST) -> Iterator[str]:
    """Names in a source that may be modules of makeway."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom(module=str(module)):
                names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
            case ast.Constant(value=str(text)):
                names = [text]
            case _:
                continue
        for name in names:
            parts = name.split(".")
            if name.startswith(NAMESPACE) and len(parts) >= 3 and all(map(str.isidentifier, parts)):
                yield from (".".join(parts[:count]) for count in range(3, len(parts) + 1))
