"""What this daemon may do in a cycle: by its lease, and by what an operator has said."""

from dataclasses import dataclass, replace

from makeway.adapters.protocol import Adapter
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.daemon.leader.leadership import Leadership
from makeway.daemon.leader.pause import Pause
from makeway.daemon.leader.standing import ALONE, Role, Standing
from makeway.policies.model import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """The lease and the pause of one daemon."""

    leadership: Leadership | None = None
    """None: this daemon is taken for the only one, and leads."""
    pause: Pause | None = None
    """None: this daemon cannot be paused."""

    @property
    def standing(self) -> Standing:
        """Whether this daemon leads, by the last snapshot."""
        return ALONE if self.leadership is None else self.leadership.standing

    @property
    def paused(self) -> bool:
        """Whether nothing may be taken."""
        return self.pause is not None and self.pause.on

    @property
    def begins(self) -> bool:
        """Whether what is decided may be begun, or recorded."""
        return self.standing.begins and not self.paused

    @property
    def follows(self) -> bool:
        """Whether another daemon leads."""
        return self.standing.role is Role.FOLLOWS

    def look(self, adapter: Adapter, journal: Journal, mode: Mode) -> Cluster:
        """A snapshot, and what it says about the lease. In observe mode only what is to be given back needs
        one.

        Raises:
            Unavailable, Unreadable: no snapshot.
        """
        if self.leadership is None:
            return adapter.snapshot()
        owes = any(not operation.observe for operation in journal.open_operations())
        return self.leadership.look(adapter.snapshot, owes or mode is Mode.ACT)

    def of_cycle(self, settings: LoopSettings) -> LoopSettings:
        """The settings of this cycle: a daemon that follows another one only observes. Where nothing may be
        begun, or all is to go back, no nodes wait for a job that gets them next.
        """
        if settings.restoring or not self.begins:
            settings = replace(settings, timeouts=replace(settings.timeouts, pass_on_s=0.0))
        return replace(settings, mode=Mode.OBSERVE) if self.follows else settings

    def may_act(self) -> bool:
        """Whether a command that is sent now ends before another daemon may act."""
        return self.leadership is None or self.leadership.may_act()


ONLY_DAEMON = Permission()
"""The permission of a daemon that takes no lease and cannot be paused: it always acts."""
