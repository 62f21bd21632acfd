"""Which nodes Slurm gives to one job by its topology, on output of 22.05, 24.11 and 26.05."""

import pytest

from makeway.adapters.slurm import build
from makeway.adapters.slurm.nodes.network import ONE_NETWORK, Network, confines, network
from tests.adapters.slurm.fake_slurm import PARTITIONS, FakeSlurm, adapter_of
from tests.adapters.slurm.test_parse import ROW
from tests.paths import CAPTURED

TWO_SWITCHES = """SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-4]
SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[5-8]
"""
BLOCKS_OF_BLOCKS = """BlockName=b1 BlockIndex=0 Nodes=n[1-3] BlockSize=3
BlockName=b2 BlockIndex=1 Nodes=n[4-6] BlockSize=3
BlockName=b3 BlockIndex=2 Nodes=n[7-9] BlockSize=3
BlockName=b4 BlockIndex=3 Nodes=n[10-12] BlockSize=3
AggregatedBlock=b[1-2] BlockIndex=4 Nodes=n[1-6] BlockSize=6
AggregatedBlock=b[3-4] BlockIndex=5 Nodes=n[7-12] BlockSize=6
"""


def named(first: int, last: int) -> frozenset[str]:
    return frozenset(f"n{number}" for number in range(first, last + 1))


def read(text: str) -> Network:
    return network(text.splitlines())


def best(found: Network, node_count: int, good: frozenset[str]) -> frozenset[str] | None:
    """The set for a job of so many nodes with most of the good ones."""
    return found.confined(node_count, lambda nodes: (len(nodes & good),))


def test_all_nodes_of_a_job_are_below_one_of_the_switches_that_are_not_connected() -> None:
    found = read(TWO_SWITCHES)
    assert best(found, 2, named(4, 6)) == named(5, 8)
    assert best(found, 1, named(4, 6)) is None, "one node may be any"
    assert best(found, 5, named(1, 8)) is None, "Slurm accepts no such job"


@pytest.mark.parametrize("release", ["22.05", "24.11", "26.05"])
def test_switches_below_one_switch_confine_no_job(release: str) -> None:
    assert read((CAPTURED / release / "topology-tree.txt").read_text()) == ONE_NETWORK
    assert best(ONE_NETWORK, 4, named(1, 8)) is None


@pytest.mark.parametrize("release", ["24.11", "26.05"])
def test_a_job_that_fits_into_a_block_is_in_one(release: str) -> None:
    found = read((CAPTURED / release / "topology-block.txt").read_text())
    assert best(found, 4, named(4, 6)) == named(5, 8)
    assert best(found, 5, frozenset()) == named(1, 8)


def test_a_larger_job_has_as_few_blocks_as_hold_it_of_one_larger_block() -> None:
    found = read(BLOCKS_OF_BLOCKS)
    assert best(found, 3, named(6, 8)) == named(7, 9)
    assert best(found, 4, named(3, 8)) == named(1, 6), "n7 and n8 are in another larger block"
    assert best(found, 7, named(1, 3) | named(7, 12)) == named(1, 3) | named(7, 12), "none is large enough"
    plain = read("".join(line for line in BLOCKS_OF_BLOCKS.splitlines(keepends=True) if line[0] == "B"))
    assert best(plain, 4, named(1, 3) | named(7, 8)) == named(1, 3) | named(7, 9)


def test_segments_matter_in_jobs_that_are_larger_than_a_block() -> None:
    found = read(BLOCKS_OF_BLOCKS)
    sizes = ((2, 4), (2, 3), (1, 4), (4, 4), (0, 4))
    assert [found.segments_count(*one) for one in sizes] == [True, False, False, False, False]
    assert not read(TWO_SWITCHES).segments_count(2, 4)


def test_what_cannot_be_read_confines_no_job() -> None:
    assert read("SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-\n" + TWO_SWITCHES) == ONE_NETWORK
    assert read("scontrol: error: No topology information available") == ONE_NETWORK


@pytest.mark.parametrize(
    ("plugin", "parameters", "does"),
    [
        ("topology/tree", "(null)", True),
        ("topology/tree", "RouteTree,TopoOptional", False),
        ("topology/block", "TopoOptional", True),
        ("topology/default", "(null)", False),
        ("topology/flat", "(null)", False),
    ],
)
def test_the_plugin_says_whether_jobs_are_confined(plugin: str, parameters: str, does: bool) -> None:
    assert confines({"TopologyPlugin": plugin, "TopologyParam": parameters}) is does
    assert not confines({})


def test_an_urgent_job_gets_nodes_of_one_block_where_the_fewest_have_jobs() -> None:
    """The topology is read with the configuration, and not where any nodes serve."""
    text = (CAPTURED / "24.11" / "topology-block.txt").read_text()
    waiting = ROW | {"QOS": "urgent", "tres-alloc": "cpu=4,node=2"}
    slurm = FakeSlurm(waiting, script=((0, text, ""),))
    slurm.settings |= {"TopologyPlugin": "topology/block"}
    adapter = adapter_of(slurm)

    def eligible() -> frozenset[str] | None:
        return next(job.eligible_nodes for job in adapter.snapshot().jobs if job.job_id == ROW["JobArrayID"])

    assert eligible() == named(1, 4)
    working = ROW | {"JobArrayID": "7", "State": "RUNNING", "StartTime": "1795249000", "QOS": "normal"}
    slurm.rows.append(working | {"NodeList": "n[1-3]", "BatchHost": "n1"})
    assert eligible() == named(5, 8)
    assert slurm.calls.count(build.show_topology()) == 1
    plain = FakeSlurm(waiting)
    assert adapter_of(plain).snapshot().jobs[0].eligible_nodes is None
    assert build.show_topology() not in plain.calls


def test_the_topology_of_a_partition_is_read_once() -> None:
    waiting = ROW | {"QOS": "urgent", "tres-alloc": "cpu=4,node=2"}
    slurm = FakeSlurm(waiting, release="26.05.5", script=((0, TWO_SWITCHES, ""),))

    def change(topology: str) -> None:
        own = f"{PARTITIONS} Topology={topology}"
        slurm.change = lambda lines: [own if line == PARTITIONS else line for line in lines]

    adapter = adapter_of(slurm)
    change("trees")
    for _ in range(2):
        assert adapter.snapshot().jobs[0].eligible_nodes == named(1, 4)
    assert slurm.calls.count(build.show_topology("trees")) == 1
    change("a;b")
    assert adapter.snapshot().jobs[0].eligible_nodes is None, "no name that can be asked for"


def test_in_optional_trees_any_nodes_serve() -> None:
    assert network(TWO_SWITCHES.splitlines(), trees=False) == ONE_NETWORK
