"""What a package may offer as entry points."""

from dataclasses import dataclass

from makeway.policies.contract import Policy
from makeway.policies.model import Cluster, Decision

TEXT = "no policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSettings:
    """There are none."""


def decide(cluster: Cluster, config: NoSettings) -> Decision:
    """Want nothing done."""
    return Decision(policy="packaged")


OWN = Policy(name="packaged", summary="Wants nothing.", config_type=NoSettings, decide=decide)
