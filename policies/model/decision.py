"""What a policy returns: the actions that it wants, and why. Imported through `model`."""

from collections.abc import Iterable
from dataclasses import dataclass

from makeway.policies.model.actions import Action, Method
from makeway.policies.model.changed import changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One choice that a policy considered for one job (or for jobs that share nodes), with its price."""

    job_ids: tuple[str, ...]
    method: Method | None
    """None: it is left alone."""
    node_count: int
    loss_node_s: int
    """Node-seconds of work that would be lost."""
    delay_s: float
    """How long it would take until the nodes are free."""
    chosen: bool = False
    note: str = ""
    price_node_s: int | None = None
    """Node-seconds by which the policy compares the choices: lost work, repeated setups and checkpoints,
    raised by past evictions. None: it compares them by lost work."""


def unchosen(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The candidates, none of which is chosen. Mostly few are: the others are the same objects."""
    return tuple(changed(one, chosen=False) if one.chosen else one for one in candidates)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateDeparture:
    """A job that leaves, or shrinks, at the last moment if there is no room before."""

    job_id: str
    method: Method
    loss_node_s: int
    """Node-seconds of work that are lost if it leaves then. 0: it saves its work first, or shrinks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Postponement:
    """The choice behind a hold that waits: carried out at the last moment if there is no room before."""

    until_s: float
    """When the first job leaves."""
    departures: tuple[LateDeparture, ...]
    """Empty: jobs whose time limits end make the room."""

    @property
    def loss_node_s(self) -> int:
        """Node-seconds of work that are lost if all of them leave."""
        return sum(departure.loss_node_s for departure in self.departures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rationale:
    """Why a policy did, or did not do, something for one urgent job."""

    for_job_id: str
    node_count: int
    free_node_count: int
    deadline_s: float
    summary: str
    candidates: tuple[Candidate, ...] = ()
    loss_node_s: int = 0
    ready_s: float | None = None
    """When the nodes are expected to be free. None: not at all."""
    postponed: Postponement | None = None
    """What happens at the last moment. None: nothing is postponed, or makeway did not record it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a policy wants done, and why. The actions for one urgent job follow each other, the hold first."""

    policy: str
    actions: tuple[Action, ...] = ()
    rationale: tuple[Rationale, ...] = ()
    again_s: float | None = None
    """When the decision may change because time passes. None: only a change of the cluster can change it."""
