"""Expressions over node features."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.adapters.slurm.resources.features import alternatives, satisfying

NODES = {
    "n1": frozenset({"a"}),
    "n2": frozenset({"a", "b"}),
    "n3": frozenset({"b", "c"}),
    "n4": frozenset({"c", "gpu.v1-x"}),
    "n5": frozenset({"c"}),
}


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("", "n1 n2 n3 n4 n5"),
        ("a", "n1 n2"),
        ("a&b", "n2"),
        ("a,b", "n2"),
        ("[a,b|c]", "n3 n4 n5"),
        ("a|b", "n1 n2 n3"),
        ("a|b&c", "n3"),  # equal rank, from left to right, as sbatch's manual says
        ("a|(b&c)", "n1 n2 n3"),
        ("(a|b)&c", "n3"),
        ("gpu.v1-x", "n4"),
        ("[a|b]", "n1 n2"),  # equal groups: the first
        ("[a|c]", "n3 n4 n5"),
        ("[a&b|c&gpu.v1-x]", "n2"),
        ("[(a|b)|gpu.v1-x]", "n1 n2 n3"),
        ("d", ""),
    ],
)
def test_who_satisfies(expression: str, names: str) -> None:
    assert satisfying(expression, NODES) == frozenset(names.split())


@pytest.mark.parametrize(
    "expression",
    ["a*2", "a*2&b*3", "[a*2&b*1]", "a&", "|a", "(a", "a)", "[a|b", "a b", "!a", "()", "(" * 10_000],
)
def test_what_cannot_be_said_of_a_node_is_satisfied_by_none(expression: str) -> None:
    assert satisfying(expression, NODES) == frozenset()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("", ("",)),
        ("a&b", ("a&b",)),
        ("[a|b]", ("(a)", "(b)")),
        ("c&[a|b&c]", ("c&(a)", "c&(b&c)")),
        ("[(a|b)|c]", ("((a|b))", "(c)")),
        ("[a|b]&[c|d]", ("(a)&(c)", "(a)&(d)", "(b)&(c)", "(b)&(d)")),
        ("[a|b", ("[a|b",)),
    ],
)
def test_what_brackets_leave_to_choose_from(expression: str, expected: tuple[str, ...]) -> None:
    assert alternatives(expression) == expected


def test_many_brackets_are_not_many_expressions() -> None:
    assert len(alternatives("&".join(["[a|b]"] * 40))) == 64


@settings(deadline=None)
@given(st.text(alphabet="ab&|()[]*", max_size=12))
def test_every_text_has_an_answer(expression: str) -> None:
    assert satisfying(expression, NODES) <= frozenset(NODES)
