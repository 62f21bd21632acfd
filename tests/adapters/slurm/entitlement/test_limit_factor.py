"""The LimitFactor of a QOS scales what the user's association admits."""

import pytest

from tests.adapters.slurm.entitlement.test_entitlement import (
    OF_ADA,
    FakeAccounting,
    asked,
    association,
    of_qos,
    too_much,
)


@pytest.mark.parametrize(
    ("of_association", "of_qos_urgent", "refusal"),
    [
        ({"MaxTRES": "node=3"}, {"LimitFactor": "2.000000"}, None),
        ({"GrpTRES": "node=3"}, {"LimitFactor": "1.500000"}, None),
        ({"MaxTRES": "node=7"}, {"LimitFactor": "0.500000"}, f"4 nodes are asked for, {OF_ADA} admits 3"),
        ({"MaxTRES": "node=3"}, {"LimitFactor": ""}, f"4 nodes are asked for, {OF_ADA} admits 3"),
        ({}, {"MaxTRES": "node=3", "LimitFactor": "2.000000"}, "4 nodes are asked for, QOS urgent admits 3"),
        (
            {"MaxWall": "00:30:00"},
            {"LimitFactor": "9.0"},
            f"3600 seconds are asked for, {OF_ADA} admits 1800",
        ),
    ],
)
def test_the_factor_of_a_qos_scales_what_associations_may_have(
    of_association: dict[str, str], of_qos_urgent: dict[str, str], refusal: str | None
) -> None:
    slurm = FakeAccounting()
    slurm.associations = {"ada": (association("light", "urgent", **of_association),)}
    slurm.qos = (of_qos("urgent", **of_qos_urgent),)
    assert asked(slurm)[0] == too_much(refusal)
