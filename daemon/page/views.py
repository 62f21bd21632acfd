"""What the page computes from the journal: the timeline, explanations and what-if curves, as plain values."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from makeway.daemon.cli.explain import render
from makeway.daemon.cli.text import POSIX_FROM_S
from makeway.daemon.errors import UserError
from makeway.daemon.inspect.explain import explain
from makeway.daemon.inspect.whatif import WhatIfAnswer, WhatIfQuestion, what_if
from makeway.daemon.journal.codec import StoredDecision
from makeway.daemon.journal.store import Journal
from makeway.policies.model import Cancel, Checkpoint, Cluster, NodeState, Operation, Requeue, Shrink, Task

TIMELINE_S = 6 * 3600.0
"""How far back the timeline goes."""
DEADLINE_S = 900.0
"""The longest deadline of the what-if curve."""
TEXT_COLUMNS = 110
"""Width of an explanation, in characters."""
_TAKES = (Requeue, Cancel, Shrink)


def explanation(journal: Journal, decision: str) -> str:
    """A decision as `makeway explain` prints it. Raises UserError: there is no such decision."""
    output = io.StringIO()
    render(explain(journal, decision), Console(file=output, width=TEXT_COLUMNS, color_system=None))
    return output.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What a job did, or had to do, in a span of time."""

    job_id: str
    what: str
    """`waits`, `runs`, `saves` or `lent`: its nodes serve the urgent job."""
    from_s: float
    until_s: float | None
    """None: it lasts."""


def timeline(journal: Journal, clock_s: float) -> dict[str, Any]:
    """The urgent jobs and the jobs that left for them in the last hours: bars by job, in order of time.

    Args:
        journal: of a daemon, or of a replay, which ends with its last decision or operation.
        clock_s: the present time, in seconds since 1970.
    """
    now_s = _now_s(journal, clock_s)
    from_s = now_s - TIMELINE_S
    seen: dict[str, Operation] = {one.operation_id: one for one in journal.operations_since(from_s)}
    seen |= {one.operation_id: one for one in journal.open_operations()}
    found = sorted((bar for one in seen.values() for bar in bars(one)), key=lambda bar: bar.from_s)
    rows: dict[str, list[dict[str, Any]]] = {}
    for bar in found:
        if bar.until_s is None or bar.until_s > from_s:
            values = {"what": bar.what, "from_s": max(bar.from_s, from_s), "until_s": bar.until_s}
            rows.setdefault(bar.job_id, []).append(values)
    return {
        "from_s": from_s,
        "now_s": now_s,
        "rows": [{"job": job_id, "bars": own} for job_id, own in rows.items()],
    }


def _now_s(journal: Journal, clock_s: float) -> float:
    """The present time; of a replay, when its last decision was taken or its last operation ended."""
    latest = journal.decisions(1)
    if not latest or latest[0].at_s >= POSIX_FROM_S:
        return clock_s
    at_s = latest[0].at_s
    recent = journal.operations_since(at_s - TIMELINE_S)
    return max((at_s, *(one.ended_s for one in recent if one.ended_s is not None)))


def bars(operation: Operation) -> Iterator[Bar]:
    """What the timeline shows of an operation."""
    waits_until_s = operation.ended_s if operation.started_s is None else operation.started_s
    yield Bar(job_id=operation.for_job_id, what="waits", from_s=operation.opened_s, until_s=waits_until_s)
    if operation.started_s is not None:
        yield Bar(
            job_id=operation.for_job_id,
            what="runs",
            from_s=operation.started_s,
            until_s=operation.ended_s,
        )
    for task in operation.tasks:
        yield from _task_bars(task, operation)


def _task_bars(task: Task, operation: Operation) -> Iterator[Bar]:
    """What a task does to a job that is asked to leave. Nothing, if it was not issued or asks for nothing."""
    if task.issued_s is None:
        return
    if isinstance(task.action, Checkpoint):
        yield Bar(job_id=task.action.job_id, what="saves", from_s=task.issued_s, until_s=task.ended_s)
    elif isinstance(task.action, _TAKES):
        until_s = None if operation.outcome is None else operation.ended_s
        yield Bar(job_id=task.action.job_id, what="lent", from_s=task.issued_s, until_s=until_s)


def node_counts(cluster: Cluster) -> list[int]:
    """The requests of the what-if curves: powers of two, up to all nodes that are up."""
    up = sum(1 for node in cluster.nodes if node.state is NodeState.UP)
    counts = [1 << exponent for exponent in range(max(1, up).bit_length())]
    return [count for count in counts if count < up] + [up] if up else []


class WhatIf:
    """The what-if curves of the latest snapshot. Each is computed once."""

    def __init__(self) -> None:
        self._decision_id = 0
        self._curves: dict[int, dict[str, Any]] = {}

    def view(self, journal: Journal, node_count: int) -> dict[str, Any]:
        """The least loss by deadline for a request of so many whole nodes, on the latest stored snapshot.

        Raises:
            UserError: no snapshot is stored, or the page does not offer that number of nodes.
        """
        latest = latest_snapshot(journal)
        if latest is None or latest.cluster is None:
            raise UserError("no decision with its snapshot is stored yet")
        counts = node_counts(latest.cluster)
        if node_count not in counts:
            raise UserError(f"nodes: one of {', '.join(map(str, counts))} is expected")
        if latest.decision_id != self._decision_id:
            self._decision_id = latest.decision_id
            self._curves = {}
        if node_count not in self._curves:
            question = WhatIfQuestion(node_count=node_count, deadline_s=DEADLINE_S)
            self._curves[node_count] = _curve(what_if(latest.cluster, question))
        return {
            "decision": latest.decision_id,
            "at_s": latest.at_s,
            "counts": counts,
            **self._curves[node_count],
        }


def latest_snapshot(journal: Journal) -> StoredDecision | None:
    """The latest decision, with its snapshot if that was kept. None: there is no decision."""
    latest = journal.decisions(1)
    return journal.decision(latest[0].decision_id) if latest else None


def _curve(answer: WhatIfAnswer) -> dict[str, Any]:
    return {
        "nodes": answer.question.node_count,
        "free": answer.node_count_free,
        "step_s": answer.step_s,
        "losses_node_s": list(answer.losses_node_s),
        "levels": [
            {
                "from_s": level.from_s,
                "until_s": level.until_s,
                "loss_node_s": level.loss_node_s,
                "leavers": [
                    {"jobs": list(leaver.job_ids), "method": leaver.method.value, "nodes": leaver.node_count}
                    for leaver in level.leavers
                ],
            }
            for level in answer.levels
        ],
    }
