"""What was worked out already: of the same frozen values, or in the same decision, for another urgent job.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the problem, which is solved for each urgent job.

Differs from the paper:
    The paper has one urgent job at a time.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from inspect import Parameter, signature
from operator import is_
from typing import Any, Final, TypeVar, TypeVarTuple, cast

_Result = TypeVar("_Result")
_Values = TypeVarTuple("_Values")
_Subject = TypeVar("_Subject")
_NOTHING: Final = object()
_PLACED: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_MOST = 300
"""How many results are kept, those that were asked for last. On a large machine one may take some MB."""
_MOST_SUBJECTS = 4096
_MOST_PARTS = 50_000
"""How many elements the tuples have together that `memoise_each` keeps for one function."""


def memoise_last(derive: Callable[[*_Values], _Result]) -> Callable[[*_Values], _Result]:
    """Make a pure function of frozen values remember its last result.

    A snapshot shares unchanged parts with the one before, and one decision calls the same functions many
    times. The arguments are compared by identity, which is fast, and sound because frozen values cannot
    change. They are passed by position.

    Raises:
        TypeError: it has no parameters, or one with a default or without a position.
    """
    parameters = signature(derive).parameters.values()
    if not parameters or any(one.default is not one.empty or one.kind not in _PLACED for one in parameters):
        raise TypeError(f"{derive.__name__}: each parameter needs a position, and may have no default")
    known: tuple[Any, ...] = (_NOTHING, _NOTHING, None)  # the arguments and the result
    work_out = cast(Callable[..., _Result], derive)

    def of_one(argument: object, /) -> Any:
        nonlocal known
        last = known
        if last[0] is not argument:
            last = known = argument, work_out(argument)
        return last[1]

    def of_two(first: object, second: object, /) -> Any:
        nonlocal known
        last = known
        if last[0] is not first or last[1] is not second:
            last = known = first, second, work_out(first, second)
        return last[2]

    def of_more(*arguments: object) -> Any:
        nonlocal known
        last = known
        if not all(map(is_, last, arguments)):
            last = known = *arguments, work_out(*arguments)
        return last[-1]

    remembering = {1: of_one, 2: of_two}.get(len(parameters), of_more)
    return cast(Callable[[*_Values], _Result], remembering)


def memoise_each(derive: Callable[[_Subject], _Result]) -> Callable[[_Subject], _Result]:
    """Make a pure function of one frozen value remember its results for some thousand values, by identity.

    Of long tuples it remembers fewer: an operation is another value after each command, and without that each
    of these values would keep what it had.
    """
    known: dict[int, tuple[_Subject, _Result]] = {}
    parts = 0

    def derived(subject: _Subject) -> _Result:
        nonlocal parts
        found = known.get(id(subject))
        if found is not None and found[0] is subject:
            return found[1]
        result = derive(subject)
        if len(known) >= _MOST_SUBJECTS or parts >= _MOST_PARTS:
            known.clear()
            parts = 0
        known[id(subject)] = subject, result
        parts += _length(result)
        return result

    return derived


def _length(result: object) -> int:
    return len(cast(tuple[object, ...], result)) if isinstance(result, tuple) else 0


class Same:
    """A value in a key, compared by identity: nothing changes it, and to compare it would take long."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class Memo:
    """Results of one decision, each under a key of all that it was worked out from.

    That is sound because a policy is a pure function: what is worked out from the same is the same.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, object] = OrderedDict()

    def once(self, key: Hashable, work_out: Callable[[], _Result]) -> _Result:
        """The result, which is worked out if it is not known.

        Args:
            key: what is worked out, and from what. It is kept, and with it each value in `Same`: no other
                value gets its identity.
            work_out: the result.
        """
        if key in self._known:
            self._known.move_to_end(key)
        else:
            self._known[key] = work_out()
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return cast(_Result, self._known[key])

    def for_each(
        self, key: Hashable, work_out: Callable[[*_Values], _Result]
    ) -> Callable[[*_Values], _Result]:
        """`work_out`, each result of which is worked out once for the same values, compared by identity.

        `key`: from what else the results are worked out.
        """
        known = self.once(("each", key), dict[tuple[int, ...], tuple[tuple[*_Values], _Result]])

        def result(*values: *_Values) -> _Result:
            one = tuple(map(id, values))
            found = known.get(one)
            if found is None:
                # It keeps the values: no other gets their identity.
                found = known[one] = values, work_out(*values)
            return found[1]

        return result
