"""Policy "none": decides nothing; the cluster's own scheduler (FCFS, EASY, Slurm) does all the work.

The other policies are compared with it.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section IV-D: the baseline
    FCFS/EASY.

Differs from the paper:
    The order of the queue and backfilling belong to the cluster's scheduler, not to this policy.
"""

from dataclasses import dataclass

from makeway.policies.contract import Policy
from makeway.policies.model import Cluster, Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class NoneConfig:
    """There are no settings."""


def decide(cluster: Cluster, config: NoneConfig) -> Decision:
    """No action, whatever the snapshot."""
    return Decision(policy=NONE.name)


NONE = Policy(
    name="none",
    summary="Decide nothing: the cluster's own scheduler does all the work.",
    config_type=NoneConfig,
    decide=decide,
    active=False,
)
