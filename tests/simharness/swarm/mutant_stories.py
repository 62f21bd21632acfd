"""Stories in which a mutant of `test_mutants.py` breaks a law, where drawn ones rarely do."""

from dataclasses import replace

from makeway.policies.model import JobKind
from makeway.simharness.swarm.story import Story, Trouble, TroubleKind
from makeway.simharness.workloads.job import SimJob

LATE_REQUEUES = Story(
    seed=0,
    policy="eviction",
    node_count=2,
    jobs=(
        SimJob("1", 0.0, 9000.0, 9000.0, 2, user="batch"),
        SimJob("u", 600.0, 60.0, 60.0, 2, user="beam", kind=JobKind.ON_DEMAND, start_within_s=60.0),
    ),
    troubles=(Trouble(kind=TroubleKind.ANSWER_LATE, at_s=600.0, lasts_s=100.0, chance=0.5, amount=400.0),),
    poll_interval_s=10.0,
)
"""A requeue that is carried out late may find the job in its next run."""
COSTLY_USER = Story(
    seed=0,
    policy="eviction",
    node_count=2,
    jobs=(
        SimJob("1", 0.0, 36_000.0, 36_000.0, 2, user="batch"),
        *(
            SimJob(
                f"u{hour}",
                3600.0 * hour,
                60.0,
                60.0,
                2,
                user="beam",
                kind=JobKind.ON_DEMAND,
                start_within_s=60.0,
            )
            for hour in (1, 3, 5)
        ),
    ),
    user_node_hours=3.0,
)
"""Each of the urgent jobs costs some two to four node-hours."""
NEVER_COMES = Story(
    seed=0,
    policy="eviction",
    node_count=2,
    jobs=tuple(SimJob(str(number), 300.0 * number, 200.0, 250.0, 1, user="batch") for number in range(40)),
    troubles=tuple(
        Trouble(kind=TroubleKind.NO_SHOW, at_s=at_s, lasts_s=600.0, amount=1.0) for at_s in (900.0, 5400.0)
    ),
)
SUBMITTED_AGAIN = Story(
    seed=0,
    policy="eviction",
    node_count=2,
    jobs=(
        SimJob("1", 0.0, 9000.0, 9000.0, 2, user="batch", save_s=200.0),
        *(
            SimJob(job_id, at_s, 60.0, 60.0, 2, user="beam", kind=JobKind.ON_DEMAND, start_within_s=600.0)
            for job_id, at_s in (("u", 600.0), ("ua", 653.0))
        ),
    ),
    troubles=(Trouble(kind=TroubleKind.RESUBMITS, at_s=652.0, subject="u"),),
    poll_interval_s=10.0,
)
"""The batch job saves its work for the urgent job when that is cancelled and submitted again."""
SUBMITTED_LATER = replace(
    SUBMITTED_AGAIN,
    jobs=tuple(replace(job, submit_s=690.0) if job.job_id == "ua" else job for job in SUBMITTED_AGAIN.jobs),
)
"""The same, but makeway sees that the urgent job is gone before it is submitted again."""
SILENT_NODES = Story(
    seed=0,
    policy="eviction",
    node_count=2,
    jobs=(
        SimJob("1", 0.0, 9000.0, 9000.0, 2, user="batch", save_s=200.0),
        SimJob("u", 600.0, 60.0, 60.0, 2, user="beam", kind=JobKind.ON_DEMAND, start_within_s=600.0),
    ),
    troubles=(Trouble(kind=TroubleKind.SILENT, at_s=650.0, lasts_s=900.0),),
    poll_interval_s=10.0,
)
"""The nodes are silent from the beginning of a checkpoint until after its end."""
PROTECTED_JOB = Story(
    seed=0,
    policy="eviction",
    node_count=2,
    jobs=(
        SimJob("1", 0.0, 9000.0, 9000.0, 1, user="batch", save_s=200.0),
        SimJob("2", 0.0, 9000.0, 9000.0, 1, user="batch", save_s=200.0),
        SimJob("u", 600.0, 60.0, 60.0, 2, user="beam", kind=JobKind.ON_DEMAND, start_within_s=900.0),
    ),
    troubles=(Trouble(kind=TroubleKind.STAYS, at_s=700.0, subject="2"),),
    poll_interval_s=10.0,
)
"""One of two jobs that save their work may not be made to leave any more, and there is no third one."""
REFUSED_NODE = Story(
    seed=0,
    policy="eviction",
    node_count=2,
    jobs=(
        SimJob("1", 0.0, 9000.0, 9000.0, 2, user="batch"),
        SimJob("u", 600.0, 60.0, 60.0, 2, user="beam", kind=JobKind.ON_DEMAND, start_within_s=600.0),
    ),
    troubles=(Trouble(kind=TroubleKind.REFUSES, at_s=500.0, lasts_s=400.0, amount=1.0),),
    poll_interval_s=10.0,
)
"""No other nodes serve the urgent job."""
LOST_HOLD = Story(
    seed=0,
    policy="eviction",
    node_count=2,
    jobs=(
        SimJob("1", 0.0, 9000.0, 9000.0, 1, user="batch", save_s=200.0),
        SimJob("u", 600.0, 60.0, 60.0, 2, user="beam", kind=JobKind.ON_DEMAND, start_within_s=600.0),
        SimJob("2", 601.0, 9000.0, 9000.0, 1, user="batch", preemptible=False),
        *(SimJob(str(number), 300.0 * number, 60.0, 60.0, 1, user="batch") for number in range(3, 30)),
    ),
    troubles=(
        Trouble(kind=TroubleKind.HOLDS_LOST, at_s=605.0, lasts_s=1.0, amount=900.0),
        Trouble(kind=TroubleKind.HOLDS_LOST, at_s=690.0, lasts_s=1.0, amount=900.0),
    ),
    poll_interval_s=10.0,
)
"""When the hold is lost, another job takes one of its nodes. The hold is made again, and given back after 60
seconds. Then the controller forgets that the job is not bound any more.
"""
LOST_HOLD_AND_JOURNAL = replace(
    LOST_HOLD,
    troubles=(Trouble(kind=TroubleKind.JOURNAL_LOST, at_s=604.0, lasts_s=10.0), LOST_HOLD.troubles[0]),
)
LOST_LEASE = Story(
    seed=0,
    policy="eviction",
    node_count=2,
    jobs=(
        SimJob("1", 0.0, 9000.0, 9000.0, 2, user="batch"),
        SimJob("u", 600.0, 1500.0, 1500.0, 2, user="beam", kind=JobKind.ON_DEMAND, start_within_s=60.0),
    ),
    troubles=(
        Trouble(kind=TroubleKind.REFUSED, at_s=900.0, lasts_s=2100.0),
        Trouble(kind=TroubleKind.SECOND_DAEMON, at_s=6000.0, lasts_s=1200.0),
    ),
)
"""No lease is written from 900 s on. When the urgent job ends, its daemon has none."""
