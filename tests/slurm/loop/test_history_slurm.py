"""A short busy day on a real Slurm, exported and replayed: what the replay says, and what makeway then really
does on the same day.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.adapters.devcluster.cluster import DevCluster
from makeway.policies.model import JobKind
from makeway.simharness.history.loading import PastPeriod, load_history
from makeway.simharness.history.source import HistorySource
from makeway.simharness.history.study import HistoryOutcome, HistoryTrial, replay_history
from makeway.simharness.results.formats import format_duration
from tests.slurm.support.busy_day import REQUEUE_DELAY_S, begin_day, busy_cluster, end_day, export_day
from tests.slurm.support.daemon import DaemonProcess

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="22.05")]

BATCH = "  - name: saving\n"
START_WITHIN_S = 30


@pytest.fixture
def day_cluster(slurm_root: str | None) -> Iterator[DevCluster]:
    """A new one if the test runs again: the jobs of the first time would count."""
    with busy_cluster(slurm_root) as cluster:
        yield cluster


def with_batch_jobs(daemon: DaemonProcess) -> None:
    """Let jobs of the account batch leave, too: they cannot save their work."""
    text = daemon.config.read_text()
    assert BATCH in text
    text = text.replace(BATCH, f"  - {{name: batch, accounts: [batch], preemptible: true}}\n{BATCH}")
    daemon.config.write_text(
        text.replace(f"start_within_s: {daemon.start_within_s}", f"start_within_s: {START_WITHIN_S}")
    )


def source_of(cluster: DevCluster, folder: Path, config: Path) -> HistorySource:
    folder.mkdir()
    jobs, machine = export_day(cluster, folder)
    return HistorySource(exports=(jobs,), machine=machine, config=config, from_s=0.0)


def replayed(source: HistorySource, policy: str) -> HistoryOutcome:
    """A replay with the settings of the configuration."""
    settings = {} if policy == "none" else load_history(source).rules.policy_settings
    trial = HistoryTrial(
        source=source,
        policy=policy,
        policy_settings=settings,
        poll_interval_s=0.5,
        requeue_delay_s=REQUEUE_DELAY_S,
        check=True,
    )
    return replay_history(trial)


def urgent_waits_s(history: PastPeriod) -> list[float]:
    """How long the urgent jobs really waited."""
    return [history.past[job.job_id].wait_s for job in history.workload.jobs if job.kind is JobKind.ON_DEMAND]


def test_a_day_replayed_and_the_same_day_with_makeway(day_cluster: DevCluster, tmp_path: Path) -> None:
    daemon = DaemonProcess(day_cluster, tmp_path, "act")
    with_batch_jobs(daemon)

    begin_day(day_cluster)
    end_day(day_cluster)
    plain = source_of(day_cluster, tmp_path / "plain", daemon.config)
    before = load_history(plain)
    assert len(before.workload.jobs) == 10
    assert min(urgent_waits_s(before)) > START_WITHIN_S
    without, predicted = replayed(plain, "none"), replayed(plain, "eviction")
    assert (without.urgent, without.on_time) == (2, 0)
    assert predicted.on_time == 2
    assert predicted.measures.group("all").evictions > 0

    daemon.start()
    try:
        begin_day(day_cluster)
        end_day(day_cluster)
    finally:
        daemon.stop()
    after = load_history(source_of(day_cluster, tmp_path / "served", daemon.config))
    say_difference(without, predicted, before, after)
    first_day = set(before.past)
    second = {name: past for name, past in after.past.items() if name not in first_day}
    assert len(second) == 10
    requeues = sum(past.requeues for past in second.values())
    assert requeues == predicted.measures.group("all").evictions, daemon.log()


def say_difference(
    without: HistoryOutcome, predicted: HistoryOutcome, before: PastPeriod, after: PastPeriod
) -> None:
    """Print what the replays say beside what really happened."""
    group = {
        name: one.measures.group(JobKind.ON_DEMAND).wait_mean_s or 0.0
        for name, one in (("without", without), ("with", predicted))
    }
    first, both = urgent_waits_s(before), urgent_waits_s(after)
    second = both[len(first) :]
    real = [past for name, past in after.past.items() if name not in before.past]
    saving = {job.job_id for job in after.workload.jobs if job.save_s is not None}
    killed = [past for name, past in after.past.items() if name not in before.past and name not in saving]
    lost_h = sum(past.requeued_node_s for past in killed) / 3600.0
    print(
        f"urgent wait without makeway: really {format_duration(sum(first) / len(first))}, replayed "
        f"{format_duration(group['without'])}"
    )
    print(
        f"urgent wait with makeway: really {format_duration(sum(second) / len(second))}, replayed "
        f"{format_duration(group['with'])}"
    )
    print(
        f"runs requeued: really {sum(past.requeues for past in real)}, replayed "
        f"{predicted.measures.group('all').evictions}; lost by jobs that cannot save: really {lost_h:.4f} "
        f"node-hours, replayed {predicted.measures.group('all').lost_node_hours:.4f}"
    )
