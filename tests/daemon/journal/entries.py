"""Operations with every kind of action, for tests of the journal."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from makeway.daemon.journal.store import Journal
from makeway.policies.model import (
    Action,
    Cancel,
    Checkpoint,
    Decision,
    Expand,
    Method,
    Operation,
    OperationKind,
    Prioritise,
    Reason,
    Release,
    Requeue,
    Reserve,
    Shrink,
    Task,
)
from tests.builders import closed, cluster, node_names, running, urgent

NODES = node_names(2)

BASE: dict[str, Any] = {"job_id": "7", "for_job_id": "u", "policy": "test", "reason": Reason.URGENT_ARRIVAL}

ACTIONS: tuple[Action, ...] = (
    Checkpoint(**BASE, signal="USR1", grace_s=60.0, walltime_s=7200.0),
    Requeue(**BASE, method=Method.KILL, not_after_s=5.0),
    Cancel(**BASE, method=Method.KILL, not_after_s=5.0),
    Shrink(**BASE, keep_nodes=NODES[:1], walltime_s=60.0),
    Expand(**BASE, nodes=NODES, reservation=None),
    Reserve(**BASE, reservation="mw_u", nodes=NODES, duration_s=60.0),
    Release(**BASE, reservation="mw_u"),
    Prioritise(**BASE),
)


def operation(operation_id: str = "u@0", *actions: Action) -> Operation:
    return Operation(
        operation_id=operation_id,
        kind=OperationKind.MAKE_WAY,
        for_job_id="u",
        policy="test",
        reservation="mw_u",
        nodes=NODES,
        opened_s=1.5,
        deadline_s=2.0,
        give_up_s=1e9,
        tasks=tuple(Task(action=action) for action in actions or ACTIONS),
    )


def filled(path: Path, count: int) -> Journal:
    """Closed operations a second apart from 0 on, each with a decision and two commands, and an open one from
    0.
    """
    journal = Journal(path)
    journal.begin_command(operation("open@0"), ACTIONS[1], 0.0)
    view = cluster(4, urgent("u", 2), running("v", node_names(4)))
    for number in range(count):
        journal.add_decision(number, Decision(policy="test", actions=ACTIONS[1:2]), view)
        mine = replace(operation(f"u@{number}"), opened_s=number)
        for action in ACTIONS[:2]:
            command_id = journal.begin_command(mine, action, number + 0.5)
            journal.finish_command(
                command_id, mine, outcome="accepted", failed=False, detail="", now_s=number + 0.6
            )
        journal.save(closed(mine))
    return journal
