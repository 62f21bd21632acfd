"""Which calls to the simulated cluster go wrong on purpose, and how."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from makeway.policies.model import VERBS

SNAPSHOT = "snapshot"
"""What the read is called where verbs are named."""


class FaultKind(StrEnum):
    """What can go wrong between the daemon and the cluster."""

    NO_ANSWER = "no_answer"  # not applied, Unavailable
    LOST_ANSWER = "lost_answer"  # applied, Unavailable all the same
    LATE_ANSWER = "late_answer"  # Unavailable, and applied later
    REFUSED = "refused"  # not applied, Rejected
    GONE = "gone"  # the job, or the reservation, ends by itself just before: Gone
    DAMAGED = "damaged"  # a snapshot that cannot be understood: Unreadable


_NAMES = (SNAPSHOT, *sorted(VERBS))
_SNAPSHOT_KINDS = (FaultKind.NO_ANSWER, FaultKind.DAMAGED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong."""

    kind: FaultKind
    delay_s: float = 60.0
    """A late answer: how much later the command is applied, in virtual time."""
    retryable: bool = False
    """A refusal: whether the controller asks to be asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """Which calls go wrong. Ordinals count from 1; snapshots are counted apart from verbs.

    The first of `by_call`, `by_verb` and the rates that has something for a call decides. Equal plans do the
    same to equal sequences of calls.
    """

    by_call: Mapping[int, Fault] = field(default_factory=dict[int, Fault])
    """By the ordinal of the call among all verbs."""
    by_verb: Mapping[tuple[str, int], Fault] = field(default_factory=dict[tuple[str, int], Fault])
    """By verb, or "snapshot", and the ordinal among calls of that verb."""
    rates: Mapping[FaultKind, float] = field(default_factory=dict[FaultKind, float])
    """How probable each kind is at any call that is not named above."""
    seed: int = 0

    def __post_init__(self) -> None:
        total = sum(self.rates.values())
        if min(self.rates.values(), default=0.0) < 0 or total > 1:
            raise ValueError(f"rates are {dict(self.rates)}: each must be 0 or more, their sum at most 1")
        for (verb, ordinal), fault in self.by_verb.items():
            if verb not in _NAMES:
                raise ValueError(f"{verb!r} is no verb: accepted are {', '.join(_NAMES)}")
            if (verb == SNAPSHOT) != (
                fault.kind in _SNAPSHOT_KINDS
            ) and fault.kind is not FaultKind.NO_ANSWER:
                raise ValueError(f"call {ordinal} of {verb} cannot go wrong in the way {fault.kind}")

    def of_verb(self, verb: str, *, call: int, verb_call: int) -> Fault | None:
        """What goes wrong with this call of a verb. None: nothing."""
        named = self.by_call.get(call) or self.by_verb.get((verb, verb_call))
        return named or self._by_chance(f"{self.seed}:{call}", verb=True)

    def of_snapshot(self, call: int) -> Fault | None:
        """What goes wrong with this snapshot. None: nothing."""
        return self.by_verb.get((SNAPSHOT, call)) or self._by_chance(
            f"{self.seed}:{SNAPSHOT}:{call}", verb=False
        )

    def _by_chance(self, seed: str, *, verb: bool) -> Fault | None:
        if not self.rates:
            return None
        drawn = Random(seed).random()
        for kind in FaultKind:
            drawn -= self.rates.get(kind, 0.0)
            if drawn < 0:
                possible = kind is not FaultKind.DAMAGED if verb else kind in _SNAPSHOT_KINDS
                return Fault(kind=kind) if possible else None
        return None


NO_FAULTS = FaultPlan()
"""Nothing goes wrong."""
