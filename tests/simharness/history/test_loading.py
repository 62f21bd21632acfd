"""From an export to a workload."""

from dataclasses import replace
from pathlib import Path

import pytest

from makeway.adapters.slurm.accounting.rows import NEEDED
from makeway.policies.model import JobKind, Resources
from makeway.simharness.engine.shared.nodes import SharingSettings
from makeway.simharness.history.loading import NO_LIMIT_S, PastPeriod, load_history, notes
from makeway.simharness.history.source import HistoryError, HistorySource
from makeway.simharness.workloads.classes import parse_class
from makeway.simharness.workloads.job import SimJob, WorkloadError
from tests.adapters.slurm.accounting.test_recorded import RECORDED

HEADER = ";".join(NEEDED)
BASE_S = 1_000_000
CONFIG = """
adapter:
  type: slurm
  classes:
  - {name: urgent, qos: [urgent], kind: on_demand, start_within_s: 60}
  - {name: saving, accounts: [saving], preemptible: true, setup_s: 20,
     checkpoint: {interval_s: 100, application_s: 5, system_s: 7}}
  - {name: growing, accounts: [growing], preemptible: true, kind: malleable, node_count_min: 2}
limits: {protected_users: [bob]}
policy: {name: n-spaa}
"""


def row(job: int, *, eligible: int, start: int, end: int, **cells: str) -> str:
    """A run of a job that takes two CPUs on each of two nodes; times count from `BASE_S`."""
    values = {
        "JobID": str(job),
        "JobIDRaw": str(job),
        "User": "bob",
        "Account": "physics",
        "Partition": "batch",
        "QOS": "normal",
        "State": "COMPLETED",
        "Submit": str(BASE_S + eligible),
        "Eligible": str(BASE_S + eligible),
        "Start": str(BASE_S + start),
        "End": str(BASE_S + end),
        "ElapsedRaw": str(end - start),
        "TimelimitRaw": "60",
        "NNodes": "2",
        "AllocTRES": "billing=4,cpu=4,mem=3000M,node=2",
    }
    return ";".join((values | cells).values())


@pytest.fixture
def source(tmp_path: Path) -> HistorySource:
    return HistorySource(
        exports=(tmp_path / "jobs.txt",),
        node_count=4,
        node=(("cpu", 4), ("mem", 4000)),
        classes=(parse_class("urgent:queue=urgent"),),
        from_s=float(BASE_S),
    )


def load(source: HistorySource, *rows: str) -> PastPeriod:
    source.exports[0].write_text("\n".join([HEADER, *rows]) + "\n")
    return load_history(source)


def jobs(history: PastPeriod) -> dict[str, SimJob]:
    return {job.job_id: job for job in history.workload.jobs}


URGENT = row(9, eligible=50, start=80, end=90, QOS="urgent")


def test_a_job_as_it_ran(source: HistorySource) -> None:
    history = load(source, row(1, eligible=10, start=30, end=130), URGENT)
    job = jobs(history)["1"]
    assert (job.submit_s, job.runtime_s, job.walltime_s, job.node_count) == (10.0, 100.0, 3600.0, 2)
    assert job.demand == Resources.of({"cpu": 2, "mem": 1500})
    assert (job.user, job.account, job.queue, job.partition) == ("bob", "physics", "normal", "batch")
    assert (job.kind, job.preemptible) == (JobKind.RIGID, True)
    assert history.past["1"].wait_s == 20.0
    assert jobs(history)["9"].kind is JobKind.ON_DEMAND
    assert history.from_s == BASE_S


def test_a_job_without_a_limit_and_one_that_ran_beyond_it(source: HistorySource) -> None:
    history = load(
        source,
        row(1, eligible=0, start=0, end=100, TimelimitRaw="UNLIMITED"),
        row(2, eligible=0, start=0, end=5000, TimelimitRaw="1"),
        URGENT,
    )
    assert jobs(history)["1"].walltime_s == NO_LIMIT_S
    assert jobs(history)["2"].walltime_s == 5000.0


def test_jobs_from_before_began_when_they_did(source: HistorySource) -> None:
    history = load(
        source,
        row(1, eligible=-500, start=-400, end=200),
        row(2, eligible=-100, start=50, end=150),
        URGENT,
    )
    running, waiting = jobs(history)["1"], jobs(history)["2"]
    assert (running.submit_s, running.runtime_s, running.walltime_s) == (-400.0, 600.0, 3600.0)
    assert waiting.runtime_s == 100.0
    assert running.submit_s < waiting.submit_s < 0
    assert history.left_out.before == 2


@pytest.mark.parametrize(("elapsed_s", "submit_s"), [(300, -299.0), (2, -2.0), (1, -2.0)])
def test_a_suspended_job_from_before_has_a_second_left(
    source: HistorySource, elapsed_s: int, submit_s: float
) -> None:
    running = row(1, eligible=-500, start=-400, end=200, ElapsedRaw=str(elapsed_s))
    history = load(source, running, row(2, eligible=-100, start=50, end=150), URGENT)
    job = jobs(history)["1"]
    assert (job.submit_s, job.runtime_s) == (submit_s, elapsed_s)
    assert job.submit_s < jobs(history)["2"].submit_s


@pytest.mark.parametrize(
    ("account", "runs", "submit_s", "runtime_s"),
    [
        # It has run for 300 s of its last run.
        ("physics", ((-900, -800), (-300, 700)), -300.0, 1000.0),
        ("saving", ((-900, -800), (-300, 700)), -300.0, 1000.0),
        # It has run for 100 s of an earlier run. One that saves has the other 200 s of it, then the last run,
        # without its setup.
        ("physics", ((-100, 200), (500, 1500)), -100.0, 1000.0),
        ("saving", ((-100, 200), (500, 1500)), -100.0, 300.0 + 1000.0 - 20.0),
        # It waits between two runs.
        ("physics", ((-900, -800), (100, 1100)), -1.0, 1000.0),
        ("saving", ((-900, -800), (100, 1100)), -1.0, 1000.0),
    ],
)
def test_a_requeued_job_from_before_is_in_the_run_that_it_was_in(
    source: HistorySource,
    tmp_path: Path,
    account: str,
    runs: tuple[tuple[int, int], tuple[int, int]],
    submit_s: float,
    runtime_s: float,
) -> None:
    config = tmp_path / "makeway.yaml"
    config.write_text(CONFIG)
    (first, end), (again, last) = runs
    history = load(
        replace(source, classes=(), config=config),
        row(1, eligible=-1000, start=first, end=end, State="REQUEUED", Account=account),
        row(1, eligible=end, start=again, end=last, Account=account),
        URGENT,
    )
    job = jobs(history)["1"]
    assert (job.submit_s, job.runtime_s, job.walltime_s) == (submit_s, runtime_s, 3600.0)


def test_jobs_that_ended_before_the_measured_time_are_left_out(source: HistorySource) -> None:
    history = load(source, row(1, eligible=-500, start=-400, end=-100), *requeued_before(), URGENT)
    assert set(jobs(history)) == {"9"}
    assert history.left_out.earlier == 2
    assert "jobs left out, because they ended before the measured time: 2" in notes(history)


def requeued_before() -> tuple[str, str]:
    first = row(2, eligible=-500, start=-400, end=-300, State="REQUEUED")
    return first, row(2, eligible=-300, start=-200, end=-1)


def test_the_measured_time_begins_with_the_first_end(source: HistorySource) -> None:
    history = load(
        replace(source, from_s=None),
        row(1, eligible=-9, start=-8, end=20),
        row(2, eligible=30, start=30, end=40),
        URGENT,
    )
    assert history.from_s == BASE_S + 20
    assert jobs(history)["2"].submit_s == 10.0


def test_what_is_left_out_is_counted(source: HistorySource) -> None:
    never = {"Start": "None", "ElapsedRaw": "0", "AllocTRES": ""}
    history = load(
        replace(source, to_s=BASE_S + 1000.0),
        row(1, eligible=0, start=0, end=0, **never),
        row(2, eligible=0, start=0, end=0, QOS="urgent", **never),
        row(3, eligible=0, start=0, end=0),
        row(4, eligible=1000, start=1000, end=1010),
        row(5, eligible=0, start=0, end=10, NNodes="9", AllocTRES="cpu=9"),
        row(6, eligible=0, start=0, end=10, NNodes="1", AllocTRES="cpu=1,gres/gpu=1"),
        row(7, eligible=0, start=5, end=25, End="Unknown", State="RUNNING"),
        URGENT,
    )
    left_out = history.left_out
    assert (left_out.never_started, left_out.urgent_never_started) == (2, 1)
    assert (left_out.too_short, left_out.later, left_out.running) == (1, 1, 1)
    assert history.workload.impossible == (("5", 9), ("6", 1))
    assert set(jobs(history)) == {"7", "9"}
    assert jobs(history)["7"].runtime_s == 20.0
    assert notes(history) == [
        "jobs that end with the export, because they still ran: 1",
        "jobs left out, because they never started: 2",
        "urgent ones among these: 1",
        "jobs left out, because they ran for less than a second: 1",
        "jobs left out, because they could start only after the measured time: 1",
        "jobs left out, because they need more than the machine has: 2",
    ]


def test_a_job_of_several_partitions_that_never_started(source: HistorySource, tmp_path: Path) -> None:
    never = {"Start": "None", "ElapsedRaw": "0", "AllocTRES": "", "Partition": "batch,fast"}
    rows = (row(1, eligible=0, start=0, end=0, **never), row(2, eligible=0, start=0, end=9, Partition="fast"))
    by_option = replace(source, classes=(parse_class("urgent:partition=fast"),), partition="fast")
    assert load(by_option, *rows).left_out.urgent_never_started == 1
    config = tmp_path / "makeway.yaml"
    config.write_text(CONFIG.replace("qos: [urgent]", "partitions: [fast]"))
    assert load(replace(source, classes=(), config=config), *rows).left_out.urgent_never_started == 1


def requeued(account: str) -> tuple[str, str]:
    first = row(1, eligible=0, start=0, end=50, State="REQUEUED", Account=account)
    return first, row(1, eligible=50, start=100, end=160, Account=account)


def test_a_requeued_job_begins_anew_unless_it_can_save_its_work(
    source: HistorySource, tmp_path: Path
) -> None:
    config = tmp_path / "makeway.yaml"
    config.write_text(CONFIG)
    source = replace(source, classes=(), config=config)
    plain = load(source, *requeued("physics"), URGENT)
    assert jobs(plain)["1"].runtime_s == 60.0
    # 1500 of 4000 MB on two nodes are the larger share of a node than two of four CPUs: no, CPUs are.
    assert plain.past["1"].requeued_node_s == pytest.approx(50 * 2 * 0.5)
    saving = load(source, *requeued("saving"), URGENT)
    assert jobs(saving)["1"].runtime_s == 60.0 + (50.0 - 20.0)
    assert saving.past["1"].requeues == 1


def test_classes_of_a_configuration(source: HistorySource, tmp_path: Path) -> None:
    config = tmp_path / "makeway.yaml"
    config.write_text(CONFIG)
    source = replace(source, classes=(), config=config)
    rows = (
        row(1, eligible=0, start=0, end=100),
        row(2, eligible=0, start=0, end=100, Account="saving"),
        row(3, eligible=0, start=0, end=100, Account="growing"),
        URGENT,
    )
    found = jobs(load(source, *rows))
    assert not found["1"].preemptible
    saving = found["2"]
    assert (saving.preemptible, saving.setup_s, saving.save_s) == (True, 20.0, 7.0)
    assert (saving.checkpoint_interval_s, saving.checkpoint_cost_s) == (100.0, 5.0)
    assert (found["9"].kind, found["9"].start_within_s) == (JobKind.ON_DEMAND, 60.0)
    assert found["3"].kind is JobKind.RIGID
    whole = jobs(load(replace(source, node=None), *rows))["3"]
    assert (whole.kind, whole.node_count_min, whole.demand) == (JobKind.MALLEABLE, 2, None)


def test_the_replay_sees_names_that_are_hidden_later(source: HistorySource) -> None:
    first = jobs(load(replace(source, salt="pepper"), URGENT))["9"]
    assert (first.user, first.account) == ("bob", "physics")


def test_a_partition_of_the_recorded_machine(tmp_path: Path) -> None:
    folder = RECORDED / "22.05"
    source = HistorySource(
        exports=(folder / "jobs.txt",),
        machine=folder / "machine.txt",
        classes=(parse_class("urgent:group=urgent"),),
    )
    history = load_history(source)
    gpu = [job for job in history.workload.jobs if job.partition == "gpu"]
    assert len(gpu) == 2
    sharing = history.workload.sharing
    assert sharing is not None
    assert all(sharing.able_count(job.demand) == 1 for job in gpu if job.demand is not None)
    only = load_history(replace(source, partition="gpu", classes=(parse_class("evictable:partition=gpu"),)))
    assert (only.workload.node_count, len(only.workload.jobs)) == (1, 2)
    assert not any("scontrol hides" in line for line in notes(history))


def test_equal_jobs_are_compared_with_the_nodes_once(
    source: HistorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Resources] = []
    compare = SharingSettings.able_count

    def able_count(self: SharingSettings, demand: Resources) -> int:
        asked.append(demand)
        return compare(self, demand)

    monkeypatch.setattr(SharingSettings, "able_count", able_count)
    load(source, *(row(number, eligible=0, start=0, end=10) for number in range(100, 150)), URGENT)
    assert asked == [Resources.of({"cpu": 2, "mem": 1500})]


def test_nodes_that_the_machine_lacks_are_counted(tmp_path: Path) -> None:
    folder, machine = RECORDED / "22.05", tmp_path / "machine.txt"
    lines = (folder / "machine.txt").read_text().splitlines()
    machine.write_text(
        "\n".join(line for line in lines if not line.startswith(("NodeName=n2 ", "NodeName=n3 ")))
    )
    source = HistorySource(
        exports=(folder / "jobs.txt",), machine=machine, classes=(parse_class("urgent:group=urgent"),)
    )
    history = load_history(source)
    assert history.workload.node_count == 4
    words = "nodes that the machine lacks here, because scontrol hides them, such as sleeping cloud nodes: 2"
    assert words in notes(history)
    gpu = replace(source, partition="gpu", classes=(parse_class("evictable:partition=gpu"),))
    assert load_history(gpu).left_out.unseen_nodes == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node_count": None, "node": None}, "the machine is not known; accepted: --machine FILE"),
        ({"classes": ()}, "no job is urgent without a class"),
        ({"machine": Path("absent")}, "--machine and --nodes exclude each other"),
        (
            {"machine": Path("absent"), "node_count": None, "node": None},
            "absent: cannot be read: No such file",
        ),
        (
            {"exports": (Path("absent"),)},
            "absent: cannot be read: No such file or directory; accepted: a file that sacct",
        ),
        ({"zone": "Mars/Olympus"}, "--time-zone Mars/Olympus: accepted: a name such as"),
    ],
)
def test_what_cannot_be_used(source: HistorySource, change: dict[str, object], message: str) -> None:
    source.exports[0].write_text(f"{HEADER}\n{URGENT}\n")
    with pytest.raises(HistoryError, match=message):
        load_history(replace(source, **change))  # type: ignore[arg-type]


@pytest.mark.parametrize("total", ["gres/gpu=2,", ""])
def test_types_of_gpus_do_not_count_on_a_machine_without_types(source: HistorySource, total: str) -> None:
    held = f"billing=4,cpu=4,mem=3000M,{total}gres/gpu:a100=2,node=1"
    taken = row(1, eligible=10, start=30, end=130, NNodes="1", AllocTRES=held)
    options = (("cpu", 4), ("mem", 4000))
    plain = load(replace(source, node=(*options, ("gres/gpu", 2))), taken, URGENT)
    assert not plain.workload.impossible
    assert jobs(plain)["1"].demand == Resources.of({"cpu": 4, "mem": 3000, "gres/gpu": 2})
    typed = load(replace(source, node=(*options, ("gres/gpu:a100", 2))), taken, URGENT)
    demand = jobs(typed)["1"].demand
    assert demand is not None
    assert demand.amount("gres/gpu:a100") == 2
    other = load(replace(source, node=(*options, ("gres/gpu:t4", 2))), taken, URGENT)
    assert other.workload.impossible == (("1", 1),)


def test_hidden_names_are_not_in_a_complaint(source: HistorySource) -> None:
    rows = row(1, eligible=10, start=30, end=130), URGENT
    asked = replace(source, classes=(parse_class("urgent:user=zoe"),))
    with pytest.raises(WorkloadError, match="the workload has bob"):
        load(asked, *rows)
    with pytest.raises(WorkloadError) as refused:
        load(replace(asked, salt="key"), *rows)
    assert "bob" not in str(refused.value)
    assert str(refused.value).startswith("--class urgent:user=zoe: no job has this user; accepted: ")


def test_the_file_and_the_line_are_named(source: HistorySource) -> None:
    with pytest.raises(HistoryError, match=r"jobs\.txt: line 3: ElapsedRaw 'long'; accepted: a whole number"):
        load(source, URGENT, row(1, eligible=0, start=0, end=1, ElapsedRaw="long"))


def test_a_period_without_jobs_is_refused(source: HistorySource) -> None:
    rows = row(1, eligible=10, start=30, end=130), row(2, eligible=10, start=30, end=30, NNodes="1")
    later = replace(source, from_s=BASE_S + 1000.0)
    message = "no job is left to replay: 1 ended before the measured time, 1 ran for less than a second"
    with pytest.raises(HistoryError, match=f"jobs.txt: {message}; accepted: an export of jobs that ran"):
        load(later, *rows)


def test_urgent_jobs_from_before_are_not_measured(source: HistorySource) -> None:
    history = load(source, row(9, eligible=-50, start=80, end=90, QOS="urgent"))
    assert "no job of the measured time is urgent: see the classes" in notes(history)


def test_a_byte_order_mark_is_skipped(source: HistorySource) -> None:
    source.exports[0].write_text(f"\ufeff{HEADER}\n{URGENT}\n", encoding="utf-8")
    assert set(jobs(load_history(source))) == {"9"}
