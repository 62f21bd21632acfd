"""Mira's checkpoints and the paper's schemes, by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from makeway.policies.model import JobKind
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.mira import (
    APP_5,
    APP_10,
    BASELINE,
    JIT,
    SCHEMES,
    SYSTEM_INTERVAL_S,
    Checkpointing,
    Scheme,
    checkpoint_s,
    on_mira,
    with_checkpoints,
)
from makeway.simharness.workloads.partitions import Partition, Partitions

SMALL = Partitions(8, tuple(Partition(name=str(size), nodes=(1 << size) - 1) for size in (1, 2, 4, 8)))


def job(runtime_s: float, walltime_s: float, size: int = 1) -> SimJob:
    return SimJob("a", 0.0, runtime_s, walltime_s, size)


@pytest.mark.parametrize(("midplanes", "seconds"), [(1, 512.0), (2, 512.0), (13, 512.0), (96, 3640.888)])
def test_what_a_checkpoint_takes(midplanes: int, seconds: float) -> None:
    # Equation 34: the I/O nodes bound small jobs, the file system large ones.
    assert checkpoint_s(midplanes) == pytest.approx(seconds, abs=1e-3)


def test_application_checkpoints_are_spread_over_the_time_limit() -> None:
    # As in section 7.1.4: 10% of the limit are two checkpoints, after each third of it.
    found = with_checkpoints(job(9000.0, 3 * 512.0 * 7), APP_10)
    assert found.walltime_s == 10_752.0
    assert found.checkpoint_interval_s == pytest.approx(10_752.0 / 3)
    assert found.checkpoint_cost_s == found.restart_s == 512.0
    assert found.runtime_s == 9000.0 + 2 * 512.0
    # 5% of it are one; and none where even one would be more than that.
    assert with_checkpoints(job(9000.0, 10_752.0), APP_5).checkpoint_interval_s == 10_752.0 / 2
    assert with_checkpoints(job(5000.0, 10_239.0), APP_5) == job(5000.0, 10_239.0)


def test_a_checkpoint_at_the_very_end_is_not_taken() -> None:
    thirds = 10_752.0 / 3
    assert with_checkpoints(job(thirds, 10_752.0), APP_10).runtime_s == thirds
    assert with_checkpoints(job(thirds + 1.0, 10_752.0), APP_10).runtime_s == thirds + 513.0
    assert with_checkpoints(job(3 * thirds, 10_752.0), APP_10).runtime_s == 10_752.0 + 1024.0


def test_the_limit_has_room_for_checkpoints_and_a_restart() -> None:
    assert with_checkpoints(job(10_000.0, 10_752.0), APP_10).walltime_s == 10_000.0 + 1024.0 + 512.0
    assert with_checkpoints(job(600.0, 600.0), JIT).walltime_s == 1112.0
    assert with_checkpoints(job(600.0, 2000.0), JIT).walltime_s == 2000.0


def test_just_in_time_and_system_checkpoints_are_for_batch_jobs() -> None:
    batch = job(8000.0, 12_000.0)
    urgent = replace(batch, kind=JobKind.ON_DEMAND)
    system = Scheme(name="s", label="s", checkpointing=Checkpointing.SYSTEM)
    assert with_checkpoints(urgent, JIT) == with_checkpoints(urgent, system) == urgent
    assert (with_checkpoints(batch, JIT).save_s, with_checkpoints(batch, JIT).runtime_s) == (512.0, 8000.0)
    periodic = with_checkpoints(batch, system)
    assert (periodic.checkpoint_interval_s, periodic.runtime_s) == (SYSTEM_INTERVAL_S, 8000.0 + 2 * 512.0)
    assert with_checkpoints(batch, BASELINE) == batch


def test_sizes_of_mira_s_own_jobs_and_of_others() -> None:
    sizes = [1, 512, 513, 1024, 1536, 4096]
    jobs = [replace(job(1.0, 1.0), node_count=size) for size in sizes]
    assert [one.node_count for one in on_mira(jobs, 49_152, SMALL)] == [1, 1, 2, 2, 4, 8]
    # Half as many nodes: each counts twice (equation 59), and the nearest partition is taken.
    jobs = [replace(job(1.0, 1.0), node_count=size) for size in (1, 383, 385, 768, 769, 2000)]
    assert [one.node_count for one in on_mira(jobs, 24_576, SMALL)] == [1, 1, 2, 2, 4, 8]


def test_every_scheme_has_its_own_name() -> None:
    assert all(scheme.name == name for name, scheme in SCHEMES.items())
    assert len({scheme.label for scheme in SCHEMES.values()}) == len(SCHEMES) == 11


@pytest.mark.shared
def test_the_weeks_of_mira_are_multiples_of_midplanes(shared_traces: Path) -> None:
    from makeway.simharness.workloads.trace import read_trace

    trace = read_trace(shared_traces / "ANL-Mira-2018-wk1.swf.gz")
    assert (trace.node_count, {one.node_count % 512 for one in trace.jobs}) == (49_152, {0})
