"""When the next cycle is due: a pure function of the result of the last one. When garbage is collected."""

from dataclasses import dataclass

COLLECT_AFTER = (100_000, 20, 10)
"""Python's thresholds for a collection of garbage, in every command. The snapshot of a large site is some
hundred thousand objects that all stay: walking through them as often as Python does by default takes a tenth
of a cycle, and a sixteenth of the start of the daemon. With these, all objects are looked at about every 200
cycles there, so that no garbage stays for hours.
"""
REPEAT_LIMIT = 20
"""Consecutive cycles that follow at once because the cluster accepted a command; then the poll interval
applies again.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The settings, in seconds."""

    poll_interval_s: float
    poke_gap_s: float
    """Shortest gap between two cycles."""
    backoff_max_s: float

    def gap_s(self, failures: int) -> float:
        """Shortest gap between two cycles. Pokes do not shorten it while the cluster does not answer."""
        return self.poke_gap_s if failures == 0 else max(self.poke_gap_s, self.poll_interval_s)

    def delay_s(
        self, *, failures: int, again: bool, repeats: int, poked: bool, due_in_s: float | None
    ) -> float:
        """How long to wait after a cycle.

        Args:
            failures: consecutive cycles that ended without a decision, this one included.
            again: whether the cluster accepted a command.
            repeats: consecutive cycles that `again` has caused.
            poked: whether a cycle was requested since this one began.
            due_in_s: seconds until time alone makes something due. None: nothing.
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
