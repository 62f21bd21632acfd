"""What one run of the swarm consists of: a machine, a workload, a policy, and what goes wrong when.

A story is a value: it can be stored, made shorter, and told again.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic import TypeAdapter

from makeway.policies.model import Resources
from makeway.simharness.workloads.job import SimJob

DAY_S = 86400.0


class TroubleKind(StrEnum):
    """What can go wrong. `Trouble` says what its numbers mean for each kind."""

    # The answers to commands and reads, each by chance while the trouble lasts
    NOT_SENT = "not_sent"  # the command does not arrive, and there is no answer
    ANSWER_LOST = "answer_lost"  # the command is carried out, and there is no answer
    ANSWER_LATE = "answer_late"  # there is no answer, and the command is carried out `amount` seconds later
    REFUSED = "refused"  # the controller refuses finally
    TRY_AGAIN = "try_again"  # the controller asks to be asked again
    ENDS_FIRST = "ends_first"  # the command's job ends by itself just before
    GARBAGE = "garbage"  # a snapshot cannot be understood
    STALE_VIEW = "stale_view"  # a snapshot shows the cluster of `amount` seconds ago as that of now
    # The controller
    AWAY = "away"  # nothing is answered
    FLAPS = "flaps"  # it is away every other `amount` seconds
    SLOW = "slow"  # every call takes `amount` seconds
    HANGS = "hangs"  # every call takes `amount` seconds and is not answered; commands may be carried out
    FORGETS = "forgets"  # it starts again without the reservations of the last `amount` seconds
    REQUEUES_LOST = "requeues_lost"  # it starts again, and takes the jobs requeued in that time for ended
    HOLDS_LOST = "holds_lost"  # it loses those reservations, and keeps the jobs bound to them from starting
    # Nodes and administrators
    NODE_DOWN = "node_down"  # node number `amount` fails, for as long as the trouble lasts
    MAINTENANCE = "maintenance"  # an administrator reserves `amount` nodes
    REFUSES = "refuses"  # the controller refuses holds with node number `amount`, and no snapshot shows why
    SILENT = "silent"  # a snapshot shows all nodes as silent, as right after a start of the controller
    ASLEEP = "asleep"  # every other node that no job holds sleeps, and takes `amount` seconds to wake
    # The daemon and its host
    KILLED = "killed"  # the daemon is killed, and away for as long as the trouble lasts
    KILLED_WRITING = "killed_writing"  # the same, before its journal's next write number `amount`
    KILLED_WRITTEN = "killed_written"  # the same, after that write
    STOPPED = "stopped"  # its process does not run while the trouble lasts, then goes on
    JOURNAL_LOST = "journal_lost"  # killed, and the journal is gone
    JOURNAL_OLD = "journal_old"  # killed at the end of the trouble, and the journal is that of its beginning
    DISK_FULL = "disk_full"  # the journal cannot be written
    CLOCK = "clock"  # the daemon's clock is `amount` seconds ahead
    SECOND_DAEMON = "second_daemon"  # another daemon runs next to it, and is killed at the end
    # Users
    HOLDS = "holds"  # the user of the job `subject` holds it while it waits, and releases it at the end
    CANCELS = "cancels"  # the user cancels the job `subject`
    RESUBMITS = "resubmits"  # the user cancels the urgent job `subject`, and submits it again soon
    NO_SHOW = "no_show"  # a user announces a job of `amount` nodes that never comes
    IGNORES = "ignores"  # signals to the job `subject` have no effect
    STAYS = "stays"  # from now on the job `subject` may not be made to leave
    # Users and administrators change the urgent job `subject` while it waits
    FEWER_NODES = "fewer_nodes"  # it wants `amount` nodes, which is less than before
    MORE_NODES = "more_nodes"  # it wants `amount` nodes, which is more than before
    SHORTER_LIMIT = "shorter_limit"  # it has a time limit of `amount` seconds, which is less than before
    LONGER_LIMIT = "longer_limit"  # it has a time limit of `amount` seconds, which is more than before
    URGENT_NO_MORE = "urgent_no_more"  # its class is an ordinary one


BY_CHANCE: Final = frozenset(
    {
        TroubleKind.NOT_SENT,
        TroubleKind.ANSWER_LOST,
        TroubleKind.ANSWER_LATE,
        TroubleKind.REFUSED,
        TroubleKind.TRY_AGAIN,
        TroubleKind.ENDS_FIRST,
        TroubleKind.GARBAGE,
        TroubleKind.STALE_VIEW,
    }
)
"""Each call while they last goes wrong with the probability `chance`."""
CHANGES: Final = (
    TroubleKind.FEWER_NODES,
    TroubleKind.MORE_NODES,
    TroubleKind.SHORTER_LIMIT,
    TroubleKind.LONGER_LIMIT,
    TroubleKind.URGENT_NO_MORE,
)
"""What is changed of urgent jobs that wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One thing that goes wrong, from `at_s` on."""

    kind: TroubleKind
    at_s: float
    lasts_s: float = 0.0
    chance: float = 1.0
    """How probable it is at each call, for the kinds of `BY_CHANCE`."""
    amount: float = 0.0
    subject: str = ""

    @property
    def end_s(self) -> float:
        """When it is over."""
        return self.at_s + self.lasts_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One run of the swarm."""

    seed: int
    """Of what is drawn during the run: which call goes wrong by chance."""
    policy: str
    node_count: int
    jobs: tuple[SimJob, ...]
    troubles: tuple[Trouble, ...] = ()
    capacity: Resources | None = None
    """What jobs share on each node. None: every job has its nodes to itself."""
    switch_nodes: int | None = None
    """How many nodes are below each switch; the cluster's placements are the switches. None: it has none."""
    poll_interval_s: float = 30.0
    learns: bool = False
    """Whether measured durations of checkpoints replace declared ones, which are exact here."""
    user_node_hours: float | None = None
    """What the urgent jobs of one user may cost in a day. None: there is no limit of a user."""
    linger_s: float = 0.0
    """How long nodes stay held for the next urgent job when one has ended."""

    @property
    def clock_step_s(self) -> float:
        """By how much two readings of the daemon's clock can be apart without any time between them, in
        seconds.
        """
        ahead_s = [0.0, *(one.amount for one in self.troubles if one.kind is TroubleKind.CLOCK)]
        return max(ahead_s) - min(ahead_s)

    @property
    def clock_falls_s(self) -> tuple[float, ...]:
        """When the daemon's clock is set back."""
        steps = [one for one in self.troubles if one.kind is TroubleKind.CLOCK]
        return tuple(one.at_s if one.amount < 0 else one.end_s for one in steps)


_STORIES = TypeAdapter(Story)


def encode(story: Story) -> str:
    """The story as JSON."""
    return _STORIES.dump_json(story, indent=1, exclude_defaults=True).decode()


def decode(text: str) -> Story:
    """The story that `encode` wrote.

    Raises:
        ValidationError: it is none.
    """
    return _STORIES.validate_json(text)
