"""Records of replays that are small enough to work out by hand, and random ones."""

from hypothesis import strategies as st

from makeway.policies.model import JobKind
from makeway.simharness.engine.records import JobRecord, Mark, MarkKind, ReplayRecord, RunEnding, Segment
from makeway.simharness.workloads.job import SimJob

NODES = 4


def _jobs() -> list[SimJob]:
    return [
        SimJob("a", 0.0, 100.0, 200.0, 2, user="ann"),
        SimJob("m", 0.0, 200.0, 400.0, 2, user="max", kind=JobKind.MALLEABLE, node_count_min=1),
        SimJob("u", 50.0, 100.0, 200.0, 3, user="ute", kind=JobKind.ON_DEMAND, start_within_s=30.0),
        SimJob("z", 200.0, 5.0, 60.0, 4, user="zoe"),
    ]


def without_makeway() -> ReplayRecord:
    """The urgent job `u` waits for 150 s; `z` for 100 s."""
    starts = (0.0, 0.0, 200.0, 300.0)
    ends = (100.0, 200.0, 300.0, 305.0)
    nodes = (0b0011, 0b1100, 0b0111, 0b1111)
    return ReplayRecord(
        policy="none",
        backfill="easy",
        workload="by hand",
        node_count=NODES,
        jobs=[
            JobRecord(job, start_s=start_s, end_s=end_s)
            for job, start_s, end_s in zip(_jobs(), starts, ends, strict=True)
        ],
        segments=[
            Segment(index, start_s, end_s, held, RunEnding.COMPLETED)
            for index, (start_s, end_s, held) in enumerate(zip(starts, ends, nodes, strict=True))
        ],
        wall_s=0.5,
    )


def with_makeway() -> ReplayRecord:
    """`a` is evicted and `m` shrunk at 60 for `u`; both are back at 160. `z` never starts."""
    a, m, u, z = _jobs()
    return ReplayRecord(
        policy="eviction",
        backfill="easy",
        workload="by hand",
        node_count=NODES,
        jobs=[
            JobRecord(a, start_s=0.0, end_s=260.0, evictions=1, lost_node_s=120.0, overhead_node_s=20.0),
            JobRecord(m, start_s=0.0, end_s=210.0, shrinks=1),
            JobRecord(u, start_s=60.0, end_s=160.0),
            JobRecord(z),
        ],
        segments=[
            Segment(0, 160.0, 260.0, 0b0011, RunEnding.COMPLETED),
            Segment(0, 0.0, 60.0, 0b0011, RunEnding.REQUEUED),
            Segment(1, 0.0, 60.0, 0b1100, RunEnding.RESIZED),
            Segment(1, 60.0, 160.0, 0b0100, RunEnding.RESIZED),
            Segment(1, 160.0, 210.0, 0b1100, RunEnding.COMPLETED),
            Segment(2, 60.0, 160.0, 0b1011, RunEnding.COMPLETED),
        ],
        marks=[
            Mark(55.0, MarkKind.CHECKPOINTED, 0, 0b0011),
            Mark(60.0, MarkKind.EVICTED, 0, 0b0011),
            Mark(60.0, MarkKind.SHRUNK, 1, 0b1000),
            Mark(160.0, MarkKind.RETURNED, 0, 0b0011),
            Mark(160.0, MarkKind.RETURNED, 1, 0b1000),
            Mark(240.0, MarkKind.NODE_DOWN, None, 0b1000),
        ],
        commands={"requeue": 1, "shrink": 1, "reserve": 2},
        decision_s=[0.001, 0.003],
        wall_s=1.0,
    )


def empty() -> ReplayRecord:
    """Nothing was submitted."""
    return ReplayRecord(policy="none", backfill="easy", workload="empty", node_count=NODES, jobs=[])


@st.composite
def random_records(draw: st.DrawFn, *, most_jobs: int = 12) -> ReplayRecord:
    """Jobs of every kind that start, wait, are evicted and come back as they like; their nodes may
    overlap.
    """
    seconds = st.integers(0, 500).map(float)
    record = ReplayRecord(
        policy=draw(st.sampled_from(["none", "eviction"])),
        backfill="easy",
        workload="random",
        node_count=8,
        jobs=[],
    )
    for index in range(draw(st.integers(0, most_jobs))):
        nodes = draw(st.integers(1, 255))
        job = SimJob(
            f"j{index}",
            draw(seconds),
            draw(st.integers(1, 300).map(float)),
            600.0,
            nodes.bit_count(),
            kind=draw(st.sampled_from(JobKind)),
            start_within_s=draw(st.none() | seconds),
        )
        entry = JobRecord(
            job,
            evictions=draw(st.integers(0, 2)),
            shrinks=draw(st.integers(0, 1)),
            lost_node_s=draw(seconds),
            overhead_node_s=draw(seconds),
        )
        now_s = job.submit_s
        runs = draw(st.integers(0, 3))
        for run in range(runs):
            start_s = now_s + draw(seconds)
            now_s = start_s + draw(seconds)
            last = run == runs - 1
            ending = draw(st.sampled_from(RunEnding)) if last else RunEnding.REQUEUED
            record.segments.append(Segment(index, start_s, now_s, nodes, ending))
            entry.start_s = start_s if entry.start_s is None else entry.start_s
            entry.end_s = now_s if ending is RunEnding.COMPLETED else None
        record.jobs.append(entry)
    return record
