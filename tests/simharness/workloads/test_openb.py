"""Pods and nodes of openb as a workload, and their replay."""

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from makeway.policies.model import JobKind, Resources
from makeway.simharness.run.experiment import Experiment
from makeway.simharness.run.loading import load_workload
from makeway.simharness.workloads.openb import OPENB_NODES, is_openb, read_nodes, read_pods
from makeway.simharness.workloads.swf import TraceError
from tests.simharness.cli.test_replay import Makeway, makeway

__all__ = ["makeway"]

PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,\
deletion_time,scheduled_time
p3,12500,1024,2,1000,V100M16,LS,Running,30,130,50
p1,500,512,1,460,,BE,Failed,0,900,0
p2,4000,2048,1,1000,T4|P100,Guaranteed,Running,10,510,10
p4,1000,512,0,0,,BE,Pending,40,90,
p5,1000,512,0,0,,BE,Running,40,40,40
"""
NODES = """sn,cpu_milli,memory_mib,gpu,model
a,32000,65536,0,
b,64000,262144,8,V100M16
c,96000,393216,8,G2
d,96000,393216,8,G2
"""


def written(folder: Path, text: str, name: str = "pods.csv.gz") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def test_a_pod_is_a_job_on_one_node(tmp_path: Path) -> None:
    for name in ("pods.csv", "pods.csv.gz"):
        pods = read_pods(written(tmp_path, PODS, name))
        assert [
            (job.job_id, job.submit_s, job.runtime_s, job.walltime_s, job.node_count, job.queue)
            for job in pods.jobs
        ] == [
            ("p1", 0, 900, 900, 1, "BE"),
            ("p2", 10, 500, 500, 1, "Guaranteed"),
            ("p3", 30, 80, 80, 1, "LS"),
        ]
        assert [job.demand for job in pods.jobs] == [
            Resources.of({"cpu": 1, "mem": 512, "gres/gpu": 1}),
            Resources.of({"cpu": 4, "mem": 2048, "gres/gpu": 1}),
            Resources.of({"cpu": 13, "mem": 1024, "gres/gpu": 2, "gres/gpu:V100M16": 2}),
        ]
        assert (pods.dropped, pods.bad) == (2, 0)


def test_nodes_have_typed_gpus_and_may_be_chosen(tmp_path: Path) -> None:
    path = written(tmp_path, NODES, "nodes.csv")
    big = Resources.of({"cpu": 96, "mem": 393216, "gres/gpu": 8, "gres/gpu:G2": 8})
    every = read_nodes(path)
    assert (len(every), every[0], every[2]) == (4, Resources.of({"cpu": 32, "mem": 65536}), big)
    assert read_nodes(path, model="G2") == (big, big)
    assert read_nodes(path, model="G2", count=1) == (big,)
    with pytest.raises(TraceError, match="2 nodes with model G2; accepted: 3 or more, of the models G2, V1"):
        read_nodes(path, model="G2", count=3)
    with pytest.raises(TraceError, match="0 nodes with model A100"):
        read_nodes(path, model="A100")
    only_names = written(tmp_path, NODES.splitlines()[0] + "\n", "no_nodes.csv")
    with pytest.raises(TraceError, match=r"it has 0 nodes; accepted: 1 or more$"):
        read_nodes(only_names)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("12500", "many", "line 2: cpu_milli: 'many'; accepted: a number from 0"),
        ("12500", "1.5", "line 2: cpu_milli: '1.5'; accepted: a whole number"),
        ("900,0", "nan,0", "line 3: deletion_time: 'nan'"),
        ("qos", "class", "no column qos"),
        ("p3", "", "line 2: name: ''; accepted: a name"),
        ("p4", " ", "line 5: name: ''; accepted: a name"),
    ],
)
def test_damage_is_named_with_file_line_and_column(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = written(tmp_path, PODS.replace(old, new, 1), "pods.csv")
    with pytest.raises(TraceError, match=words) as found:
        read_pods(path)
    assert str(path) in str(found.value)


def test_damaged_lines_may_be_skipped(tmp_path: Path) -> None:
    pods = read_pods(written(tmp_path, PODS.replace("12500", "many")), skip_bad=True)
    assert (len(pods.jobs), pods.bad) == (2, 1)
    with pytest.raises(TraceError, match="no pod that ran"):
        read_pods(written(tmp_path, "\n".join(PODS.splitlines()[:1]), "empty.csv"))


def cut_off(folder: Path) -> Path:
    """A list of 2,000 pods, of which the second half of the compressed file is missing."""
    rows = [f"q{n},9000,{n * 7919 % 4096},0,0,,BE,Running,{n},{n + 900},{n}" for n in range(2000)]
    packed = gzip.compress("\n".join([*PODS.splitlines()[:1], *rows]).encode())
    path = folder / "cut.csv.gz"
    path.write_bytes(packed[: len(packed) // 2])
    return path


def test_a_stream_that_breaks_off_gives_the_pods_before_on_request(makeway: Makeway, tmp_path: Path) -> None:
    path = cut_off(tmp_path)
    complaint = r"cut.csv.gz, line \d+: the gzip stream breaks off here; accepted: a whole file"
    with pytest.raises(TraceError, match=complaint):
        read_pods(path)
    pods = read_pods(path, skip_bad=True)
    assert pods.bad == 1
    assert 500 < len(pods.jobs) < 1500
    assert [job.job_id for job in pods.jobs] == [f"q{number}" for number in range(len(pods.jobs))]
    _, errors = makeway("replay", path, "--skip-bad", "--policy", "none")
    assert "makeway: 1 damaged line skipped\n" in errors
    with pytest.raises(TraceError, match="it has no column sn"):
        read_nodes(path)


def test_a_row_that_breaks_off_is_damaged_and_not_a_pod_that_never_ran(tmp_path: Path) -> None:
    path = written(tmp_path, PODS[: PODS.rindex("Running")], "cut.csv")
    with pytest.raises(TraceError, match="line 6: 8 of 11 columns; accepted: what the header names"):
        read_pods(path)
    pods = read_pods(path, skip_bad=True)
    assert (len(pods.jobs), pods.dropped, pods.bad) == (3, 1, 1)


def test_a_quote_that_does_not_end_is_damage(tmp_path: Path) -> None:
    path = written(tmp_path, PODS.replace("p2,", '"p2,') + "x" * 200_000, "quoted.csv")
    with pytest.raises(TraceError, match=r"quoted.csv, line \d: field larger than field limit"):
        read_pods(path)
    pods = read_pods(path, skip_bad=True)
    assert (len(pods.jobs), pods.bad) == (2, 1)


def test_pods_of_one_name_are_jobs_of_their_own(makeway: Makeway, tmp_path: Path) -> None:
    rows = PODS.replace("p1,", "p2.2,").replace("p3,12500", "p2,1000")
    path = written(tmp_path, f"{rows}p2,1000,512,0,0,,BE,Running,50,70,60\n")
    assert [job.job_id for job in read_pods(path).jobs] == ["p2.2", "p2.3", "p2", "p2.4"]
    makeway("replay", path, "--node", "cpu=20,mem=8G,gres/gpu=2,gres/gpu:V100M16=2")


def test_pods_of_which_none_fits_are_refused(makeway: Makeway, tmp_path: Path) -> None:
    line = makeway.refuses("replay", written(tmp_path, PODS), "--node", "cpu=1", "--nodes", "1")
    assert "no pod that can run (0 damaged, 2 that never ran, 3 larger than a node)" in line
    assert line.endswith("accepted: pods that fit on 1 node of cpu=1")


def test_pods_larger_than_a_node_are_called_so_and_amounts_as_they_were_given(
    makeway: Makeway, tmp_path: Path
) -> None:
    options = ("--node", "cpu=8,mem=8G,gres/gpu=1", "--nodes", 2, "--policy", "none")
    _, errors = makeway("replay", written(tmp_path, PODS), *options)
    assert "makeway: 1 job larger than a node left out: p3\n" in errors
    assert "openb pods on 2 nodes of cpu=8,gres/gpu=1,mem=8G;" in errors


def test_a_file_is_known_by_its_first_line(tmp_path: Path) -> None:
    assert is_openb(written(tmp_path, PODS))
    assert not is_openb(written(tmp_path, NODES, "nodes.csv"))
    assert not is_openb(tmp_path / "none.csv")
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(PODS.encode())[:8])
    assert not is_openb(cut)


def test_ls_is_urgent_and_be_may_be_evicted_unless_classes_are_given(tmp_path: Path) -> None:
    path = str(written(tmp_path, PODS))
    nodes = written(tmp_path, NODES, "nodes.csv")
    workload = load_workload(Experiment(trace=path, node_list=nodes))
    assert [(job.job_id, job.kind, job.preemptible) for job in workload.jobs] == [
        ("p1", JobKind.RIGID, True),
        ("p2", JobKind.RIGID, False),
        ("p3", JobKind.ON_DEMAND, False),
    ]
    assert "1 node of cpu=32,mem=64G" in workload.reading
    untyped = load_workload(Experiment(trace=path))
    assert untyped.impossible == (("p3", 1),)
    assert untyped.sharing is not None
    assert untyped.sharing.capacities == OPENB_NODES


def test_a_replay_of_pods_measures_gpu_hours(makeway: Makeway, tmp_path: Path) -> None:
    """On a node of 2 GPUs the urgent pod takes both: the best-effort pod leaves, the guaranteed one ends."""
    text = PODS.replace("p2,4000,2048,1", "p2,4000,2048,0").replace("V100M16", "")
    path = written(tmp_path, text)
    options = ("--node", "cpu=20,mem=8G,gres/gpu=2", "--nodes", 1, "--start-within", "60s")
    out, err = makeway("replay", path, *options, "--policy", "none", "--policy", "eviction", "--json", "-")
    without, evicted = (one["numbers"] for one in json.loads(out)["replays"])
    assert "a share of a GPU counts as a whole one" in err
    assert (without["on_demand.on_time"], evicted["on_demand.on_time"]) == (0, 1)
    assert evicted["all.lost_gpu_hours"] == pytest.approx(30 / 3600)
    assert evicted["all.lost_core_hours"] == pytest.approx(30 / 3600)
    assert evicted["all.lost_node_hours"] == pytest.approx(0.5 * 30 / 3600)
    assert without["all.lost_gpu_hours"] == 0.0
    out, _ = makeway("replay", path, *options, "--csv", "-")
    assert next(csv.DictReader(io.StringIO(out)))["all.lost_gpu_hours"] == "0.0"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--unit", "node"), "--unit does not go with openb pods"),
        (("--node-model", "G2"), "--node-model does not go with openb pods without --node-list"),
        (("--node-list", "missing.csv"), "missing.csv"),
        (("--workload", "W5"), "malleable"),
    ],
)
def test_options_that_do_not_go_with_pods_are_refused(
    makeway: Makeway, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    assert words in makeway.refuses("replay", written(tmp_path, PODS), *options)


@pytest.mark.shared
def test_the_whole_trace_is_read(shared_traces: Path) -> None:
    pods = read_pods(shared_traces / "openb-2023-pods.csv.gz")
    assert (len(pods.jobs) + pods.dropped, pods.bad) == (8152, 0)
    assert pods.dropped == 897
    nodes = read_nodes(shared_traces / "openb-2023-nodes.csv.gz")
    assert (len(nodes), sum(node.amount("gres/gpu") for node in nodes)) == (1523, 6212)
    assert OPENB_NODES[0].amount("cpu") == read_nodes(
        shared_traces / "openb-2023-nodes.csv.gz", model="G2", count=1
    )[0].amount("cpu")
