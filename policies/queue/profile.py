"""The planned number of free nodes over time, into which conservative backfilling places jobs."""

from bisect import bisect_left
from collections.abc import Sequence
from math import inf


class Profile:
    """Numbers of free nodes from now on: `_free[i]` from `_from_s[i]` until `_from_s[i + 1]`, the last one
    for ever.
    """

    def __init__(self, now_s: float, available: int, releases: Sequence[tuple[float, int, int]]) -> None:
        self._from_s = [now_s]
        self._free = [available]
        for at_s, _, count in releases:
            available += count
            if at_s <= self._from_s[-1]:
                self._free[-1] = available
            else:
                self._from_s.append(at_s)
                self._free.append(available)

    def place(self, size: int, walltime_s: float) -> float:
        """Take `size` nodes for `walltime_s` at the earliest time at which they are free throughout; returns
        that time.

        Infinite, and nothing is taken, if there is none.
        """
        from_s, free = self._from_s, self._free
        total = len(free)
        first = 0
        while first < total:
            if free[first] < size:
                first += 1
                continue
            end_s = from_s[first] + walltime_s
            last = first + 1
            while last < total and from_s[last] < end_s and free[last] >= size:
                last += 1
            if last == total or from_s[last] >= end_s:
                start_s = from_s[first]
                self._take(first, end_s, size)
                return start_s
            first = last + 1
        return inf

    def _take(self, first: int, end_s: float, size: int) -> None:
        from_s, free = self._from_s, self._free
        last = bisect_left(from_s, end_s, first)
        if last == len(from_s) or from_s[last] != end_s:
            from_s.insert(last, end_s)
            free.insert(last, free[last - 1])
        for position in range(first, last):
            free[position] -= size
