"""What pydantic says is wrong, once for each value."""

from typing import Any, Final, NamedTuple

from pydantic import ValidationError

_PLAIN: Final = {"bool", "float", "int", "str"}
"""What pydantic calls the branches of a union of plain values, beside `literal[...]`."""
_WANTS: Final = "Input should be "


class Complaint(NamedTuple):
    """What is wrong with one value."""

    location: tuple[int | str, ...]
    message: str
    value: Any


def complaints(error: ValidationError) -> list[Complaint]:
    """What pydantic found, once for each value: of a union of plain values it tells every branch by
    itself.
    """
    found: dict[tuple[int | str, ...], Complaint] = {}
    for entry in error.errors():
        location = entry["loc"]
        if location and (location[-1] in _PLAIN or str(location[-1]).startswith("literal[")):
            location = location[:-1]
        told = found.get(location)
        message = entry["msg"] if told is None else f"{told.message} or {entry['msg'].removeprefix(_WANTS)}"
        found[location] = Complaint(location, message, entry["input"])
    return list(found.values())
