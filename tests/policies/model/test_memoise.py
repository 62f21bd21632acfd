"""Functions that remember what they derived, by the identity of their arguments."""

from collections.abc import Callable
from typing import cast

import pytest

from makeway.policies.model import memoise_each, memoise_last


def test_the_last_result_is_remembered_for_the_same_arguments() -> None:
    asked: list[object] = []

    @memoise_last
    def of_one(names: tuple[str, ...]) -> list[str]:
        asked.append(names)
        return list(names)

    @memoise_last
    def of_two(names: tuple[str, ...], more: tuple[str, ...]) -> list[str]:
        asked.append((names, more))
        return [*names, *more]

    @memoise_last
    def of_three(names: tuple[str, ...], more: tuple[str, ...], number: int) -> list[str]:
        asked.append((names, more, number))
        return [*names, *more, str(number)]

    first, second = ("a", "b"), ("a", "c")
    assert of_one(first) is of_one(first)
    assert of_one(second) == ["a", "c"]
    assert of_one(first) == ["a", "b"]
    assert asked == [first, second, first]
    assert len(asked) == 3
    assert of_two(first, second) is of_two(first, second)
    assert of_two(second, first) == ["a", "c", "a", "b"]
    assert of_two(second, second) == ["a", "c", "a", "c"]
    assert of_two(first, second) == ["a", "b", "a", "c"]
    assert len(asked) == 7
    assert of_three(first, second, 1) is of_three(first, second, 1)
    assert of_three(first, second, 2) == ["a", "b", "a", "c", "2"]
    assert len(asked) == 9
    assert of_one(("a", "b", "c")[:2]) is not of_one(first), "equal, but another object"


def test_the_results_of_many_values_are_remembered() -> None:
    asked: list[tuple[int, ...]] = []

    @memoise_each
    def doubled(numbers: tuple[int, ...]) -> tuple[int, ...]:
        asked.append(numbers)
        return tuple(2 * number for number in numbers)

    values = [(index, index + 1) for index in range(5000)]
    for _ in range(2):
        assert [doubled(value) for value in values[:100]] == [(2 * a, 2 * b) for a, b in values[:100]]
    assert len(asked) == 100
    assert all(doubled((index, 0)) == (2 * index, 0) for index in range(10_000)), "an id is used again"


def test_few_long_results_are_remembered() -> None:
    asked: list[int] = []

    @memoise_each
    def counted(first: int) -> tuple[int, ...]:
        asked.append(first)
        return tuple(range(first, first + 1000))

    firsts = list(range(1000, 1060))
    for first in firsts:
        counted(first)
    assert counted(firsts[-1])[0] == firsts[-1]
    assert asked == firsts, "the latest are remembered"
    assert counted(firsts[0])[0] == firsts[0]
    assert asked == [*firsts, firsts[0]], "the first are not"


def test_only_arguments_with_a_place_are_compared() -> None:
    def nothing() -> int:
        return 1

    def with_default(first: int, second: int = 2) -> int:
        return first + second

    def named(first: int, *, second: int) -> int:
        return first + second

    def several(*numbers: int) -> int:
        return sum(numbers)

    for one in (nothing, with_default, named, several):
        with pytest.raises(TypeError, match=one.__name__):
            memoise_last(cast(Callable[[int], int], one))
