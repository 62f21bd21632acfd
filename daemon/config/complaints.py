"""The errors that pydantic found, once for each value."""

from typing import Any, Final, NamedTuple

from pydantic import ValidationError

_PLAIN: Final = {"bool", "float", "int", "str"}
"""What pydantic calls the branches of a union of plain values, besides `literal[...]`."""
_WANTS: Final = "Input should be "
_IN_WORDS: Final = {
    "a valid number": "a number",
    "a valid integer": "a whole number",
    "a valid boolean": "true or false",
    "a valid string": "a text",
    "a valid list": "a list",
    "a valid tuple": "a list",
    "a valid array": "a list",
    "a valid frozenset": "a list",
    "a valid dictionary": "a mapping",
    "an object": "a mapping",
}
"""What pydantic calls the types of plain values, and what a reader of YAML calls them."""


class ProblemAtKey(ValueError):
    """What is wrong with one key in view of others: a check of the whole configuration.

    Args:
        key: names from the top down, such as ("leader", "lease_s").
        text: the problem, without the key.
    """

    def __init__(self, key: tuple[int | str, ...], text: str) -> None:
        super().__init__(text)
        self.key = key


class Complaint(NamedTuple):
    """What is wrong with one value."""

    location: tuple[int | str, ...]
    message: str
    value: Any


def accepted(message: str) -> str | None:
    """What the message says that would be taken, in the words of a configuration. None: it does not say."""
    if not message.startswith(_WANTS):
        return None
    words = _without_cause(message.removeprefix(_WANTS)).replace("'", "")
    for theirs, own in _IN_WORDS.items():
        words = words.replace(theirs, own)
    return words


def complaints(error: ValidationError) -> list[Complaint]:
    """What pydantic found, once for each value: for a union of plain values it reports each branch
    separately.
    """
    found: dict[tuple[int | str, ...], Complaint] = {}
    for entry in error.errors():
        location = entry["loc"]
        if location and (location[-1] in _PLAIN or str(location[-1]).startswith("literal[")):
            location = location[:-1]
        earlier = found.get(location)
        message = entry["msg"]
        if earlier is not None:
            message = f"{_without_cause(earlier.message)} or {message.removeprefix(_WANTS)}"
        found[location] = Complaint(location, message, entry["input"])
    return list(found.values())


def _without_cause(message: str) -> str:
    """What a message says that would be taken, without why the value was not."""
    return message.partition(", got ")[0].partition(", unable ")[0]
