"""What the start of one urgent job may cost by the setting of the ceiling."""

import math
from typing import Literal

import pytest

from makeway.policies.least_price.ceiling import CeilingUse, ceiling_node_s
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import Cluster, Node, NodeState

HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("node_count", "setting", "node_hours"),
    [
        (1000, "auto", 2000.0),
        (100, "auto", 200.0),
        (8, "auto", 200.0),
        (8, 2.0, 16.0),
        (1000, 0.25, 250.0),
        (8, None, math.inf),
    ],
)
def test_the_ceiling_grows_with_the_machine_but_by_default_is_never_below_200_node_hours(
    node_count: int, setting: float | Literal["auto"] | None, node_hours: float
) -> None:
    up = [Node(name=f"n{number}", state=NodeState.UP) for number in range(node_count)]
    down = [Node(name=f"d{number}", state=NodeState.DOWN) for number in range(500)]
    cluster = Cluster(now_s=0.0, nodes=(*up, *down), jobs=())
    config = LeastPriceConfig(ceiling_machine_hours=setting)
    assert ceiling_node_s(cluster, config) == node_hours * HOUR_S


@pytest.mark.parametrize(
    ("before_node_s", "cost_node_s", "exceeds"),
    [(0, 100, False), (0, 101, True), (40, 60, False), (40, 61, True), (150, 1, True), (150, 0, False)],
)
def test_a_start_that_costs_nothing_is_allowed_though_the_ceiling_is_used_up(
    before_node_s: int, cost_node_s: int, exceeds: bool
) -> None:
    use = CeilingUse(before_node_s=before_node_s, allowed_node_s=100)
    assert use.exceeds(cost_node_s) is exceeds


def test_the_default_is_auto() -> None:
    assert LeastPriceConfig().ceiling_machine_hours == "auto"
