"""Every policy under its configured name."""

from difflib import get_close_matches
from typing import Any

from makeway.policies.ckpt_backfill.policy import CKPT_BACKFILL
from makeway.policies.contract import Policy, PolicyError
from makeway.policies.eviction.policy import EVICTION
from makeway.policies.horizon.policy import HORIZON
from makeway.policies.hybrid.policy import CUA_PAA, CUA_SPAA, CUP_PAA, CUP_SPAA, N_PAA, N_SPAA
from makeway.policies.none import NONE
from makeway.policies.wcjs.policy import WCJS

POLICIES: dict[str, Policy[Any]] = {
    "none": NONE,
    "eviction": EVICTION,
    "n-paa": N_PAA,
    "n-spaa": N_SPAA,
    "cua-paa": CUA_PAA,
    "cua-spaa": CUA_SPAA,
    "cup-paa": CUP_PAA,
    "cup-spaa": CUP_SPAA,
    "ckpt-backfill": CKPT_BACKFILL,
    "horizon": HORIZON,
    "wcjs": WCJS,
}
"""The settings of each policy have a type of their own, which only the policy itself reads: hence `Any`."""


class UnknownPolicy(PolicyError):
    """There is no policy of that name. The message names the closest match and all known names."""


def find(name: str) -> Policy[Any]:
    """The policy named `name`.

    Raises:
        UnknownPolicy: there is none.
    """
    policy = POLICIES.get(name)
    if policy is not None:
        return policy
    close = get_close_matches(name.lower(), POLICIES, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise UnknownPolicy(f"unknown policy {name!r}{hint} (known: {', '.join(POLICIES)})")
