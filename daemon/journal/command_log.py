"""The commands that the limits count, kept in memory by the journal so that no cycle reads its whole file."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from makeway.policies.model import Eviction


class Outcome(StrEnum):
    """What became of an action in one cycle: the journal's word, the log field and the metric label."""

    ACCEPTED = "accepted"
    OBSERVED = "observed"  # observe mode: it would have been issued
    REFUSED = "refused"  # by makeway's own arbiter
    REJECTED = "rejected"  # by the cluster
    GONE = "gone"  # its job was over first
    IN_DOUBT = "in_doubt"  # no answer


EVICTING_VERBS: Final = frozenset({"requeue", "cancel", "shrink"})
EVICTED: Final = frozenset({None, Outcome.ACCEPTED, Outcome.IN_DOUBT})
"""The outcomes of an eviction that was carried out or may have been. None: no answer was written down."""


@dataclass(slots=True, kw_only=True)
class _Sent:
    verb: str
    job_id: str
    issued_s: float
    latest_s: float
    """The latest instant at which this command or an earlier one was issued: the clock may have been set
    back.
    """
    outcome: str | None = None
    failed: bool = False

    @property
    def evicted(self) -> bool:
        return self.verb in EVICTING_VERBS and self.outcome in EVICTED


class SentCommands:
    """Evictions and failures in the order in which their commands were sent."""

    def __init__(self) -> None:
        self._by_id: dict[int, _Sent] = {}
        self._latest_s = float("-inf")

    def add(self, command_id: int, verb: str, job_id: str, issued_s: float) -> None:
        """Take note of a command that is sent after all others."""
        self._latest_s = max(self._latest_s, issued_s)
        self._by_id[command_id] = _Sent(verb=verb, job_id=job_id, issued_s=issued_s, latest_s=self._latest_s)

    def answer(self, command_id: int, outcome: str, *, failed: bool) -> None:
        """Take note of the answer to a command, and whether the circuit breaker counts it; drop one that no
        limit counts.
        """
        sent = self._by_id.get(command_id)
        if sent is None:
            return
        sent.outcome, sent.failed = outcome, failed
        if not (sent.evicted or sent.failed):
            del self._by_id[command_id]

    def forget(self, command_ids: Iterable[int]) -> None:
        """Drop commands that are so old that no limit counts them."""
        for command_id in command_ids:
            self._by_id.pop(command_id, None)

    def evictions(self, since_s: float) -> tuple[Eviction, ...]:
        """Evictions since then that were carried out or may have been, oldest first."""
        found = [
            Eviction(job_id=sent.job_id, at_s=sent.issued_s) for sent in self._since(since_s) if sent.evicted
        ]
        return tuple(reversed(found))

    def failures_s(self, since_s: float) -> tuple[float, ...]:
        """When the commands since then were sent that the circuit breaker counts, oldest first."""
        return tuple(reversed([sent.issued_s for sent in self._since(since_s) if sent.failed]))

    def _since(self, since_s: float) -> Iterator[_Sent]:
        """What was issued since then, newest first."""
        for sent in reversed(self._by_id.values()):
            if sent.latest_s < since_s:
                return
            if sent.issued_s >= since_s:
                yield sent
