"""Holds that the cluster refuses: which nodes an urgent job does without, and when the next one is tried.

The next snapshot may show the reason for the first refusal, such as a reservation that came between the look
and the command. So the hold is decided on again at once. If the cluster refuses the same nodes again, the
reason is one that makeway does not see: then other nodes serve, as far as there are others. From the third
refusal in a row on there is a pause before the next hold, which grows.

Nothing is remembered for this. The journal has the commands for holds, each with its answer.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from makeway.daemon.operation.changed.nodes_to_spare import NodesToSpare
from makeway.policies.model import Cluster, Decision, Job, Reserve, changed

COUNTS_S = 4 * 3600.0
"""How long a refusal counts, in seconds."""
PAUSES_FROM = 3
"""From so many refusals in a row on there is a pause before the next hold of a job."""
_SHORTEST_PAUSE_S = 10.0
_LONGEST_PAUSE_S = 600.0
_AVOIDED_AT = 2.0
"""After so many refused holds with a node, other nodes are tried. After so many in a row for one job, it does
without all their nodes."""
_AVOIDED_S = 300.0
"""How long that lasts, in seconds since the last refusal. Twice as long for each further refusal: longer than
the pause before the next hold."""
_LONGEST_AVOIDED_S = 3600.0
_TRY_AGAIN = 0.25
"""What a refusal counts after which makeway was asked to try again. It does so without a new decision."""
_OTHER_NODES = 0.125
"""What a refusal counts for the length of the pause by which a job was on its way to other nodes: none of
them had been refused to it before."""
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
class _Row:
    """The refused holds of one job since the last one that was accepted."""

    last: HoldAnswer
    """The last of them."""
    times: float = 0.0
    repeated: float = 0.0
    """How many of them had a node that another one before had, too. The others count little."""
    nodes: dict[str, float] = field(default_factory=dict[str, float])
    """By node: how many of them had it."""
    holds: dict[tuple[str, ...], None] = field(default_factory=dict[tuple[str, ...], None])
    """Which nodes they had; those after which makeway was asked to try again are left out."""

    def add(self, answer: HoldAnswer, weight: float) -> None:
        """Count the next one."""
        self.last, nodes = answer, answer.hold.nodes
        self.times += weight
        self.repeated += weight * (1.0 if any(name in self.nodes for name in nodes) else _OTHER_NODES)
        self.nodes.update({name: self.nodes.get(name, 0.0) + weight for name in nodes})
        if answer.final:
            self.holds[nodes] = None

    def pause_s(self, refused_s: float) -> float:
        """How long after the last one the next hold may be tried. It doubles as the same nodes are refused
        again.
        """
        if self.times < PAUSES_FROM:
            return 0.0
        first_s, repeated = max(refused_s, _SHORTEST_PAUSE_S), max(PAUSES_FROM - 1, int(self.repeated))
        return min(first_s * 2.0 ** min(repeated - PAUSES_FROM + 1, 30), max(_LONGEST_PAUSE_S, first_s))


@dataclass(slots=True)
class _Refusals:
    """What was refused lately."""

    counts: dict[str, float] = field(default_factory=dict[str, float])
    """By node: how many holds with it were refused since the last one that was accepted."""
    last_s: dict[str, float] = field(default_factory=dict[str, float])
    """By node: when the last one was sent."""
    named: dict[str, str] = field(default_factory=dict[str, str])
    """By node: the words of the last refusal."""
    rows: dict[str, _Row] = field(default_factory=dict[str, _Row])
    """By job."""

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
            self.rows.pop(job_id, None)
            for node in answer.hold.nodes:
                self.counts.pop(node, None)
            return
        self.rows.setdefault(job_id, _Row(last=answer)).add(answer, weight)
        for node in answer.hold.nodes:
            self.counts[node] = self.counts.get(node, 0.0) + weight
            self.last_s[node], self.named[node] = answer.issued_s, answer.words

    def in_order(self) -> list[str]:
        """The refused nodes, those that were refused most often first."""
        return [node for _, node in sorted((-count, node) for node, count in self.counts.items())]

    def avoided_until_s(self, now_s: float) -> dict[str, float]:
        """The nodes that all jobs do without if there are others, each with the end of that."""
        until_s = {
            node: self.last_s[node] + _avoided_s(count)
            for node, count in self.counts.items()
            if count >= _AVOIDED_AT
        }
        return {node: end_s for node, end_s in until_s.items() if now_s < end_s}

    def avoided_by(self, job_id: str, now_s: float) -> dict[str, float]:
        """The nodes that one job does without, because all its last holds with them were refused."""
        row = self.rows.get(job_id)
        end_s = 0.0 if row is None else row.last.issued_s + _avoided_s(row.times)
        if row is None or row.times < _AVOIDED_AT or now_s >= end_s:
            return {}
        return {node: end_s for node, times in row.nodes.items() if times >= 1.0 and node in self.counts}


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
        refusals, room = _Refusals.of(answers, seen.now_s), NodesToSpare(seen)
        avoiding = _Avoiding(refusals, room, seen)
        jobs: dict[str, Job] = {}
        for job in waiting:
            row = refusals.rows.get(job.job_id)
            until_s = 0.0 if row is None or job.blocked_by else row.last.issued_s + row.pause_s(refused_s)
            if row is not None and seen.now_s < until_s:
                instants.append(until_s)
                if kept := _kept(job, row, room, seen):
                    without[job.job_id] = f"further nodes ({row.last.words})"
                    jobs[job.job_id] = room.without(job, ~kept)
                else:
                    pausing[job.job_id] = lacks = _lacks(row, refused_s)
                    jobs[job.job_id] = replace(job, blocked_by=lacks, eligible_s=math.inf)
            elif (found := avoiding.of(job)) is not None:
                instants.append(found.until_s)
                without[job.job_id] = found.words
                jobs[job.job_id] = room.without(job, found.nodes)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Avoided:
    """The nodes that a job does without."""

    nodes: int
    """As a set of the cluster's `node_sets`."""
    until_s: float
    """When the first of them may serve it again."""
    words: str


class _Avoiding:
    """Finds the nodes that urgent jobs do without. What is the same for many jobs is worked out once."""

    def __init__(self, refusals: _Refusals, room: NodesToSpare, seen: Cluster) -> None:
        self._refusals, self._room, self._now_s, self._sets = refusals, room, seen.now_s, seen.node_sets()
        self._order = refusals.in_order()
        self._by_all = refusals.avoided_until_s(seen.now_s)
        self._all = self._sets.of_new(self._by_all)
        self._known: dict[int, _Avoided] = {}

    def of(self, job: Job) -> _Avoided | None:
        """What a job does without. None: it may have all nodes."""
        by_one = self._refusals.avoided_by(job.job_id, self._now_s)
        nodes = self._all | self._sets.of_new(by_one)
        row = self._refusals.rows.get(job.job_id)
        nodes = self._room.can_spare(job, nodes, self._order, row.holds if row else ()) if nodes else 0
        if not nodes:
            return None
        if by_one:
            longest = {node: max(end_s, by_one.get(node, 0.0)) for node, end_s in self._by_all.items()}
            return self._avoided(nodes, {**by_one, **longest})
        if nodes not in self._known:
            self._known[nodes] = self._avoided(nodes, self._by_all)
        return self._known[nodes]

    def _avoided(self, nodes: int, until_s: Mapping[str, float]) -> _Avoided:
        first = list(islice((name for name in self._order if self._sets.has(nodes, name)), _MOST_NAMED))
        return _Avoided(
            nodes=nodes,
            until_s=min(until_s[name] for name in self._sets.names(nodes)),
            words=f"{_named(first, nodes.bit_count())} ({self._refusals.named[first[0]]})",
        )


def _avoided_s(count: float) -> float:
    return min(_AVOIDED_S * 2.0 ** min(int(count - _AVOIDED_AT), 30), _LONGEST_AVOIDED_S)


def _kept(job: Job, row: _Row, room: NodesToSpare, seen: Cluster) -> int:
    """The nodes that are held for a job, if they suffice for it and only a change of the hold was refused, as
    a set of the cluster's `node_sets`. Then it makes do with them once, before it has to pause.
    """
    held = room.held(job)
    changes = bool(seen.node_sets().of(row.last.hold.nodes) & ~held)
    enough = (held & room.could_have(job)).bit_count() >= job.node_count
    return held if changes and enough and row.times < PAUSES_FROM + 1 else 0


def _lacks(row: _Row, refused_s: float) -> str:
    """What a job lacks that has to pause, in words."""
    nodes = row.last.hold.nodes
    return (
        f"its hold, which the cluster has refused {int(row.times)} times, last of "
        f"{_named(nodes, len(nodes))} ({row.last.words}); the next one is tried "
        f"{row.pause_s(refused_s):.0f} s after that"
    )


def _named(nodes: Sequence[str], count: int) -> str:
    """The names of the nodes; of many, the first ones. `count`: how many they are."""
    more = count - min(len(nodes), _MOST_NAMED)
    return ", ".join([*nodes[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])])
