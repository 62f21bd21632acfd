"""What pydantic says of a wrong value, in the words of a configuration."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from makeway.daemon.config.complaints import accepted, complaints
from makeway.daemon.config.load import problems_of


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


class _Section(BaseModel):
    """Of an adapter that is not makeway's own."""

    host: str = Field(description="a machine")
    ports: str | tuple[str, ...] = Field(description="a port, or several")


def test_quotes_are_only_proposed_where_nothing_but_a_text_is_accepted() -> None:
    with pytest.raises(ValidationError) as caught:
        _Section.model_validate({"host": 5, "ports": 5}, strict=True)
    assert [(one.key, one.text) for one in problems_of(caught.value, _Section)] == [
        (("host",), "5 is not accepted; accepted: a machine (in quotes, if it is meant as a name)"),
        (("ports",), "5 is not accepted; accepted: a port, or several"),
    ]
