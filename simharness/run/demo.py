"""The demonstration: a replay that explains what the daemon does for each urgent job."""

from collections.abc import Callable

from makeway.daemon.config.policy_finder import find_policy
from makeway.daemon.control.report import CycleReport
from makeway.daemon.control.sentence import outcome_text
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.journal.store import Journal
from makeway.policies.model import Operation, Phase
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.run.experiment import Experiment, Workload, policy_config, storage_of
from makeway.simharness.run.replay import Replay, ReplaySettings


def tell(experiment: Experiment, workload: Workload, say: Callable[[str], None]) -> ReplayRecord:
    """Replay with the experiment's policy and say a line for every decision and every operation that ends.

    Raises:
        UnknownPolicy: there is no such policy.
    """
    policy = find_policy(experiment.policy)
    cluster = SimCluster(
        workload.node_count,
        workload.jobs,
        scheduler=SchedulerSettings(order=experiment.order, backfill=experiment.backfill),
        storage=storage_of(experiment),
        check=True,
        workload=workload.name,
    )
    journal = Journal(experiment.journal)
    began_s = cluster.now_s

    def on_cycle(report: CycleReport) -> None:
        for line in _lines(report, journal):
            say(f"{_clock(report.at_s - began_s)}  {line}")

    replay = Replay(
        cluster,
        policy,
        policy_config(policy.name, policy.config_type, experiment.policy_settings),
        ReplaySettings(poll_interval_s=experiment.poll_interval_s),
        journal=journal,
        on_cycle=on_cycle,
    )
    say(
        f"A simulated cluster of {workload.node_count} nodes, {len(workload.jobs)} jobs "
        f"({workload.urgent} urgent), policy {policy.name}."
    )
    record = replay.run()
    journal.close()
    return record


def _lines(report: CycleReport, journal: Journal) -> list[str]:
    """What to print of one cycle."""
    stored = journal.decision(report.decision_id) if report.decision_id is not None else None
    lines = [
        f"urgent job {why.for_job_id} wants {why.node_count} nodes: {why.summary}"
        for why in (stored.decision.rationale if stored is not None else ())
    ]
    lines += [
        f"  {done.action.verb} {done.action.job_id}: {done.outcome} {done.detail}".rstrip()
        for done in report.actions
        if done.outcome not in (Outcome.ACCEPTED, Outcome.OBSERVED)
    ]
    lines += [f"  started {_duration(delay_s)} after its submission" for delay_s in report.urgent_started]
    lines += [f"  {_ended(operation)}" for operation in report.closed if operation.kind.holds_nodes]
    return lines


def _ended(operation: Operation) -> str:
    assert operation.phase is Phase.CLOSED
    return f"urgent job {operation.for_job_id} is over: {outcome_text(operation)}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def _clock(seconds: float) -> str:
    """Day and time of day of the replay."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    return f"day {day + 1} {hour:02d}:{minute:02d}:{second:02d}"
