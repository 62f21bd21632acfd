"""Policy "none": nothing is ever decided; the scheduler below (FCFS, EASY, Slurm) stays what it is.

What every other policy is compared with.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section IV-D: the baseline FCFS/EASY.

Differs from the paper:
    The order and the backfilling belong to the scheduler below, not to this policy.
"""

from dataclasses import dataclass

from makeway.policies.contract import Policy
from makeway.policies.model import Cluster, Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class NoneConfig:
    """Nothing to set."""


def decide(cluster: Cluster, config: NoneConfig) -> Decision:
    """Nothing, whatever the cluster looks like."""
    return Decision(policy=NONE.name)


NONE = Policy(
    name="none",
    summary="Decide nothing: the scheduler below stays what it is.",
    config_type=NoneConfig,
    decide=decide,
    active=False,
)
