"""The commands that the limits count, kept at hand by the journal so that no cycle reads its whole file."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from makeway.policies.model import Eviction

TAKING_VERBS: Final = frozenset({"requeue", "cancel", "shrink"})
TAKEN: Final = frozenset({None, "accepted", "in_doubt"})
"""The outcomes of an eviction that was carried out or may have been. None: no answer was written down."""
FAILED: Final = frozenset({"rejected", "in_doubt"})


@dataclass(slots=True, kw_only=True)
class _Sent:
    verb: str
    job_id: str
    issued_s: float
    latest_s: float
    """The latest instant at which this command or an earlier one was issued: the clock may have been set back."""
    outcome: str | None = None

    @property
    def taken(self) -> bool:
        return self.verb in TAKING_VERBS and self.outcome in TAKEN

    @property
    def failed(self) -> bool:
        return self.outcome in FAILED


class SentCommands:
    """Evictions and failures in the order in which their commands were sent."""

    def __init__(self) -> None:
        self._by_id: dict[int, _Sent] = {}
        self._latest_s = float("-inf")

    def add(self, command_id: int, verb: str, job_id: str, issued_s: float) -> None:
        """Take note of a command that is sent after all others."""
        self._latest_s = max(self._latest_s, issued_s)
        self._by_id[command_id] = _Sent(verb=verb, job_id=job_id, issued_s=issued_s, latest_s=self._latest_s)

    def answer(self, command_id: int, outcome: str) -> None:
        """Take note of the answer to a command; one that no limit counts is forgotten."""
        sent = self._by_id.get(command_id)
        if sent is None:
            return
        sent.outcome = outcome
        if not (sent.taken or sent.failed):
            del self._by_id[command_id]

    def forget(self, command_ids: Iterable[int]) -> None:
        """Drop commands that are so old that no limit counts them."""
        for command_id in command_ids:
            self._by_id.pop(command_id, None)

    def evictions(self, since_s: float) -> tuple[Eviction, ...]:
        """Evictions since then that were carried out or may have been, oldest first."""
        found = [
            Eviction(job_id=sent.job_id, at_s=sent.issued_s) for sent in self._since(since_s) if sent.taken
        ]
        return tuple(reversed(found))

    def failures_s(self, since_s: float) -> tuple[float, ...]:
        """When commands since then were refused or got no answer, oldest first."""
        return tuple(reversed([sent.issued_s for sent in self._since(since_s) if sent.failed]))

    def _since(self, since_s: float) -> Iterator[_Sent]:
        """What was issued since then, newest first."""
        for sent in reversed(self._by_id.values()):
            if sent.latest_s < since_s:
                return
            if sent.issued_s >= since_s:
                yield sent
