"""A node that stays silent counts as down after a while, unless most nodes are silent."""

from dataclasses import replace

from makeway.daemon.control.silent_nodes import SILENT_S, SilentNodes
from makeway.policies.model import Cluster, NodeState, Reserve
from tests.builders import cluster, node_names, running, urgent
from tests.daemon.control.loops import daemon
from tests.fakes import FakeAdapter

FOUR = node_names(4)


def at(now_s: float, *silent: str) -> Cluster:
    """Four nodes at a time; these are silent."""
    view = cluster(4, now_s=now_s)
    return replace(
        view,
        nodes=tuple(
            replace(node, state=NodeState.SILENT) if node.name in silent else node for node in view.nodes
        ),
    )


def states(view: Cluster) -> dict[str, NodeState]:
    return {node.name: node.state for node in view.nodes if node.state is not NodeState.UP}


def test_one_that_is_silent_for_too_long_is_down_until_it_answers() -> None:
    silent = SilentNodes()
    assert silent.counted(at(1000.0)) == at(1000.0)
    assert states(silent.counted(at(1010.0, "n1"))) == {"n1": NodeState.SILENT}
    assert states(silent.counted(at(1009.0 + SILENT_S, "n1", "n2"))) == {
        "n1": NodeState.SILENT,
        "n2": NodeState.SILENT,
    }
    assert states(silent.counted(at(1010.0 + SILENT_S, "n1", "n2"))) == {
        "n1": NodeState.DOWN,
        "n2": NodeState.SILENT,
    }
    assert states(silent.counted(at(1011.0 + SILENT_S, "n2"))) == {"n2": NodeState.SILENT}
    assert states(silent.counted(at(1012.0 + SILENT_S, "n1"))) == {"n1": NodeState.SILENT}


def test_most_nodes_are_not_lost_at_once() -> None:
    silent = SilentNodes()
    silent.counted(at(1000.0, "n1", "n2", "n3"))
    most = silent.counted(at(1000.0 + SILENT_S, "n1", "n2", "n3"))
    assert set(states(most).values()) == {NodeState.SILENT}
    half = silent.counted(at(1001.0 + SILENT_S, "n1", "n2"))
    assert set(states(half).values()) == {NodeState.DOWN}


def test_views_of_one_cluster_share_their_nodes() -> None:
    silent, view = SilentNodes(), at(1000.0, "n1")
    silent.counted(view)
    views = [silent.counted(replace(view, now_s=1000.0 + SILENT_S + step)) for step in range(2)]
    assert views[0].nodes is views[1].nodes


def test_a_hold_moves_from_a_node_that_stays_silent() -> None:
    """Until then no job is asked to leave: n3 and n4 would cost a job."""
    batch = running("v", FOUR[2:], start_s=500.0)
    view = cluster(4, urgent("u", 2, submit_s=990.0), batch)
    adapter = FakeAdapter(view)
    loop = daemon(adapter)
    loop.reconcile()
    assert adapter.calls == [("reserve", "mw_u")]
    nodes = (replace(view.nodes[0], state=NodeState.SILENT), *view.nodes[1:])
    for now_s in (1010.0, 1009.0 + SILENT_S):
        adapter.view = replace(adapter.view, nodes=nodes, now_s=now_s)
        loop.reconcile()
    assert adapter.calls == [("reserve", "mw_u")]
    adapter.view = replace(adapter.view, now_s=1010.0 + SILENT_S)
    for _ in range(3):
        loop.reconcile()
    assert adapter.calls[1:] == [("reserve", "mw_u"), ("requeue", "v")]
    assert [set(one.nodes) for one in adapter.actions if isinstance(one, Reserve)][-1] == {"n2", "n3"}
