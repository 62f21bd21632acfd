"""What a trace's sizes are counted in: whole nodes, or processors where jobs share nodes."""

import json
from pathlib import Path

import pytest

from makeway.policies.model import Resources
from makeway.simharness.run.experiment import Experiment
from makeway.simharness.run.loading import load_workload
from makeway.simharness.workloads.trace import Trace, read_trace
from makeway.simharness.workloads.unit import TraceUnit
from tests.simharness.cli.test_replay import Makeway, makeway
from tests.simharness.workloads.test_trace import line, trace_of

HEADER = "; MaxNodes: 10\n; MaxProcs: 80"

__all__ = ["makeway"]


def sized(folder: Path, *processors: int, header: str = HEADER) -> Path:
    return trace_of(
        folder, *(line(number, allocated=size) for number, size in enumerate(processors, 1)), header=header
    )


@pytest.mark.parametrize(
    ("processors", "unit", "sizes", "share"),
    [
        ((8, 16, 80), TraceUnit.NODE, [1, 2, 10], 0.0),
        ((7, 9, 80), TraceUnit.NODE, [1, 2, 10], 1 / 3),
        ((7, 9, 80, 1), TraceUnit.PROCESSOR, [7, 9, 80, 1], 0.5),
    ],
    ids=["none is smaller than a node", "a third is", "half are"],
)
def test_a_trace_of_jobs_smaller_than_a_node_is_read_by_processors(
    tmp_path: Path, processors: tuple[int, ...], unit: TraceUnit, sizes: list[int], share: float
) -> None:
    trace = read_trace(sized(tmp_path, *processors))
    assert (trace.unit, [job.node_count for job in trace.jobs]) == (unit, sizes)
    assert trace.below_a_node == share
    assert trace.node_count == (10 if unit is TraceUnit.NODE else 80)
    assert trace.procs_per_node == 8


def test_the_unit_can_be_chosen(tmp_path: Path) -> None:
    path = sized(tmp_path, 1, 9, 81)
    by_node = read_trace(path, unit=TraceUnit.NODE)
    assert ([job.node_count for job in by_node.jobs], by_node.impossible) == ([1, 2], (("3", 11),))
    by_processor = read_trace(path, unit=TraceUnit.PROCESSOR)
    assert ([job.node_count for job in by_processor.jobs], by_processor.impossible) == ([1, 9], (("3", 81),))
    assert read_trace(path, unit=TraceUnit.PROCESSOR, node_count=2).node_count == 16
    odd = sized(tmp_path, 100, header="; MaxNodes: 10\n; MaxProcs: 105")
    assert read_trace(odd).node_count == 10
    assert read_trace(odd, unit=TraceUnit.PROCESSOR).node_count == 105


def test_the_line_says_which_reading_was_taken_and_why(tmp_path: Path) -> None:
    def reading(*processors: int, unit: TraceUnit | None = None, header: str = HEADER) -> str:
        path = sized(tmp_path, *processors, header=header)
        return load_workload(Experiment(trace=str(path), unit=unit)).reading

    share = "100% of the jobs ask for less than the 8 processors of a node"
    assert reading(1) == (
        f"small is read by processors (80 in one pool): {share}; "
        "--unit node, or unit node in a grid, for the other reading"
    )
    assert reading(1, unit=TraceUnit.NODE) == (
        f"small is read by whole nodes of 8 processors (10 nodes): {share}; as the options say"
    )
    assert "0% of the jobs ask for less" in reading(8)
    assert reading(8, header="; MaxProcs: 80") == ""


def packed(folder: Path, *jobs: tuple[int, int], node: Resources | None) -> Trace:
    """A trace of jobs of so many processors, with so many kilobytes for each."""
    lines = [
        line(number, allocated=size).replace(" 600 -1 ", f" 600 {kb} ")
        for number, (size, kb) in enumerate(jobs, 1)
    ]
    return read_trace(trace_of(folder, *lines, header=HEADER), unit=TraceUnit.PACKED, node=node)


def test_packed_jobs_have_an_even_share_of_the_fewest_nodes(tmp_path: Path) -> None:
    node = Resources.of({"cpu": 8, "mem": 16})
    trace = packed(tmp_path, (1, 1024), (9, -1), (8, 3000), (80, 0), (2, 16 * 1024), (1, 1), node=node)
    assert [(job.node_count, job.demand) for job in trace.jobs] == [
        (1, Resources.of({"cpu": 1, "mem": 1})),
        (2, Resources.of({"cpu": 5})),
        (2, Resources.of({"cpu": 4, "mem": 12})),
        (10, Resources.of({"cpu": 8})),
        (2, Resources.of({"cpu": 1, "mem": 16})),
        (1, Resources.of({"cpu": 1, "mem": 1})),
    ]
    assert (trace.node_count, trace.node) == (10, node)


def test_packed_jobs_that_no_node_can_serve_are_named(tmp_path: Path) -> None:
    trace = packed(
        tmp_path, (1, 1), (3, 17 * 1024), (81, 1), (11, 16 * 1024), node=Resources.of({"cpu": 8, "mem": 16})
    )
    assert trace.impossible == (("2", 3), ("3", 11), ("4", 11))


def test_without_memory_on_the_nodes_processors_alone_count(tmp_path: Path) -> None:
    trace = packed(tmp_path, (4, 1 << 40), node=None)
    assert trace.node == Resources.of({"cpu": 8})
    assert trace.jobs[0].demand == Resources.of({"cpu": 4})


def test_a_replay_on_packed_nodes_counts_memory(makeway: Makeway, tmp_path: Path) -> None:
    """Twenty jobs of one processor and half of a node's memory: two a node, on two nodes."""
    lines = [line(number, allocated=1).replace(" 600 -1 ", " 600 4096 ") for number in range(1, 21)]
    path = trace_of(tmp_path, *lines, header="; MaxNodes: 2\n; MaxProcs: 16")
    means = []
    for node in ("cpu=8", "cpu=8,mem=8M"):
        out, err = makeway("replay", path, "--node", node, "--packing", "least-loaded", "--json", "-")
        means.append(json.loads(out)["replays"][0]["numbers"]["all.wait_mean_s"])
        assert "processors packed on 2 shared nodes of cpu=8" in err
    assert means == [20.0, 200.0]
    for arguments, words in (
        (("--node", "cpu=8", "--unit", "node"), "--unit packed"),
        (("--node", "mem=8G"), "cpu=N"),
        (("--node", "cpu=8", "--procs-per-node", "4"), "--procs-per-node"),
        (("--node-list", "nodes.csv"), "--node-list"),
        (("--node", "cpu=8", "--workload", "W5"), "malleable"),
        (("--node", "cpu=some"), "cpu=some"),
    ):
        assert words in makeway.refuses("replay", path, *arguments)


def test_a_replay_prints_the_line_and_takes_the_option(makeway: Makeway, tmp_path: Path) -> None:
    path = sized(tmp_path, *[1] * 20)
    waits = {}
    for unit in (None, "node"):
        out, err = makeway("replay", path, "--json", "-", *(() if unit is None else ("--unit", unit)))
        waits[unit] = json.loads(out)["replays"][0]["numbers"]["all.wait_mean_s"]
        assert err.count("is read by") == 1
    assert waits == {None: 0.0, "node": 50.0}
    assert "processor" in makeway.refuses("replay", path, "--unit", "core")
    assert "--unit" in makeway.refuses("replay", "sample", "--unit", "node")


@pytest.mark.shared
def test_of_the_archive_s_traces_one_is_read_by_processors(shared_traces: Path) -> None:
    """Those that are read by nodes: `test_the_archive_s_traces_read_whole`."""
    trace = read_trace(shared_traces / "RICC-2010-2.swf.gz")
    assert (trace.unit, trace.node_count) == (TraceUnit.PROCESSOR, 8192)
    assert trace.below_a_node == pytest.approx(0.797, abs=0.0005)
