"""Cloud nodes that sleep and are not shown, as the adapter has them in its snapshots."""

from collections.abc import Mapping

import pytest

from makeway.adapters.protocol import Unreadable
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.policies.model import NodeState
from tests.adapters.slurm.fake_slurm import NOW_S, RUNNING, SETTINGS, FakeSlurm, made_reservation
from tests.adapters.slurm.nodes.test_sleeping_nodes import WAKES, sleeping

JOB = RUNNING | {"State": "CONFIGURING", "NodeList": "n[7-8]", "BatchHost": "n7"}
HOLD = "makeway_c.17"


class Cloud(FakeSlurm):
    """A Slurm whose nodes n7 and n8 are in a cloud.

    Args:
        rows: its jobs.
        settings: its configuration.
        release: its release.
    """

    def __init__(
        self, *rows: dict[str, str], settings: Mapping[str, str] = WAKES, release: str = "22.05.8"
    ) -> None:
        super().__init__(*rows, release=release)
        self.settings = dict(settings)
        self.shows_all()

    def shows_all(self) -> None:
        """All nodes are awake."""
        self.change = sleeping(n7="IDLE+CLOUD", n8="IDLE+CLOUD")

    def hides(self, hold: str = "") -> None:
        """The two nodes sleep; there is also a hold, if it is given."""

        def changed(lines: list[str]) -> list[str]:
            text = [line for part in lines for line in part.split("\n")]
            kept = [line for line in text if not line.startswith(("NodeName=n7 ", "NodeName=n8 "))]
            return [hold if hold and line.startswith("No reservations") else line for line in kept]

        self.change = changed


def adapter(slurm: FakeSlurm) -> SlurmCliAdapter:
    return SlurmCliAdapter(SETTINGS, runner=slurm, now=lambda: NOW_S)


def test_hidden_nodes_of_a_job_that_were_shown_sleep() -> None:
    slurm = Cloud()
    reader = adapter(slurm)
    assert {one.wake_s for one in reader.snapshot().nodes} == {0.0}
    slurm.rows = [JOB]
    slurm.hides()
    found = {one.name: one for one in reader.snapshot().nodes}
    assert [(found[name].state, found[name].wake_s) for name in ("n6", "n7", "n8")] == [
        (NodeState.UP, 0.0),
        (NodeState.UP, 300.0),
        (NodeState.UP, 300.0),
    ]


def test_hidden_nodes_of_a_job_that_were_never_shown_serve_no_other() -> None:
    slurm = Cloud(JOB)
    slurm.hides()
    found = {one.name: one.state for one in adapter(slurm).snapshot().nodes}
    assert [found[name] for name in ("n6", "n7", "n8")] == [NodeState.UP, NodeState.SILENT, NodeState.SILENT]


def test_hidden_nodes_of_a_hold_are_not_lost() -> None:
    slurm = Cloud()
    reader = adapter(slurm)
    reader.snapshot()
    slurm.hides(made_reservation(HOLD, Nodes="n[6-8]"))
    found = reader.snapshot()
    assert [one.name for one in found.reservations if one.owned] == [HOLD]
    assert [one.name for one in found.nodes if one.wake_s > 0.0] == ["n7", "n8"]


def test_hidden_nodes_that_nothing_has_are_not_there() -> None:
    slurm = Cloud()
    reader = adapter(slurm)
    reader.snapshot()
    slurm.hides(made_reservation("maintenance", Nodes="n[6-8]"))
    assert len(reader.snapshot().nodes) == 6


@pytest.mark.parametrize(
    ("settings", "release"),
    [({}, "22.05.8"), (WAKES | {"PrivateData": "jobs,cloud"}, "22.05.8"), (WAKES, "24.11.5")],
    ids=["no node sleeps", "all are shown", "this release shows all"],
)
def test_where_no_node_is_hidden_a_view_without_a_node_is_none(
    settings: dict[str, str], release: str
) -> None:
    slurm = Cloud(JOB, settings=settings, release=release)
    slurm.hides()
    with pytest.raises(Unreadable, match="holds nodes that are not listed, such as n7"):
        adapter(slurm).snapshot()
