"""The daemon without one of its cares: each law has a mutant that breaks it."""

from dataclasses import replace
from typing import Any

from makeway.daemon.control import opening, reconciler, sending
from makeway.daemon.control.report import CycleReport, LoopSettings
from makeway.daemon.leader.leadership import Leadership
from makeway.daemon.leader.watch import LeaseWatch
from makeway.daemon.operation import due, fitness, observation, orphans, signal_deaths, transitions
from makeway.daemon.operation.changed import protected, refused_holds, resubmitted
from makeway.daemon.operation.giving_back import give_back as gives_back
from makeway.daemon.operation.handover import Watch
from makeway.daemon.operation.kept.lost_holds import LostHolds
from makeway.daemon.operation.observation import Timeouts
from makeway.daemon.operation.tasks import ENDED, to_do_again
from makeway.policies.common import proposals, victims
from makeway.policies.gate import arbiter
from makeway.policies.model import (
    Checkpoint,
    Cluster,
    Job,
    NodeState,
    Operation,
    OperationKind,
    Progress,
    Reason,
    Release,
    Reservation,
    Task,
)
from makeway.simharness.engine import commands
from makeway.simharness.swarm import daemons
from makeway.simharness.swarm.law import Law
from makeway.simharness.swarm.story import TroubleKind
from tests.simharness.swarm.mutant import Mutant, Patch
from tests.simharness.swarm.mutant_stories import (
    COSTLY_USER,
    LATE_REQUEUES,
    LOST_HOLD,
    LOST_HOLD_AND_JOURNAL,
    LOST_LEASE,
    NEVER_COMES,
    PROTECTED_JOB,
    REFUSED_NODE,
    SILENT_NODES,
    SUBMITTED_AGAIN,
    SUBMITTED_LATER,
)


def no_wait_for_the_hold(patch: Patch) -> None:
    patch.setattr(due, "hold_seen_s", lambda *_: 0.0)


def no_wait_for_the_other_components(patch: Patch) -> None:
    patch.setattr(fitness, "_is_held_for", lambda *_: True)


def no_wait_for_the_checkpoint(patch: Patch) -> None:
    patch.setattr(due, "_ready_to_leave", lambda *_: True)


def nothing_is_protected(patch: Patch) -> None:
    patch.setattr(victims, "protection", lambda *_: None)
    patch.setattr(arbiter, "protection", lambda *_: None)
    patch.setattr(arbiter, "hard_protection", lambda *_: None)
    patch.setattr(protected, "hard_protection", lambda *_: None)


def nothing_is_an_orphan(patch: Patch) -> None:
    patch.setattr(reconciler, "left_behind", lambda *_, **__: ())


def operations_never_end(patch: Patch) -> None:
    patch.setattr(transitions, "is_over", lambda *_: False)


def half_a_sentence(patch: Patch) -> None:
    patch.setattr(reconciler, "sentence_of", lambda *_: 1 / 0)


def every_cycle_is_followed_by_one(patch: Patch) -> None:
    patch.setattr(CycleReport, "again", True)


def held_jobs_are_served(patch: Patch) -> None:
    patch.setattr(due, "may_take", lambda *_: True)
    patch.setattr(transitions, "cannot_start", lambda *_: False)


def any_run_will_do(patch: Patch) -> None:
    patch.setattr(commands, "_check_run", lambda *_: None)


def no_signal_is_sent(patch: Patch) -> None:
    patch.setattr(due, "_has_turn", lambda *_: False)
    patch.setattr(due, "_ready_to_leave", lambda *_: True)


def nothing_is_written_into_jobs(patch: Patch) -> None:
    patch.setattr(commands, "_keep_taken", lambda *_, **__: None)


def what_is_written_into_jobs_is_not_read(patch: Patch) -> None:
    patch.setattr(orphans, "missing", lambda *_, **__: ())


def jobs_of_lost_holds_are_left_alone(patch: Patch) -> None:
    patch.setattr(LostHolds, "releases", lambda *_: ())


def what_the_cluster_says_of_holds_is_not_read(patch: Patch) -> None:
    found = LostHolds.releases

    def releases(self: LostHolds, cluster: Cluster, *more: Any) -> tuple[Release, ...]:
        jobs = tuple(replace(job, last_hold=None) for job in cluster.jobs)
        return found(self, replace(cluster, jobs=jobs), *more)

    patch.setattr(LostHolds, "releases", releases)


def every_reservation_is_makeways(patch: Patch) -> None:
    patch.setattr(Reservation, "by_makeway", True)
    patch.setattr(Cluster, "owns_reservation", lambda *_: True)


def views_never_grow_old(patch: Patch) -> None:
    patch.setattr(sending, "gives_back", lambda *_: True)


def cycles_have_no_limit(patch: Patch) -> None:
    patch.setattr(daemons, "COMMANDS_PER_CYCLE", 2)
    patch.setattr(
        daemons, "LoopSettings", lambda **settings: LoopSettings(**settings | {"commands_per_cycle": None})
    )


def unanswered_signals_are_sent_again(patch: Patch) -> None:
    seen = observation.observe

    def observe(task: Task, cluster: Cluster, jobs: dict[str, Job], timeouts: Timeouts) -> Task:
        if isinstance(task.action, Checkpoint) and task.progress is Progress.ISSUING:
            return to_do_again(task)
        return seen(task, cluster, jobs, timeouts)

    patch.setattr(observation, "observe", observe)


def protected_jobs_count(patch: Patch) -> None:
    patch.setattr(fitness, "protected_since", lambda *_: {})


def who_was_asked_is_asked_again(patch: Patch) -> None:
    def as_new(task: Task, job: Job) -> Task:
        if task.progress in ENDED:
            return task
        action = replace(task.action, for_job_id=job.job_id)
        return replace(task, action=action, progress=Progress.PLANNED, issued_s=None)

    patch.setattr(resubmitted, "_renamed", as_new)


def runs_that_save_are_asked_again(patch: Patch) -> None:
    patch.setattr(opening, "awaiting", lambda operation, *_: operation)


def silent_nodes_count_as_up(patch: Patch) -> None:
    looked = fitness.may_take

    def may_take(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> bool:
        nodes = tuple(replace(node, state=NodeState.UP) for node in cluster.nodes)
        return looked(operation, replace(cluster, nodes=nodes), timeouts)

    patch.setattr(due, "may_take", may_take)


def no_work_is_too_dear(patch: Patch) -> None:
    for module, name in ((proposals, "price_refusal"), (arbiter, "price_refusal"), (arbiter, "overdrawn")):
        patch.setattr(module, name, lambda *_: None)


def no_job_is_missed(patch: Patch) -> None:
    patch.setattr(Watch, "would_have_seen", lambda *_: False)


def the_other_lease_counts_for_nothing(patch: Patch) -> None:
    patch.setattr(LeaseWatch, "alive", lambda _: ())


def a_daemon_without_the_lease_acts(patch: Patch) -> None:
    patch.setattr(Leadership, "may_act", lambda _: True)


def forgotten_requeues_stay_forgotten(patch: Patch) -> None:
    patch.setattr(observation, "_is_forgotten", lambda *_: False)


def requeues_in_doubt_are_believed_to_be_lost(patch: Patch) -> None:
    patch.setattr(signal_deaths, "_requeued", lambda *_: ())


def what_is_not_needed_leaves_too(patch: Patch) -> None:
    patch.setattr(fitness, "not_needed", lambda *_: frozenset())


def jobs_stay_urgent(patch: Patch) -> None:
    patch.setattr(transitions, "is_urgent_no_more", lambda *_: False)


def holds_last_long_enough(patch: Patch) -> None:
    for module in (fitness, transitions):
        patch.setattr(module, "ends_too_soon", lambda *_: False)


def no_hold_is_too_large(patch: Patch) -> None:
    def give_back(operation: Operation, cluster: Cluster, reason: Reason, **more: Any) -> Operation:
        if reason is Reason.STARTED and operation.kind is OperationKind.MAKE_WAY:
            return operation
        return gives_back(operation, cluster, reason, **more)

    patch.setattr(transitions, "give_back", give_back)


def no_pause_after_refusals(patch: Patch) -> None:
    patch.setattr(refused_holds, "PAUSES_FROM", 10_000)


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
        first_seed=315,
    ),
    Mutant(name="operations never end", law=Law.LEFT_BEHIND, make=operations_never_end, troubles=()),
    Mutant(name="half a sentence", law=Law.DEFECT, make=half_a_sentence, troubles=()),
    Mutant(
        name="every cycle is followed by one",
        law=Law.STUCK,
        make=every_cycle_is_followed_by_one,
        troubles=(),
        policies=("eviction",),
    ),
    Mutant(
        name="held jobs are served",
        law=Law.IN_VAIN,
        make=held_jobs_are_served,
        troubles=(TroubleKind.HOLDS, TroubleKind.SLOW),
        first_seed=31,
    ),
    Mutant(name="any run will do", law=Law.OTHER_RUN, make=any_run_will_do, story=LATE_REQUEUES),
    Mutant(name="no signal is sent", law=Law.UNSIGNALLED, make=no_signal_is_sent, troubles=()),
    Mutant(
        name="nothing is written into jobs",
        law=Law.RESTORED,
        make=nothing_is_written_into_jobs,
        troubles=(TroubleKind.JOURNAL_LOST,),
    ),
    Mutant(
        name="what is written into jobs is not read",
        law=Law.RESTORED,
        make=what_is_written_into_jobs_is_not_read,
        troubles=(TroubleKind.JOURNAL_LOST, TroubleKind.JOURNAL_OLD),
    ),
    Mutant(
        name="jobs of lost holds are left alone",
        law=Law.LEFT_BEHIND,
        make=jobs_of_lost_holds_are_left_alone,
        story=LOST_HOLD,
    ),
    Mutant(
        name="what the cluster says of holds is not read",
        law=Law.LEFT_BEHIND,
        make=what_the_cluster_says_of_holds_is_not_read,
        story=LOST_HOLD_AND_JOURNAL,
    ),
    Mutant(
        name="every reservation is makeway's",
        law=Law.FOREIGN,
        make=every_reservation_is_makeways,
        troubles=(TroubleKind.MAINTENANCE,),
        policies=("eviction",),
    ),
    Mutant(
        name="components do not wait for each other",
        law=Law.HOLD_FIRST,
        make=no_wait_for_the_other_components,
        policies=("eviction",),
        first_seed=62,
    ),
    Mutant(
        name="views never grow old",
        law=Law.STALE_VIEW,
        make=views_never_grow_old,
        troubles=(TroubleKind.SLOW,),
        policies=("eviction", "n-paa"),
        first_seed=244,
    ),
    Mutant(name="cycles have no limit", law=Law.TOO_MANY, make=cycles_have_no_limit, troubles=()),
    Mutant(
        name="unanswered signals are sent again",
        law=Law.SECOND_SIGNAL,
        make=unanswered_signals_are_sent_again,
        troubles=(TroubleKind.ANSWER_LOST, TroubleKind.HANGS),
        policies=("eviction",),
        first_seed=46,
        components=False,
    ),
    Mutant(
        name="who was asked to save is asked again",
        law=Law.SECOND_SIGNAL,
        make=who_was_asked_is_asked_again,
        story=SUBMITTED_AGAIN,
    ),
    Mutant(
        name="runs that save are asked again",
        law=Law.SECOND_SIGNAL,
        make=runs_that_save_are_asked_again,
        story=SUBMITTED_LATER,
    ),
    Mutant(
        name="silent nodes count as up", law=Law.IN_VAIN, make=silent_nodes_count_as_up, story=SILENT_NODES
    ),
    Mutant(name="protected jobs count", law=Law.IN_VAIN, make=protected_jobs_count, story=PROTECTED_JOB),
    Mutant(name="no work is too dear", law=Law.CAPS, make=no_work_is_too_dear, story=COSTLY_USER),
    Mutant(
        name="the other lease counts for nothing",
        law=Law.ONE_LEADER,
        make=the_other_lease_counts_for_nothing,
        troubles=(TroubleKind.SECOND_DAEMON,),
        policies=("eviction",),
        first_seed=43,
    ),
    Mutant(
        name="a daemon without the lease acts",
        law=Law.ONE_LEADER,
        make=a_daemon_without_the_lease_acts,
        story=LOST_LEASE,
    ),
    Mutant(
        name="forgotten requeues stay forgotten",
        law=Law.STUCK,
        make=forgotten_requeues_stay_forgotten,
        troubles=(TroubleKind.REQUEUES_LOST,),
    ),
    Mutant(
        name="requeues in doubt are believed to be lost",
        law=Law.STUCK,
        make=requeues_in_doubt_are_believed_to_be_lost,
        troubles=(TroubleKind.REQUEUES_LOST, TroubleKind.ANSWER_LOST),
        first_seed=37,
    ),
    Mutant(
        name="what is not needed leaves too",
        law=Law.NEEDLESS,
        make=what_is_not_needed_leaves_too,
        troubles=(TroubleKind.FEWER_NODES,),
        policies=("eviction", "least-price"),
        first_seed=43,
    ),
    Mutant(
        name="jobs stay urgent",
        law=Law.NOT_URGENT,
        make=jobs_stay_urgent,
        troubles=(TroubleKind.URGENT_NO_MORE,),
        policies=("eviction", "least-price"),
    ),
    Mutant(
        name="jobs stay urgent and bound",
        law=Law.LEFT_BEHIND,
        make=jobs_stay_urgent,
        troubles=(TroubleKind.URGENT_NO_MORE,),
        policies=("eviction", "least-price"),
        first_seed=139,
    ),
    Mutant(
        name="no hold is too large",
        law=Law.LEFT_BEHIND,
        make=no_hold_is_too_large,
        troubles=(TroubleKind.FEWER_NODES,),
        policies=("eviction", "least-price"),
        first_seed=6,
    ),
    Mutant(
        name="holds last long enough",
        law=Law.IN_VAIN,
        make=holds_last_long_enough,
        troubles=(TroubleKind.LONGER_LIMIT,),
        policies=("eviction", "least-price"),
    ),
    Mutant(name="no pause", law=Law.INSISTS, make=no_pause_after_refusals, story=REFUSED_NODE),
    Mutant(name="no job is missed", law=Law.NO_SHOW, make=no_job_is_missed, story=NEVER_COMES),
)
