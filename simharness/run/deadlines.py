"""Whether a policy works towards the deadline by which a start is measured as on time."""

from collections.abc import Iterable, Mapping

from makeway.daemon.config.policy_finder import find_policy
from makeway.simharness.run.experiment import policy_config

_SETTING = "start_within_s"
"""The setting of policies that counts for urgent jobs without a limit of their own."""


def deadline_remark(
    policy: str,
    settings: Mapping[str, object],
    limits_s: Iterable[float | None],
    measured_s: float,
    *,
    called: str,
    sets_both: str,
) -> str | None:
    """What to tell the user if the policy's own deadline is not the one that is measured. None: it is.

    Args:
        policy: the policy.
        settings: its settings.
        limits_s: the limit of each urgent job. None: it declares none.
        measured_s: when the start of a job without a limit counts as on time.
        called: what the policy is called.
        sets_both: what sets both, such as `--start-within`.
    """
    found = find_policy(policy)
    limits = set(limits_s)
    if not found.active or not limits:
        return None
    within_s = getattr(policy_config(found.name, found.config_type, settings), _SETTING, None)
    if not isinstance(within_s, int | float):
        return None
    if None in limits and within_s != measured_s:
        return (
            f"policy {called} works towards starts within {within_s:g} s ({_SETTING}), but starts within "
            f"{measured_s:g} s count as on time: {sets_both} sets both"
        )
    if None not in limits and _SETTING in settings and limits != {within_s}:
        return (
            f"{_SETTING}={within_s:g} of policy {called} has no effect, because every urgent job has a limit "
            f"of its own: {sets_both} sets it"
        )
    return None
