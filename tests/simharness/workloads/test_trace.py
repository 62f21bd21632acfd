"""Traces as workloads: sizes, limits, machines, and the way back into a file."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.trace import Trace, TraceError, read_trace, write_swf
from makeway.simharness.workloads.unit import TraceUnit


def line(
    job: int = 1,
    *,
    submit: float = 0,
    run: float = 100,
    allocated: int = 4,
    requested: int = 4,
    wanted: float = 600,
    owner: str = "11 12",
    status: int = 1,
) -> str:
    return f"{job} {submit} 3 {run} {allocated} -1 -1 {requested} {wanted} -1 {status} {owner} -1 -1 -1 -1 -1"


def trace_of(folder: Path, *lines: str, header: str = "; MaxProcs: 100") -> Path:
    path = folder / "small.swf"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_a_job_is_what_its_line_says(tmp_path: Path) -> None:
    trace = read_trace(
        trace_of(tmp_path, line(5, submit=7), header="; MaxProcs: 100\n; UnixStartTime: 843480031")
    )
    assert trace == Trace(
        name="small",
        node_count=100,
        procs_per_node=1,
        start_epoch_s=843480031,
        jobs=[
            SimJob(
                job_id="5", submit_s=7, runtime_s=100, walltime_s=600, node_count=4, user="11", account="12"
            )
        ],
    )


def test_a_number_is_one_name_however_it_is_written(tmp_path: Path) -> None:
    path = trace_of(
        tmp_path, *(line(owner=owner) for owner in ("7 -1", "7.0 -1.0", "+7 -1e0", "07 -1", "7.5 1e300"))
    )
    owners = [(job.user, job.account) for job in read_trace(path).jobs]
    assert owners == [("7", "")] * 4 + [("7.5", "1e300")]


@pytest.mark.parametrize("jobs_before", [1, 3000])
def test_the_machine_is_that_of_the_whole_header(tmp_path: Path, jobs_before: int) -> None:
    lines = [line(number) for number in range(jobs_before)]
    trace = read_trace(trace_of(tmp_path, *lines, "; MaxNodes: 25", line(9000), header="; MaxProcs: 100"))
    assert (trace.node_count, trace.procs_per_node) == (25, 4)
    assert {job.node_count for job in trace.jobs} == {1}


def test_missing_values_have_their_conventions(tmp_path: Path) -> None:
    path = trace_of(
        tmp_path,
        line(1, allocated=-1, requested=8),
        line(2, allocated=6, requested=-1),
        line(3, allocated=6, requested=8),
        line(4, wanted=-1),
        line(5, wanted=50),
        line(6, owner="-1 -1"),
    )
    jobs = {job.job_id: job for job in read_trace(path).jobs}
    assert [jobs[job_id].node_count for job_id in "123"] == [8, 6, 6]
    assert [jobs[job_id].walltime_s for job_id in "45"] == [100, 100]
    assert (jobs["6"].user, jobs["6"].account) == ("", "")


def test_jobs_without_run_time_or_size_are_dropped_and_counted(tmp_path: Path) -> None:
    path = trace_of(
        tmp_path,
        line(1),
        line(2, run=0),
        line(3, run=-1),
        line(4, allocated=0, requested=-1),
        line(5, run=0.5),
    )
    trace = read_trace(path)
    assert [job.job_id for job in trace.jobs] == ["1", "5"]
    assert trace.dropped == 3


def test_jobs_larger_than_the_machine_are_named(tmp_path: Path) -> None:
    path = trace_of(tmp_path, line(1, allocated=100), line(2, allocated=101), line(3, allocated=4000, run=0))
    trace = read_trace(path)
    assert [job.job_id for job in trace.jobs] == ["1"]
    assert trace.impossible == (("2", 101),)
    assert trace.dropped == 1
    assert read_trace(path, node_count=200).impossible == ()


def test_jobs_are_sorted_by_submit_time_and_place(tmp_path: Path) -> None:
    path = trace_of(tmp_path, line(3, submit=50), line(9, submit=20), line(2, submit=20), line(1, submit=0))
    assert [job.job_id for job in read_trace(path).jobs] == ["1", "9", "2", "3"]


@pytest.mark.parametrize("first", [True, False])
def test_partial_executions_of_jobs_with_a_line_of_their_own_are_left_out(
    tmp_path: Path, first: bool
) -> None:
    parts = [line(1, run=40, status=2), line(1, run=60, status=3)]
    path = trace_of(
        tmp_path, *([] if first else parts), line(1), *(parts if first else []), line(2, submit=9)
    )
    trace = read_trace(path)
    assert [(job.job_id, job.runtime_s) for job in trace.jobs] == [("1", 100), ("2", 100)]
    assert (trace.parts, trace.duplicates, trace.dropped) == (2, 0, 0)


def test_partial_executions_without_a_line_of_the_job_are_jobs(tmp_path: Path) -> None:
    parts = [line(1, run=40, status=2), line(1, run=60, status=4), line(1, run=9, status=5)]
    trace = read_trace(trace_of(tmp_path, *parts, line(2, submit=1, status=0)))
    assert [job.job_id for job in trace.jobs] == ["1", "1.2", "1.3", "2"]
    assert (trace.parts, trace.duplicates) == (0, 2)


def test_a_job_number_that_comes_again_is_made_unique(tmp_path: Path) -> None:
    trace = read_trace(trace_of(tmp_path, line(15), line(15), line(16), line(15)))
    assert [job.job_id for job in trace.jobs] == ["15", "15.2", "16", "15.3"]
    assert trace.duplicates == 2


@pytest.mark.parametrize(
    ("header", "node_count", "procs_per_node"),
    [
        ("; MaxNodes: 144\n; MaxProcs: 1152", 144, 8),
        ("; MaxNodes: 5544\n; MaxProcs: 93312", 5832, 16),
        ("; MaxNodes: 338 (batch partition; 512 total)\n; MaxProcs: 338", 338, 1),
        ("; MaxNodes: 256", 256, 1),
        ("; MaxNodes: 200\n; MaxProcs: 100", 100, 1),
    ],
)
def test_the_header_gives_the_machine(
    tmp_path: Path, header: str, node_count: int, procs_per_node: int
) -> None:
    trace = read_trace(trace_of(tmp_path, line(allocated=17), header=header))
    assert (trace.node_count, trace.procs_per_node) == (node_count, procs_per_node)
    assert trace.jobs[0].node_count == -(-17 // procs_per_node)


def test_the_machine_can_be_given(tmp_path: Path) -> None:
    path = trace_of(tmp_path, line(allocated=17), header="; MaxNodes: 144\n; MaxProcs: 1152")
    assert read_trace(path, node_count=10).jobs[0].node_count == 3
    trace = read_trace(path, procs_per_node=4)
    assert (trace.node_count, trace.jobs[0].node_count) == (288, 5)
    bare = trace_of(tmp_path, line(), header="; Version: 2.2")
    assert read_trace(bare, node_count=10).node_count == 10
    with pytest.raises(TraceError, match=r"neither MaxNodes nor MaxProcs; .* a number of nodes \(--nodes;"):
        read_trace(bare)
    with pytest.raises(
        TraceError, match=r"--nodes \(node_count in a sweep\): 0; accepted: a whole number from 1"
    ):
        read_trace(path, node_count=0)


@pytest.mark.parametrize("jobs_before", [0, 1, 1024, 3000])
@pytest.mark.parametrize("comments_before", [0, 1500])
def test_the_machine_is_read_wherever_the_header_has_it(
    tmp_path: Path, jobs_before: int, comments_before: int
) -> None:
    lines = [
        *["; a remark"] * comments_before,
        *(line(number, allocated=17) for number in range(1, jobs_before + 1)),
        "; MaxNodes: 144",
        "; MaxProcs: 1152",
        line(jobs_before + 1, submit=9, allocated=17),
    ]
    trace = read_trace(trace_of(tmp_path, *lines, header=";"))
    assert (trace.node_count, trace.procs_per_node) == (144, 8)
    assert len(trace.jobs) == jobs_before + 1


def test_a_file_without_a_job_that_can_run_is_an_error(tmp_path: Path) -> None:
    path = trace_of(tmp_path, line(1, run=0), line(2, allocated=200), "some words")
    with pytest.raises(TraceError, match=r"1 damaged, 1 without run time or size, 1 larger than the machine"):
        read_trace(path, skip_bad=True)
    with pytest.raises(TraceError, match="no job that can run"):
        read_trace(trace_of(tmp_path))


def test_damage_is_counted_on_request(tmp_path: Path) -> None:
    path = trace_of(tmp_path, line(1), line(2) + " 7", line(3))
    with pytest.raises(TraceError, match="line 3: 19 fields"):
        read_trace(path)
    trace = read_trace(path, skip_bad=True)
    assert [job.job_id for job in trace.jobs] == ["1", "3"]
    assert trace.bad == 1


_TIMES = st.one_of(
    st.integers(0, 10**9).map(float), st.floats(min_value=0, max_value=1e9, allow_subnormal=False)
)
_JOBS = st.lists(
    st.builds(
        lambda submit, run, slack, size, user, account: SimJob(
            job_id="",
            submit_s=submit,
            runtime_s=run + 0.001,
            walltime_s=run + 0.001 + slack,
            node_count=size,
            user=user,
            account=account,
        ),
        _TIMES,
        _TIMES,
        _TIMES,
        st.integers(1, 50),
        st.integers(0, 9).map(str) | st.just(""),
        st.integers(0, 9).map(str) | st.just(""),
    ),
    min_size=1,
    max_size=30,
)


@settings(deadline=None)
@given(jobs=_JOBS, packed=st.booleans())
def test_a_workload_comes_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[SimJob], packed: bool
) -> None:
    for number, job in enumerate(jobs, 1000):
        job.job_id = str(number)
    jobs.sort(key=lambda job: job.submit_s)
    path = tmp_path_factory.getbasetemp() / ("round.swf.gz" if packed else "round.swf")
    write_swf(path, 50, jobs)
    assert read_trace(path) == Trace(
        name="round", node_count=50, procs_per_node=1, start_epoch_s=None, jobs=jobs
    )


def test_names_that_are_no_numbers_are_numbered(tmp_path: Path) -> None:
    jobs = [
        SimJob(job_id=job_id, submit_s=0, runtime_s=1, walltime_s=1, node_count=1, user=user, account=account)
        for job_id, user, account in (("a", "beamline", "7"), ("15.2", "17", ""), ("15", "beamline", "3"))
    ]
    write_swf(tmp_path / "named.swf", 1, jobs)
    read = read_trace(tmp_path / "named.swf").jobs
    assert [(job.job_id, job.user, job.account) for job in read] == [
        ("1", "1", "7"),
        ("2", "2", ""),
        ("3", "1", "3"),
    ]


def test_written_files_are_alike_and_unwritable_places_are_an_error(tmp_path: Path) -> None:
    jobs = [SimJob(job_id="1", submit_s=0, runtime_s=1, walltime_s=1, node_count=1)]
    contents = set()
    for _ in range(2):
        write_swf(tmp_path / "a.swf.gz", 1, jobs)
        contents.add((tmp_path / "a.swf.gz").read_bytes())
    assert len(contents) == 1
    assert gzip.decompress(contents.pop()).startswith(b"; Version: 2.2\n")
    with pytest.raises(TraceError, match="cannot be written: Is a directory"):
        write_swf(tmp_path, 1, jobs)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "nodes", "procs_per_node", "jobs", "dropped", "largest", "below_a_node"),
    [
        ("KTH-SP2-1996-2.1-cln", 100, 1, 28_467, 9, 100, 0.0),
        ("CTC-SP2-1996-3.1-cln", 338, 1, 77_205, 17, 336, 0.0),
        ("SDSC-BLUE-2000-4.2-cln", 144, 8, 232_536, 10_770, 144, 0.0),
        ("CEA-Curie-2011-2.1-cln", 5832, 16, 295_540, 17_286, 4988, 0.350),
        ("ANL-Theta-2023", 4360, 1, 26_671, 0, 4349, 0.0),
        ("ANL-Mira-2018-wk3", 49_152, 1, 2882, 0, 49_152, 0.0),
    ],
)
def test_the_archive_s_traces_read_whole(
    shared_traces: Path,
    name: str,
    nodes: int,
    procs_per_node: int,
    jobs: int,
    dropped: int,
    largest: int,
    below_a_node: float,
) -> None:
    trace = read_trace(shared_traces / f"{name}.swf.gz")
    assert (trace.name, trace.node_count, trace.procs_per_node) == (name, nodes, procs_per_node)
    assert (len(trace.jobs), trace.dropped, trace.bad, trace.impossible) == (jobs, dropped, 0, ())
    assert max(job.node_count for job in trace.jobs) == largest
    assert all(job.walltime_s >= job.runtime_s > 0 for job in trace.jobs)
    assert trace.duplicates == 0
    assert trace.unit is TraceUnit.NODE
    assert trace.below_a_node == pytest.approx(below_a_node, abs=0.0005)
