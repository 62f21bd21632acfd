"""Whose jobs a partition takes, of how many nodes at least, and with how much memory. Pure.

Slurm keeps a job in several partitions if one of them takes it, and says of it what the one lacks that it
tried last.

Reference: 22.05.8, 24.11.5 and 26.05.5 as tried on 2026-11-27. Names that are denied count only where none
    are allowed. A job is over MaxMemPerNode also by the memory of all its CPUs of a node.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

_ALL = "ALL"
_NONE = "(null)"
_YES = "YES"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenJobs:
    """What a partition says of the jobs that it takes, in Slurm's words."""

    allowed_accounts: str = _ALL
    denied_accounts: str = _NONE
    allowed_qos: str = _ALL
    denied_qos: str = _NONE
    root_only: bool = False
    """Whether it takes the jobs of root alone."""
    node_count_min: int = 0
    """The least number of nodes of a job (MinNodes)."""
    memory_max_mb: float | None = None
    """How much memory a job may have of each node (MaxMemPerNode). None: all."""
    placed: frozenset[str] | None = None
    """The accounts of which all above them are known, where an allowed account stands for those below it.
    None: that makes no difference."""

    @property
    def names_accounts(self) -> bool:
        """Whether it takes the jobs of certain accounts alone."""
        return _ALL not in self.allowed_accounts.split(",")

    def takes(self, *, account: str, qos: str, user_id: str) -> bool:
        """Whether it takes the jobs of an account and a user. `qos`: theirs, several divided by commas."""
        return (
            admits({account}, self.allowed_accounts, self.denied_accounts)
            and any(admits({name}, self.allowed_qos, self.denied_qos) for name in qos.split(","))
            and (not self.root_only or user_id == "0")
        )

    def may_take(self, *, account: str, qos: str, user_id: str) -> bool:
        """The same, but an account may be below an allowed one as long as not all above it are known."""
        if self.placed is not None and account not in self.placed:
            account = self.allowed_accounts.partition(",")[0]
        return self.takes(account=account, qos=qos, user_id=user_id)


ANYBODY = TakenJobs()
"""Takes every job."""


def admission(words: Mapping[str, str]) -> TakenJobs:
    """What scontrol's words of a partition say."""
    node_count_min, memory_max = words.get("MinNodes", ""), words.get("MaxMemPerNode", "")
    return TakenJobs(
        allowed_accounts=words.get("AllowAccounts", _ALL),
        denied_accounts=words.get("DenyAccounts", _NONE),
        allowed_qos=words.get("AllowQos", _ALL),
        denied_qos=words.get("DenyQos", _NONE),
        root_only=words.get("RootOnly") == _YES,
        node_count_min=int(node_count_min) if node_count_min.isdecimal() else 0,
        memory_max_mb=float(memory_max) if memory_max.isdecimal() else None,
    )


def admits(names: Collection[str], allowed: str, denied: str) -> bool:
    """Whether one of the names is allowed and none is denied, in Slurm's words."""
    given = allowed.split(",")
    if _ALL not in given:
        return any(name in given for name in names)
    refused = denied.split(",")
    return not any(name in refused for name in names)
