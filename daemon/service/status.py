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
    """As the last snapshot showed it."""
    lost_in_a_day: str | None = None
    """The work that urgent jobs have cost in the last 24 hours, with its limits. None: no snapshot yet."""
    breaker_open: bool = False
    planning_failure: str | None = None
    """Why the last plan could not be made: a defect of the policy. None: it could, or the policy does not
    plan.
    """
    leader: str = "no cycle yet"
    """Whether this daemon leads: alone, leads, follows, waits or idle (see `Role`), with the term."""
    lease: str | None = None
    """The newest lease that the cluster keeps: its mark, and how long it lasts without another one. None:
    there is none.
    """
    leader_problem: str | None = None
    """Why the lease could not be written. None: it could."""
    paused: bool = False
    """Whether an operator has paused makeway: nothing is taken from jobs."""
    reload_problem: str | None = None
    """Why the last reload was refused, or which settings wait for a restart. None: neither."""

    restored: bool | None = None
    """Whether everything is given back that can be, since `makeway stop --restore` asked for it. None: it did
    not.
    """
    not_given_back: str | None = None
    """What is still held or missing then. None: nothing, or it was not asked for."""

    def line(self) -> str:
        """One line for `systemctl status`."""
        return f"{self.sentence} | {self.reload_problem}" if self.reload_problem else self.sentence
