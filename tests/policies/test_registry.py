"""Finding a policy by its name, and what every policy must be."""

from dataclasses import fields, is_dataclass

import pytest

from makeway.policies.registry import POLICIES, UnknownPolicy, find

KNOWN = ", ".join(POLICIES)
CATEGORIES = ("narrow_short", "narrow_long", "wide_short", "wide_long")
WITHOUT_UNIT = {"late", "kills", "p", "p_by_user", "without_checkpoint", "victims", "shrink", "checkpoints"}
WITHOUT_UNIT |= {"backfill_held", "spare_larger", "just_in_time", "narrow_max_nodes"}
WITHOUT_UNIT |= {"slowdown_weight", "checkpoint_weight", "remaining_weight"}
WITHOUT_UNIT |= {f"{kind}_{size}" for kind in ("urgent", "batch") for size in CATEGORIES}
WITHOUT_UNIT |= {"curve", "reading", "work", "moves_per_cycle"}
WITHOUT_UNIT |= {f"{what}_machine_hours" for what in ("ceiling", "instant", "waiting", "budget")}
WITHOUT_UNIT |= {"vital_users", "vital_accounts", "vital_qos", "waiting_holds", "waits_for_ends"}
WITHOUT_UNIT |= {f"{objective}_weight" for objective in ("late", "tardiness", "makespan")}


def test_the_policies_of_this_version() -> None:
    assert [(name, policy.active) for name, policy in POLICIES.items()] == [
        ("none", False),
        ("eviction", True),
        ("least-price", True),
        ("n-paa", True),
        ("n-spaa", True),
        ("cua-paa", True),
        ("cua-spaa", True),
        ("cup-paa", True),
        ("cup-spaa", True),
        ("ckpt-backfill", True),
        ("horizon", True),
        ("wcjs", True),
    ]


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_is_found_under_its_own_name_with_settings_that_all_have_defaults(name: str) -> None:
    policy = find(name)
    assert policy.name == name
    assert policy.summary.endswith(".")
    assert "\n" not in policy.summary
    config = policy.config_type()
    assert is_dataclass(config)
    assert all(field.name.endswith("_s") or field.name in WITHOUT_UNIT for field in fields(config))


@pytest.mark.parametrize(
    ("name", "closest"),
    [("evction", "eviction"), ("Eviction", "eviction"), ("n_paa", "n-paa"), ("nspaa", "n-spaa")],
)
def test_an_unknown_name_is_answered_with_the_closest(name: str, closest: str) -> None:
    with pytest.raises(UnknownPolicy) as caught:
        find(name)
    assert str(caught.value) == (f"unknown policy {name!r}; did you mean {closest!r}? (known: {KNOWN})")


def test_a_name_like_no_other_is_answered_with_all() -> None:
    with pytest.raises(UnknownPolicy) as caught:
        find("zzz")
    assert str(caught.value) == f"unknown policy 'zzz' (known: {KNOWN})"
