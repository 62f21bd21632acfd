"""What pydantic says of a wrong value, in the words of a configuration."""

from typing import Any, Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from makeway.daemon.config.complaints import accepted, complaints


@pytest.mark.parametrize(
    ("wanted", "value", "words"),
    [
        (float | Literal["auto"] | None, "much", "a number or auto"),
        (int | Literal["few", "many"], "much", "a whole number or few or many"),
        (bool | int, "much", "true or false or a whole number"),
        (frozenset[str], 5, "a list"),
    ],
)
def test_a_value_that_may_be_of_several_kinds_is_told_all(wanted: Any, value: object, words: str) -> None:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter[Any](wanted).validate_python(value)
    (found,) = complaints(raised.value)
    assert accepted(found.message) == words
