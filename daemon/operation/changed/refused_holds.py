"""Holds that the cluster refuses: which nodes an urgent job does without, and when the next one is tried.

The next snapshot may show the reason for the first refusal, such as a reservation that came between the look
and the command. So the hold is decided on again at once. If the cluster refuses the same nodes again, the
reason is one that makeway does not see: then other nodes serve, as far as there are others. From the third
refusal in a row on there is a pause before the next hold, which doubles each time.

Nothing is remembered for this. The journal has the commands for holds, each with its answer.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from makeway.policies.common.holds import eligible_set
from makeway.policies.model import Cluster, Decision, Job, JobKind, Reserve, changed

COUNTS_S = 4 * 3600.0
"""How long a refusal counts, in seconds."""
PAUSES_FROM = 3
"""From so many refusals in a row on there is a pause before the next hold of a job."""
_SHORTEST_PAUSE_S = 10.0
_LONGEST_PAUSE_S = 600.0
_AVOIDED_AT = 2.0
"""After so many refused holds with a node, other nodes are tried."""
_AVOIDED_S = 300.0
"""How long a node is avoided that was refused so often, in seconds since the last refusal. Twice as long for
each further refusal."""
_LONGEST_AVOIDED_S = 3600.0
_TRY_AGAIN = 0.25
"""What a refusal counts after which makeway was asked to try again. It does so without a new decision."""
_MOST_NAMED = 8
"""So many nodes are named in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldAnswer:
    """What the cluster answered to one command for a hold."""

    hold: Reserve
    issued_s: float
    accepted: bool
    """False: it was refused."""
    final: bool
    """Whether the refusal was final; else makeway was asked to try again."""
    words: str
    """The cluster's words."""


@dataclass(slots=True)
class _Refusals:
    """What was refused lately."""

    counts: dict[str, float] = field(default_factory=dict[str, float])
    """By node: how many holds with it were refused since the last one that was accepted."""
    last_s: dict[str, float] = field(default_factory=dict[str, float])
    """By node: when the last one was sent."""
    in_a_row: dict[str, float] = field(default_factory=dict[str, float])
    """By job: how many of its holds were refused since the last one that was accepted."""
    last_of: dict[str, HoldAnswer] = field(default_factory=dict[str, HoldAnswer])
    """By job: the last refusal."""
    named: dict[str, str] = field(default_factory=dict[str, str])
    """By node: the words of the last refusal."""

    @classmethod
    def of(cls, answers: Iterable[HoldAnswer], now_s: float) -> "_Refusals":
        """`answers`: the oldest first. One that the clock has not reached counts for nothing."""
        found = cls()
        for answer in answers:
            if answer.issued_s <= now_s:
                found._add(answer)
        return found

    def _add(self, answer: HoldAnswer) -> None:
        job_id, weight = answer.hold.job_id, 1.0 if answer.final else _TRY_AGAIN
        if answer.accepted:
            self.in_a_row.pop(job_id, None)
            for node in answer.hold.nodes:
                self.counts.pop(node, None)
            return
        self.in_a_row[job_id] = self.in_a_row.get(job_id, 0.0) + weight
        self.last_of[job_id] = answer
        for node in answer.hold.nodes:
            self.counts[node] = self.counts.get(node, 0.0) + weight
            self.last_s[node], self.named[node] = answer.issued_s, answer.words

    def avoided_until_s(self) -> dict[str, float]:
        """The nodes that jobs do without if there are others, each with the end of that. Those that were
        refused most often come first.
        """
        often = [(-count, node) for node, count in self.counts.items() if count >= _AVOIDED_AT]
        return {node: self.last_s[node] + _avoided_s(-count) for count, node in sorted(often)}

    def pause_s(self, job_id: str, refused_s: float) -> float:
        """How long after its last refusal the next hold of a job may be tried."""
        times = self.in_a_row.get(job_id, 0.0)
        if times < PAUSES_FROM:
            return 0.0
        first_s = max(refused_s, _SHORTEST_PAUSE_S)
        return min(first_s * 2.0 ** min(int(times) - PAUSES_FROM, 30), max(_LONGEST_PAUSE_S, first_s))


class RefusedHolds:
    """Finds the urgent jobs whose holds the cluster refuses.

    Args:
        answers_since: the answers to commands for holds that were sent since an instant, the oldest first.
            None are needed if no hold was refused since then.

    Attributes:
        news: what the last snapshot showed and the one before did not, in words for the log.
        again_s: when the next decision is due by this alone. None: on a change only.
    """

    def __init__(self, answers_since: Callable[[float], Sequence[HoldAnswer]]) -> None:
        self._answers_since = answers_since
        self._without: Mapping[str, str] = {}
        self._pausing: Mapping[str, str] = {}
        self.news: tuple[str, ...] = ()
        self.again_s: float | None = None

    def counted(self, seen: Cluster, refused_s: float) -> Cluster:
        """The snapshot, in which such jobs may not run on the nodes that were refused again and again, and
        those that have to pause lack something.

        Args:
            seen: the snapshot.
            refused_s: the first pause, in seconds.
        """
        waiting = seen.waiting_urgent_jobs()
        answers = self._answers_since(seen.now_s - COUNTS_S) if waiting else ()
        before = (self._without, self._pausing)
        without, pausing, instants = dict[str, str](), dict[str, str](), list[float]()
        self._without, self._pausing, self.news, self.again_s = without, pausing, (), None
        if not answers:
            return seen
        refusals = _Refusals.of(answers, seen.now_s)
        until_s = refusals.avoided_until_s()
        until_s = {node: end_s for node, end_s in until_s.items() if seen.now_s < end_s}
        jobs: dict[str, Job] = {}
        for job in waiting:
            pause_s = refusals.pause_s(job.job_id, refused_s)
            if (
                pause_s
                and not job.blocked_by
                and seen.now_s < refusals.last_of[job.job_id].issued_s + pause_s
            ):
                instants.append(refusals.last_of[job.job_id].issued_s + pause_s)
                pausing[job.job_id] = lacks = _lacks(refusals, job.job_id, pause_s)
                jobs[job.job_id] = replace(job, blocked_by=lacks, eligible_s=math.inf)
                continue
            avoided = _avoidable(job, list(until_s), seen)
            if avoided:
                instants += [until_s[node] for node in avoided]
                without[job.job_id] = f"{_named(avoided)} ({refusals.named[avoided[0]]})"
                jobs[job.job_id] = _without(job, avoided, seen)
        self.news = (
            *(f"job {one} waits for {pausing[one]}" for one in pausing if one not in before[1]),
            *(
                f"job {one} does without {without[one]}"
                for one in without
                if before[0].get(one) != without[one]
            ),
        )
        self.again_s = min(instants, default=None)
        return replace(seen, jobs=tuple(jobs.get(job.job_id, job) for job in seen.jobs)) if jobs else seen

    def explained(self, decision: Decision) -> Decision:
        """The decision on the last snapshot. It says which nodes a job does without, and why."""
        if not self._without:
            return decision
        rationale = tuple(
            changed(
                why,
                summary=f"{why.summary} The cluster refuses to hold {self._without[why.for_job_id]}: the job "
                "does without for now.",
            )
            if why.for_job_id in self._without
            else why
            for why in decision.rationale
        )
        return changed(decision, rationale=rationale)


def _avoided_s(count: float) -> float:
    return min(_AVOIDED_S * 2.0 ** min(int(count - _AVOIDED_AT), 30), _LONGEST_AVOIDED_S)


def _avoidable(job: Job, refused: Sequence[str], seen: Cluster) -> tuple[str, ...]:
    """The first of the refused nodes that a job can do without: enough others are left to it. What is held
    for the job already was not refused.
    """
    sets = seen.node_sets()
    own = {job.reservation, seen.hold_name(job.job_id)}
    held = sets.union(one.nodes for one in seen.reservations if one.by_makeway and one.name in own)
    staying = (one.nodes for one in seen.jobs if one.nodes and not _may_leave(one))
    there = sets.up & eligible_set(job, seen) & ~sets.union(staying)
    spare = there.bit_count() - job.node_count
    found: list[str] = []
    for name in refused:
        node = sets.of_any((name,)) & eligible_set(job, seen)
        if not node or node & held:
            continue
        if node & there:
            if spare <= 0:
                continue
            spare -= 1
        found.append(name)
    return tuple(found)


def _may_leave(job: Job) -> bool:
    return job.preemptible and job.kind is not JobKind.ON_DEMAND


def _without(job: Job, avoided: Sequence[str], seen: Cluster) -> Job:
    """The job, which may not run on these nodes."""
    eligible = job.eligible_nodes
    if eligible is None:
        eligible = frozenset(node.name for node in seen.nodes)
    return replace(job, eligible_nodes=eligible.difference(avoided))


def _lacks(refusals: _Refusals, job_id: str, pause_s: float) -> str:
    """What a job lacks that has to pause, in words."""
    last, times = refusals.last_of[job_id], int(refusals.in_a_row[job_id])
    return (
        f"its hold, which the cluster has refused {times} times, last of {_named(last.hold.nodes)} "
        f"({last.words}); the next one is tried {pause_s:.0f} s after that"
    )


def _named(nodes: Sequence[str]) -> str:
    """The names of the nodes; of many, the first ones."""
    more = len(nodes) - _MOST_NAMED
    return ", ".join([*nodes[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])])
