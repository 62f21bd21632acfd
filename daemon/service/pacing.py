"""When the next cycle is due: a pure function of how the last one went."""

from dataclasses import dataclass

REPEAT_LIMIT = 20
"""Cycles in a row that follow at once because the cluster took a command; then the poll interval is kept again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The settings. All in seconds."""

    poll_interval_s: float
    poke_gap_s: float
    """Lies between two cycles at least."""
    backoff_max_s: float

    def gap_s(self, failures: int) -> float:
        """What lies between two cycles at least: a cluster that does not answer is not asked faster for being poked."""
        return self.poke_gap_s if failures == 0 else max(self.poke_gap_s, self.poll_interval_s)

    def delay_s(
        self, *, failures: int, again: bool, repeats: int, poked: bool, due_in_s: float | None
    ) -> float:
        """How long to wait after a cycle.

        Args:
            failures: cycles in a row that ended without a decision, this one included.
            again: whether the cluster took a command.
            repeats: cycles in a row that `again` has caused.
            poked: whether somebody asked for a cycle since this one began.
            due_in_s: when time alone makes something due. None: nothing.
        """
        if failures:
            doubled_s = self.poll_interval_s * 2.0 ** min(failures - 1, 32)
            backoff_s = max(self.poll_interval_s, min(doubled_s, self.backoff_max_s))
            return min(backoff_s, self.gap_s(failures)) if poked else backoff_s
        if poked or (again and repeats < REPEAT_LIMIT):
            return min(self.poke_gap_s, self.poll_interval_s)
        if due_in_s is not None:
            return min(max(due_in_s, self.poke_gap_s), self.poll_interval_s)
        return self.poll_interval_s
