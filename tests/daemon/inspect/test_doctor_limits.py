"""What `makeway doctor` says of limits that a user can pass."""

import pytest

from makeway.adapters.site.checks import Level
from makeway.daemon.inspect.doctor import check_limits
from makeway.policies.model import Limits
from makeway.policies.registry import find


@pytest.mark.parametrize(
    ("policy", "ceiling", "limits", "named"),
    [
        ("least-price", None, Limits(), None),
        ("least-price", None, Limits(max_loss_node_hours=None), None),
        ("least-price", 1.0, Limits(), "policy.settings.ceiling_machine_hours limits"),
        ("least-price", None, Limits(max_loss_node_hours=5.0), "limits.max_loss_node_hours limits"),
        (
            "least-price",
            1.0,
            Limits(max_loss_node_hours=5.0),
            "policy.settings.ceiling_machine_hours and limits.max_loss_node_hours limit",
        ),
        (
            "least-price",
            1.0,
            Limits(max_loss_node_hours=5.0, max_loss_node_hours_per_user_per_day=9.0),
            None,
        ),
        ("least-price", 1.0, Limits(max_loss_node_hours_per_account_per_day=9.0), None),
        ("none", None, Limits(max_loss_node_hours=5.0), None),
    ],
)
def test_a_limit_per_urgent_job_without_one_per_user_is_told(
    policy: str, ceiling: float | None, limits: Limits, named: str | None
) -> None:
    known = find(policy)
    settings = {} if ceiling is None else {"ceiling_machine_hours": ceiling}
    found = list(check_limits(known, known.config_type(**settings), limits))
    assert [(check.level, check.name) for check in found] == [(Level.WARNING, "limits")] * (named is not None)
    if named is not None:
        assert found[0].text.startswith(f"{named} what one urgent job may cost, and a user who splits")
