"""How the service is: what `makeway status` prints and what `systemctl status` shows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """The state of the service after its last cycle, as the socket reports it."""

    version: str
    pid: int
    configuration: str
    mode: str
    policy: str
    adapter: str
    sentence: str = "no cycle yet"
    """What the last cycle did."""
    cycles: int = 0
    failures: int = 0
    """Consecutive cycles that ended without a decision."""
    snapshot_age_s: float = 0.0
    operations_open: int = 0
    urgent_waiting: int = 0
    breaker_open: bool = False
    planning_failure: str | None = None
    """Why the last plan could not be made: a defect of the policy. None: it could, or the policy does not
    plan.
    """
    reload_problem: str | None = None
    """Why the last reload was refused, or which settings wait for a restart. None: neither."""

    def line(self) -> str:
        """One line for `systemctl status`."""
        return f"{self.sentence} | {self.reload_problem}" if self.reload_problem else self.sentence
