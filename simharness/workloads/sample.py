"""The workload that ships with makeway: a small busy cluster with a few urgent jobs a day."""

import numpy as np

from makeway.policies.model import JobKind
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.lublin import generate
from makeway.simharness.workloads.synthesis import HybridSettings, synthesise

SAMPLE_NODES = 64
_JOBS = 360
_LOAD = 0.83
_URGENT_JOBS = 20
_URGENT_SIZES = (4, 8, 8, 12, 16, 16, 24, 24)
_URGENT_RUNTIME_S = (900.0, 5400.0)
_URGENT_WALLTIME_S = 7200.0
START_WITHIN_S = 600.0
_QUIET_START = 0.15
"""The share of the time before the first urgent job: the machine fills meanwhile."""

_MIX = HybridSettings(
    on_demand_share=0.0,
    rigid_share=0.65,
    malleable_share=0.35,
    mtbf_s=2 * 86_400.0,
    checkpoint_cost="by_size",
    aggregate_gb_per_s=20.0,
    node_gb_per_s=2.0,
)
"""No urgent users: the urgent jobs are added.

A regular checkpoint takes half a minute on a few nodes and some minutes on the whole machine, and comes every
half hour to every three hours.
"""


def sample_workload(seed: int) -> tuple[int, list[SimJob]]:
    """The number of nodes (64) and the jobs of two to three and a half days, sorted by submit time.

    360 jobs of the Lublin-Feitelson model load the machine to 83%: two thirds of the users are rigid and
    checkpoint, one third is malleable. Twenty urgent jobs of 4 to 24 nodes bring it to about 88%, the first
    when the machine has filled, the others spread over the rest; their start is on time within ten minutes.

    Raises:
        WorkloadError: a seed below 0.
    """
    jobs = synthesise(generate(_JOBS, SAMPLE_NODES, seed, load=_LOAD), SAMPLE_NODES, _MIX, seed)
    rng = np.random.default_rng([seed, 1])
    spread = (np.arange(_URGENT_JOBS) + rng.random(_URGENT_JOBS)) / _URGENT_JOBS
    places: list[int] = (len(jobs) * (_QUIET_START + (1 - _QUIET_START) * spread)).astype(int).tolist()
    submits_s = [jobs[place].submit_s for place in places]
    sizes = rng.choice(_URGENT_SIZES, _URGENT_JOBS).tolist()
    runtimes_s = rng.uniform(*_URGENT_RUNTIME_S, _URGENT_JOBS).round().tolist()
    urgent = [
        SimJob(
            job_id=str(len(jobs) + number),
            submit_s=submit_s,
            runtime_s=runtime_s,
            walltime_s=_URGENT_WALLTIME_S,
            node_count=size,
            user="beamline",
            account="urgent",
            kind=JobKind.ON_DEMAND,
            start_within_s=START_WITHIN_S,
        )
        for number, (submit_s, runtime_s, size) in enumerate(
            zip(submits_s, runtimes_s, sizes, strict=True), 1
        )
    ]
    return SAMPLE_NODES, sorted([*jobs, *urgent], key=lambda job: (job.submit_s, int(job.job_id)))
