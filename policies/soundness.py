"""Whether what a policy has returned is a sound decision: of the right types, with finite times, so that the
journal can be read again. A policy in a file may return anything.
"""

import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from itertools import chain
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from makeway.policies.model import Action, Decision, Rationale, memoise_each


def unsound(answer: Any) -> str | None:
    """What is wrong with what a policy has returned, and what is accepted. None: it is a sound decision."""
    if not isinstance(answer, Decision):
        return f"it returned {_kind(answer)}; accepted: a Decision of makeway.policies.api"
    wrong = _unsound_parts(answer)
    return None if wrong is None else f"it returned a Decision whose {wrong}"


def _unsound_parts(decision: Any) -> str | None:
    """See `unsound`. The types of a file's values are not known."""
    parts: tuple[tuple[str, type | UnionType, str], ...] = (
        ("actions", Action, "actions"),
        ("rationale", Rationale, "Rationale values"),
    )
    for name, wanted, words in parts:
        values: object = getattr(decision, name)
        accepted = f"accepted: a tuple of {words} of makeway.policies.api"
        if not isinstance(values, tuple):
            return f"{name} are {_kind(values)}; {accepted}"
        for place, value in enumerate(cast(tuple[object, ...], values)):
            if not isinstance(value, wanted):
                return f"{name}[{place}] is {_kind(value)}; {accepted}"
    for kind, noted in (("actions", decision.actions), ("rationale", decision.rationale)):
        for place, one in enumerate(noted):
            if (wrong := _unsound_seconds(one) or _unsound_values(one)) is not None:
                return f"{kind}[{place}].{wrong}"
    return _unsound_seconds(decision) or _unsound_values(decision)


def _unsound_values(noted: Action | Rationale | Decision) -> str | None:
    """Which value of an action, a rationale or a decision the journal could not read again, and what is
    accepted. None: it can read all of them.
    """
    for name, check, accepted in _checks_of(noted.__class__):
        if not check(value := getattr(noted, name)):
            shown = repr(value) if isinstance(value, str | float) else _shown(value)
            return f"{name} is {shown}; accepted: {accepted}"
    return None


@memoise_each
def _checks_of(cls: type[Any]) -> tuple[tuple[str, Callable[[Any], bool], str], ...]:
    """The fields of a class, with what tells their values from others, and what is accepted, in words. The
    parts of a decision are checked one by one.
    """
    hints = get_type_hints(cls)
    names = [one.name for one in fields(cls) if not (cls is Decision and one.name != "policy")]
    return tuple((name, _check_of(hints[name]), _words_of(hints[name])) for name in names)


def _check_of(hint: Any) -> Callable[[Any], bool]:
    """What tells the values of a type from others."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return lambda value: value in parts
    if origin is tuple and parts[0] is str:
        return lambda value: isinstance(value, tuple) and _are_texts(cast(tuple[object, ...], value))
    if origin is tuple:
        many = _check_of_many(parts[0])
        return lambda value: isinstance(value, tuple) and many(cast(tuple[object, ...], value))
    if parts:
        checks = [_check_of(part) for part in parts]
        return lambda value: any(check(value) for check in checks)
    if hint is str:
        return lambda value: isinstance(value, str) and (value.isascii() or _encodable(value))
    if hint is float:
        return lambda value: isinstance(value, int | float) and _is_finite(value)
    if hint is int:  # metrics and texts make a float of it
        return lambda value: isinstance(value, int) and _is_finite(value)
    kind = cast(type[Any], hint)
    if is_dataclass(kind):
        own = _checks_of(kind)
        return lambda value: (
            isinstance(value, kind) and all(check(getattr(value, name)) for name, check, _ in own)
        )
    return lambda value: isinstance(value, kind)


def _check_of_many(hint: Any) -> Callable[[tuple[object, ...]], bool]:
    """What tells whether all values are of a type. A decision on a large machine has many thousand
    candidates: their fields are looked at together, and one by one only where that does not do.
    """
    each = _check_of(hint)
    if not is_dataclass(hint):
        return lambda values: all(map(each, values))
    hints = get_type_hints(hint)
    checks = _checks_of(cast(type[Any], hint))
    columns = [(attrgetter(name), _plain_of(hints[name]), check) for name, check, _ in checks]

    def are_sound(values: tuple[object, ...]) -> bool:
        if set(map(type, values)) != {hint}:
            return all(map(each, values))
        for of_value, are_plain, check in columns:
            column = list(map(of_value, values))
            if not are_plain(column) and not all(map(check, column)):
                return False
        return True

    return are_sound


def _plain_of(hint: Any) -> Callable[[list[Any]], bool]:
    """What tells that values are sound ones of the very types that a field names. False says nothing."""
    if get_origin(hint) is tuple and get_args(hint)[0] is str:
        return lambda column: {*map(type, column)} <= {tuple} and _are_plain(str, [*chain(*column)])
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
    if len(kinds) != 1 or not isinstance(kinds[0], type) or is_dataclass(kinds[0]):
        return lambda column: False
    if NoneType not in get_args(hint):
        return partial(_are_plain, kinds[0])
    return lambda column: _are_plain(kinds[0], [value for value in column if value is not None])


def _are_plain(kind: type[Any], values: list[Any]) -> bool:
    """Whether all values are of that very type, and sound. A whole number serves as a time."""
    if not {*map(type, values)} <= ({float, int} if kind is float else {kind}):
        return False
    if kind is str:
        return "".join(values).isascii()
    return kind not in (float, int) or _are_finite(values)


def _are_finite(numbers: list[Any]) -> bool:
    """Whether all of the numbers are finite."""
    try:
        return all(map(math.isfinite, numbers))
    except OverflowError:
        return False


def _is_finite(number: float) -> bool:
    """Whether a number is finite. A whole number that is too large for a float is not, either."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _shown(value: object) -> str:
    """A value for people. Python prints no whole number of thousands of digits."""
    if not isinstance(value, int | float):
        return _kind(value)
    return repr(value) if isinstance(value, float) or _is_finite(value) else "too large a number"


def _are_texts(values: tuple[object, ...]) -> bool:
    """Whether all values are texts that can be written: the names of many nodes, looked at together."""
    try:
        joined = "".join(cast(tuple[str, ...], values))
    except TypeError:
        return False
    return joined.isascii() or all(_encodable(cast(str, one)) for one in values)


def _encodable(text: str) -> bool:
    """Whether a text can be written: a half of a pair of UTF-16 cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _words_of(hint: Any) -> str:
    """What a type accepts, in words."""
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"a tuple; of each value: {_words_of(get_args(hint)[0])}"
    if parts := get_args(hint):
        return ", or ".join(map(_words_of, parts))
    known = {
        str: "a text",
        int: "a whole number",
        float: "a finite number",
        bool: "True or False",
        type(None): "None",
    }
    if hint in known:
        return known[hint]
    values = f" ({', '.join(one.name for one in hint)})" if issubclass(hint, Enum) else ""
    return f"a {hint.__name__} of makeway.policies.api{values}"


def _unsound_seconds(noted: Action | Rationale | Decision) -> str | None:
    """Which time of an action, a rationale or a decision is no finite number, and what is accepted. None:
    all are. A time that is None is not looked at.
    """
    for name in _times_of(noted.__class__):
        value: object = getattr(noted, name)
        if isinstance(value, int | float):
            if not _is_finite(value):
                return f"{name} is {_shown(value)}; accepted: a finite number of seconds"
        elif value is not None:
            return f"{name} is {_kind(value)}; accepted: seconds, or None"
    return None


@memoise_each
def _times_of(cls: type[Any]) -> tuple[str, ...]:
    """The fields of a class that are times."""
    return tuple(one.name for one in fields(cls) if one.name.endswith("_s"))


def _kind(value: object) -> str:
    """What kind of value it is, in words."""
    return "None" if value is None else f"a value of type {type(value).__name__}"
