"""Which daemon may act, by what the daemons have written: the law about leaders goes by nothing else."""

from dataclasses import dataclass
from math import inf


@dataclass(slots=True, kw_only=True)
class _Written:
    """The lease of one daemon, as it was told that it was written."""

    since_s: float = -inf
    """When the last answered command began that wrote it."""
    used: bool = False
    """Whether the daemon has sent a command since it made the lease."""


class Leading:
    """Watches the daemons of one story.

    Args:
        lease_s: how long a lease lasts. None: there is one daemon, without a lease.
    """

    def __init__(self, lease_s: float | None) -> None:
        self._lease_s = lease_s
        self._written: dict[str, _Written] = {}
        self._last = ""

    def made(self, daemon: str, began_s: float) -> None:
        """The daemon was told that its new lease is there."""
        self._written[daemon] = _Written(since_s=began_s)

    def renewed(self, daemon: str, began_s: float) -> None:
        """The daemon was told that its lease was written again."""
        self._written.setdefault(daemon, _Written()).since_s = began_s

    def gave_up(self, daemon: str) -> None:
        """The daemon gives its lease up: it may not act by it any more, whether or not it gets an answer."""
        self._written.pop(daemon, None)

    def passes_to(self, daemon: str) -> bool:
        """A daemon is about to send a command. Whether another one sent the last."""
        other = self._last not in ("", daemon)
        self._last = daemon
        return other

    def sent(self, daemon: str, now_s: float) -> list[tuple[bool, str]]:
        """What has to hold when the daemon sends a command: whether it does, and the violation."""
        if self._lease_s is None:
            return []
        own = self._written.setdefault(daemon, _Written())
        own.used = True
        others = [
            (now_s >= one.since_s + self._lease_s, f"{daemon} acts while the lease of {name} lasts")
            for name, one in self._written.items()
            if name != daemon and one.used
        ]
        return [(now_s < own.since_s + self._lease_s, f"{daemon} acts without a lease"), *others]
