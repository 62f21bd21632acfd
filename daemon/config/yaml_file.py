"""Reads the YAML of a configuration: plain values, and the line of every key.

Accepted: mappings with text keys, lists, text, whole and decimal numbers, true, false and null. Dates stay
text. Refused, each with its line: a repeated key, anchors and aliases, merge keys, tags, numbers that are not
finite or begin with a 0, which YAML reads as octal.
"""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from makeway.daemon.errors import UserError, printable

if TYPE_CHECKING:
    from pydantic import JsonValue

SIZE_LIMIT = 1 << 20
"""Largest configuration, in bytes."""

_HINTS = {
    "found character '\\t'": "indent with spaces",
    "mapping values are not": "look here and above for a key without its colon, or a text to be quoted",
    "could not find expected ':'": "a key needs a colon and a blank after it",
    "expected <block end>": "the line is not indented like the lines to which it belongs",
    "but found another document": "one document is expected: remove the line `---`",
    "found unexpected end of stream": "a quote is opened and not closed",
}
"""What to do about the beginning of what the reader of YAML says."""
_OCTAL = re.compile(r"[-+]?0[0-7_]+")

Key = tuple[str | int, ...]
"""The path to a value: keys and list positions."""


class ConfigError(UserError):
    """A configuration that cannot be used.

    Args:
        problems: one sentence for each problem, with file, line and key.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong with the value at `key`."""

    key: Key
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """A configuration as it is written in its file."""

    path: Path
    values: "dict[str, JsonValue]"
    lines: dict[Key, int] = field(default_factory=dict[Key, int])

    def locate(self, problem: Problem) -> str:
        """`file:line: dotted.key: text`, with the line of the nearest key that the file has."""
        key = problem.key
        while key and key not in self.lines:
            key = key[:-1]
        dotted = ".".join(printable(str(part)) for part in problem.key)
        where = f"{printable(str(self.path))}:{self.lines.get(key, 1)}"
        text = printable(problem.text)  # it may quote a value with a line end
        return f"{where}: {dotted}: {text}" if dotted else f"{where}: {text}"

    def refuse(self, problems: list[Problem]) -> None:
        """Raise `ConfigError` with all problems in the order of the file, if there are any."""
        if problems:
            placed = sorted(problems, key=lambda problem: self.lines.get(problem.key, 0))
            raise ConfigError(tuple(self.locate(problem) for problem in placed))


def read(path: Path) -> ConfigFile:
    """Read one configuration file.

    Raises:
        ConfigError: it cannot be read, is not YAML, is not a mapping, or holds something that is not
            accepted.
    """
    name = printable(str(path))
    try:
        with path.open("rb") as stream:
            text = stream.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise ConfigError((f"{name}: cannot be read: {error.strerror or error}",)) from error
    if len(text) > SIZE_LIMIT:
        raise ConfigError((f"{name}: larger than {SIZE_LIMIT} bytes",))
    try:
        root = yaml.compose(text, Loader=_Loader)
        reader = _Reader()
        values: Any = {} if root is None else reader.value(root, ())
    except yaml.YAMLError as error:
        raise ConfigError((f"{name}:{_why_not_yaml(error, text)}",)) from error
    except RecursionError:
        raise ConfigError((f"{name}: nested too deeply",)) from None
    if values is None:
        values = {}
    is_mapping = isinstance(values, dict)
    file = ConfigFile(
        path=path, values=cast("dict[str, Any]", values) if is_mapping else {}, lines=reader.lines
    )
    if not is_mapping:
        reader.problems.append(
            Problem(key=(), text="a mapping of settings is expected, such as `mode: observe`")
        )
    file.refuse(reader.problems)
    return file


def _why_not_yaml(error: yaml.YAMLError, text: bytes) -> str:
    """`LINE: what is wrong there`, and what to do about the mistakes that are made most often."""
    if isinstance(error, ReaderError):
        code = f"{error.character:#04x}"
        if error.encoding == "unicode":  # then its position counts characters
            line = text.decode(errors="replace").count("\n", 0, error.position) + 1
            return f"{line}: not YAML: the character {code} is not accepted"
        line = text.count(b"\n", 0, error.position) + 1
        return f"{line}: not {error.encoding}: byte {code}; save the file as UTF-8"
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"1: not YAML: {printable(str(error))}"
    line = error.problem_mark.line + 1 if error.problem_mark else 1
    problem = printable(error.problem or str(error))
    hint = next((f"; {hint}" for start, hint in _HINTS.items() if problem.startswith(start)), "")
    return f"{line}: not YAML: {problem}{hint}"


class _Loader(yaml.SafeLoader):
    """The safe loader, which reads `1e3` as a number, as YAML 1.2 does, and a date as text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType] - its stub has no types
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


class _Reader:
    """Walks a tree of YAML nodes once."""

    def __init__(self) -> None:
        self.lines: dict[Key, int] = {}
        self.problems: list[Problem] = []
        self._scalars = yaml.constructor.SafeConstructor()
        self._seen: set[int] = set()

    def value(self, node: Node, key: Key) -> Any:
        self.lines.setdefault(key, node.start_mark.line + 1)
        if id(node) in self._seen:
            return self._refuse(key, "anchors and aliases are not accepted: write the value out")
        self._seen.add(id(node))
        match node:
            case MappingNode():
                return self._mapping(node, key)
            case SequenceNode():
                return [self.value(item, (*key, position)) for position, item in enumerate(node.value)]
            case ScalarNode():
                return self._scalar(node, key)
            case _:
                return self._refuse(key, "a value is expected")

    def _mapping(self, node: MappingNode, key: Key) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name_node, value_node in node.value:
            name = name_node.value if isinstance(name_node, ScalarNode) else "?"
            place = (*key, name)
            line = name_node.start_mark.line + 1
            if place in self.lines:
                self._refuse(place, f"repeated at line {line}; a key may be given once")
                continue
            self.lines[place] = line
            if not _encodable(name) or name_node.tag not in {
                "tag:yaml.org,2002:str",
                "tag:yaml.org,2002:merge",
            }:
                self._refuse(place, "this key is not accepted: write a plain word")
                continue
            values[name] = self.value(value_node, place)
        return values

    def _scalar(self, node: ScalarNode, key: Key) -> Any:
        try:
            value: Any = self._scalars.construct_object(node)  # pyright: ignore[reportUnknownMemberType]
        except (yaml.YAMLError, ValueError):
            return self._refuse(
                key, f"{printable(node.value[:60])!r} with the tag {printable(node.tag)} is not accepted"
            )
        if isinstance(value, str) and not _encodable(value):
            return self._refuse(key, "this is not valid Unicode: half of a surrogate pair")
        if isinstance(value, int) and _OCTAL.fullmatch(node.value):
            return self._refuse(
                key, f"{node.value} is not accepted: YAML reads it as {value}; leave out the 0"
            )
        if isinstance(value, float) and not math.isfinite(value):
            return self._refuse(key, f"{value} is not accepted: a finite number is expected")
        if value is not None and not isinstance(value, str | int | float):
            return self._refuse(key, f"the tag {printable(node.tag)} is not accepted: write a plain value")
        return value

    def _refuse(self, key: Key, text: str) -> None:
        self.problems.append(Problem(key=key, text=text))


def _encodable(text: str) -> bool:
    """Whether a text can be written as UTF-8 at all."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
