"""Each law is broken when the code that keeps it is taken out, and the swarm notices.

A mutant that is not found is a check that does not work.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from makeway.daemon.control import reconciler, sending
from makeway.daemon.control.report import CycleReport, LoopSettings
from makeway.daemon.operation import due, observation, transitions
from makeway.daemon.operation.observation import Timeouts
from makeway.daemon.operation.tasks import to_do_again
from makeway.policies.common import victims
from makeway.policies.model import Checkpoint, Cluster, Job, Progress, Task
from makeway.policies.safety import arbiter
from makeway.simharness.swarm import telling
from makeway.simharness.swarm.drawing import POLICIES, draw
from makeway.simharness.swarm.laws import Law
from makeway.simharness.swarm.story import TroubleKind

STORIES = 300
"""How many stories may be told until a mutant is found."""
Patch = pytest.MonkeyPatch


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """Code without one of its cares."""

    name: str
    law: Law
    make: Callable[[Patch], None]
    troubles: tuple[TroubleKind, ...] = tuple(TroubleKind)
    policies: tuple[str, ...] = POLICIES


def no_wait_for_the_hold(patch: Patch) -> None:
    patch.setattr(due, "hold_seen_s", lambda *_: 0.0)


def no_wait_for_the_checkpoint(patch: Patch) -> None:
    patch.setattr(due, "_ready_to_leave", lambda *_: True)


def nothing_is_protected(patch: Patch) -> None:
    patch.setattr(victims, "protection", lambda *_: None)
    patch.setattr(arbiter, "protection", lambda *_: None)
    patch.setattr(arbiter, "hard_protection", lambda *_: None)


def nothing_is_an_orphan(patch: Patch) -> None:
    patch.setattr(reconciler, "left_behind", lambda *_, **__: ())


def operations_never_end(patch: Patch) -> None:
    patch.setattr(transitions, "is_over", lambda *_: False)


def every_cycle_is_followed_by_one(patch: Patch) -> None:
    patch.setattr(CycleReport, "again", True)


def views_never_grow_old(patch: Patch) -> None:
    patch.setattr(sending, "gives_back", lambda *_: True)


def cycles_have_no_limit(patch: Patch) -> None:
    patch.setattr(telling, "COMMANDS_PER_CYCLE", 2)
    patch.setattr(
        telling, "LoopSettings", lambda **settings: LoopSettings(**settings | {"commands_per_cycle": None})
    )


def unanswered_signals_are_sent_again(patch: Patch) -> None:
    seen = observation.observe

    def observe(task: Task, cluster: Cluster, jobs: dict[str, Job], timeouts: Timeouts) -> Task:
        if isinstance(task.action, Checkpoint) and task.progress is Progress.ISSUING:
            return to_do_again(task)
        return seen(task, cluster, jobs, timeouts)

    patch.setattr(transitions, "observe", observe)


MUTANTS = (
    Mutant(name="no wait for the hold", law=Law.HOLD_FIRST, make=no_wait_for_the_hold),
    Mutant(
        name="no wait for the checkpoint", law=Law.AS_DECIDED, make=no_wait_for_the_checkpoint, troubles=()
    ),
    Mutant(name="nothing is protected", law=Law.UNTOUCHABLE, make=nothing_is_protected, troubles=()),
    Mutant(
        name="nothing is an orphan",
        law=Law.LEFT_BEHIND,
        make=nothing_is_an_orphan,
        troubles=(TroubleKind.JOURNAL_LOST,),
    ),
    Mutant(name="operations never end", law=Law.LEFT_BEHIND, make=operations_never_end, troubles=()),
    Mutant(
        name="every cycle is followed by one",
        law=Law.STUCK,
        make=every_cycle_is_followed_by_one,
        troubles=(),
        policies=("eviction",),
    ),
    Mutant(
        name="views never grow old",
        law=Law.STALE_VIEW,
        make=views_never_grow_old,
        troubles=(TroubleKind.SLOW, TroubleKind.HANGS),
    ),
    Mutant(name="cycles have no limit", law=Law.TOO_MANY, make=cycles_have_no_limit, troubles=()),
    Mutant(
        name="unanswered signals are sent again",
        law=Law.SECOND_SIGNAL,
        make=unanswered_signals_are_sent_again,
        troubles=(TroubleKind.ANSWER_LOST, TroubleKind.HANGS),
        policies=("eviction",),
    ),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_found(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant.make(monkeypatch)
    for seed in range(STORIES):
        story = draw(seed, policies=mutant.policies, kinds=mutant.troubles)
        if any(violation.law is mutant.law for violation in telling.tell(story).violations):
            return
    pytest.fail(f"{mutant.name}: no story of {STORIES} breaks the law {mutant.law}")
