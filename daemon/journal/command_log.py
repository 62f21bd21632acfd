"""The commands that the limits count, kept in memory by the journal so that no cycle reads its whole file."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from makeway.daemon.operation.changed.saving import SaveRequest, SaveRequests
from makeway.policies.model import Action, Checkpoint, Eviction, RunIdentity


class Outcome(StrEnum):
    """What became of an action in one cycle: the journal's word, the log field and the metric label."""

    ACCEPTED = "accepted"
    OBSERVED = "observed"  # observe mode: it would have been issued
    REFUSED = "refused"  # by makeway's own arbiter
    REJECTED = "rejected"  # by the cluster
    GONE = "gone"  # its job was over first
    IN_DOUBT = "in_doubt"  # no answer
    UNSENT = "unsent"  # no answer to a question that comes before it: it was not sent


EVICTING_VERBS: Final = frozenset({"requeue", "cancel", "shrink"})
UNANSWERED: Final = frozenset({None, Outcome.IN_DOUBT})
"""The outcomes of a command that may have been carried out, or may be yet. None: no answer was written down.
"""
UNANSWERED_NOW: Final = frozenset({Outcome.IN_DOUBT, Outcome.UNSENT})
"""The outcomes that say that the cluster does not answer at present."""
EVICTED: Final = frozenset({None, Outcome.ACCEPTED, Outcome.IN_DOUBT})
"""The outcomes of an eviction that was carried out or may have been. None: no answer was written down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalledRun:
    """The run of a job that a command asks to save its work."""

    run: RunIdentity
    grace_s: float
    """How long it has for that from the command on."""

    @classmethod
    def of(cls, action: Action) -> "SignalledRun | None":
        """The run that the action signals. None: it signals none, or does not name it."""
        if not isinstance(action, Checkpoint) or action.run is None:
            return None
        return cls(run=action.run, grace_s=action.grace_s)


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
    eviction: Eviction = field(init=False)
    """The same as an eviction, if it is one."""

    def __post_init__(self) -> None:
        self.eviction = Eviction(job_id=self.job_id, at_s=self.issued_s)

    @property
    def evicted(self) -> bool:
        return self.verb in EVICTING_VERBS and self.outcome in EVICTED

    @property
    def refused_hold(self) -> bool:
        return self.verb == "reserve" and self.outcome == Outcome.REJECTED


_Signal = tuple[tuple[str, RunIdentity], SaveRequest]


class SentCommands:
    """Evictions and failures in the order in which their commands were sent."""

    def __init__(self) -> None:
        self._by_id: dict[int, _Sent] = {}
        self._signals: dict[int, _Signal] = {}
        """The signals without an answer: to which run of which job, and when."""
        self._accepted: dict[int, _Signal] = {}
        """The signals that were accepted, and whose graces were not over when they were last asked for."""
        self._asked_s: dict[str, float] = {}
        """When each job was asked to save its work last."""
        self._asked_by: dict[str, int] = {}
        """The command that did so."""
        self._evicted: Counter[str] = Counter()
        """How many commands have evicted each job. No entry is 0."""
        self._past: Mapping[str, int] | None = None
        """A copy of it. None: none was asked for since it changed."""
        self._latest_s = float("-inf")
        self.refused_hold_s = float("-inf")
        """When the last hold was asked for that the cluster refused. -inf: it has refused none."""

    def add(
        self,
        command_id: int,
        verb: str,
        job_id: str,
        issued_s: float,
        *,
        signalled: SignalledRun | None = None,
    ) -> None:
        """Take note of a command that is sent after all others. `signalled`: the run that it signals."""
        self._latest_s = max(self._latest_s, issued_s)
        sent = _Sent(verb=verb, job_id=job_id, issued_s=issued_s, latest_s=self._latest_s)
        self._by_id[command_id] = sent
        self._count(job_id, int(sent.evicted))
        if verb == "checkpoint":
            self._asked_s[job_id], self._asked_by[job_id] = issued_s, command_id
        if signalled is not None:
            request = SaveRequest(issued_s=issued_s, until_s=issued_s + signalled.grace_s)
            self._signals[command_id] = (job_id, signalled.run), request

    def answer(self, command_id: int, outcome: str, *, failed: bool) -> None:
        """Take note of the answer to a command, and whether the circuit breaker counts it; drop one that no
        limit counts.
        """
        if outcome not in UNANSWERED:
            signal = self._signals.pop(command_id, None)
            if signal is not None and outcome == Outcome.ACCEPTED:
                self._accepted[command_id] = signal
        sent = self._by_id.get(command_id)
        if sent is None:
            return
        evicted = sent.evicted
        sent.outcome, sent.failed = outcome, failed
        if sent.refused_hold:
            self.refused_hold_s = max(self.refused_hold_s, sent.issued_s)
        self._count(sent.job_id, int(sent.evicted) - int(evicted))
        if not (sent.evicted or sent.failed):
            del self._by_id[command_id]

    def forget(self, command_ids: Iterable[int]) -> None:
        """Drop commands that are so old that no limit counts them."""
        over = frozenset(command_ids)
        for job_id in [job_id for job_id, command_id in self._asked_by.items() if command_id in over]:
            del self._asked_s[job_id], self._asked_by[job_id]
        for command_id in over:
            sent = self._by_id.pop(command_id, None)
            if sent is not None:
                self._count(sent.job_id, -int(sent.evicted))
            self._signals.pop(command_id, None)
            self._accepted.pop(command_id, None)

    def evictions(self, since_s: float) -> tuple[Eviction, ...]:
        """Evictions since then that were carried out or may have been, oldest first."""
        return tuple(reversed([sent.eviction for sent in self._since(since_s) if sent.evicted]))

    def past_evictions(self) -> Mapping[str, int]:
        """How often each job was evicted, or may have been. Another object whenever it changes."""
        if self._past is None:
            self._past = self._evicted.copy()
        return self._past

    def failures_s(self, since_s: float) -> tuple[float, ...]:
        """When the commands since then were sent that the circuit breaker counts, oldest first.

        Of the refused holds of one urgent job only the last one counts: one job stops no other one.
        """
        found: list[float] = []
        refused: set[str] = set()
        for sent in self._since(since_s):
            if not sent.failed or (sent.refused_hold and sent.job_id in refused):
                continue
            if sent.refused_hold:
                refused.add(sent.job_id)
            found.append(sent.issued_s)
        return tuple(reversed(found))

    def unanswered_signals(self) -> dict[tuple[str, RunIdentity], float]:
        """When each run of a job was signalled without an answer, the latest of several instants."""
        return {run: request.issued_s for run, request in self._signals.values()}

    def asked_s(self) -> Mapping[str, float]:
        """When each job was asked to save its work last, whatever the answer. It grows with the commands."""
        return MappingProxyType(self._asked_s)

    def save_requests(self, now_s: float) -> SaveRequests:
        """The signals that were accepted, or may have arrived, and whose graces are not over."""
        if not self._accepted and not self._signals:
            return {}
        over = [number for number, (_, request) in self._accepted.items() if now_s >= request.until_s]
        for number in over:
            del self._accepted[number]
        return dict((*self._accepted.values(), *self._signals.values()))

    def _count(self, job_id: str, change: int) -> None:
        """Count evictions of a job that were added, or dropped if `change` is negative."""
        if change:
            self._past = None
            self._evicted[job_id] += change
            if not self._evicted[job_id]:
                del self._evicted[job_id]

    def _since(self, since_s: float) -> Iterator[_Sent]:
        """What was issued since then, newest first."""
        for sent in reversed(self._by_id.values()):
            if sent.latest_s < since_s:
                return
            if sent.issued_s >= since_s:
                yield sent
