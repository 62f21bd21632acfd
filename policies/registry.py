"""Every policy under its configured name. The module of a policy is imported when the policy is looked up."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from makeway.policies.contract import Policy, PolicyError

_HYBRID = "makeway.policies.hybrid.policy"
_PLACES: dict[str, tuple[str, str]] = {
    "none": ("makeway.policies.none", "NONE"),
    "eviction": ("makeway.policies.eviction.policy", "EVICTION"),
    "least-price": ("makeway.policies.least_price.policy", "LEAST_PRICE"),
    "n-paa": (_HYBRID, "N_PAA"),
    "n-spaa": (_HYBRID, "N_SPAA"),
    "cua-paa": (_HYBRID, "CUA_PAA"),
    "cua-spaa": (_HYBRID, "CUA_SPAA"),
    "cup-paa": (_HYBRID, "CUP_PAA"),
    "cup-spaa": (_HYBRID, "CUP_SPAA"),
    "ckpt-backfill": ("makeway.policies.ckpt_backfill.policy", "CKPT_BACKFILL"),
    "horizon": ("makeway.policies.horizon.policy", "HORIZON"),
    "wcjs": ("makeway.policies.wcjs.policy", "WCJS"),
}
"""The module of each policy, and its name there."""


class _Policies(Mapping[str, Policy[Any]]):
    """The table, whose values are imported when they are read."""

    def __getitem__(self, name: str) -> Policy[Any]:
        module, attribute = _PLACES[name]
        policy: Policy[Any] = getattr(import_module(module), attribute)
        return policy

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)

    def __contains__(self, name: object) -> bool:
        return name in _PLACES


POLICIES: Mapping[str, Policy[Any]] = _Policies()
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
