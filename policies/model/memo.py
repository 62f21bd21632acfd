"""What one decision has worked out already: other urgent jobs of the decision may need the same.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the problem, which is solved for each urgent job.

Differs from the paper:
    The paper has one urgent job at a time.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar, TypeVarTuple, cast

_Result = TypeVar("_Result")
_Values = TypeVarTuple("_Values")
_MOST = 300
"""How many results are kept, those that were asked for last. On a large machine one may take some MB."""


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
