"""The adapter's logic on scripted answers; `tests/slurm` proves it on a real Slurm."""

from collections.abc import Callable, Mapping

import pytest

from makeway.adapters import slurm_build as build
from makeway.adapters.command import CompletedCommand
from makeway.adapters.protocol import Gone, Rejected, Unavailable, Unreadable, Unsupported
from makeway.adapters.slurm_cli import SlurmCliAdapter
from makeway.adapters.slurm_settings import JobClass, SlurmSettings
from makeway.policies.model import JobKind, SignalTarget
from tests.adapters.test_slurm_parse import ROW

NODES = "\n".join(
    f"NodeName=n{number} CPUTot=2 RealMemory=1000 State=IDLE ActiveFeatures=(null) Gres=(null) Partitions=batch"
    for number in range(1, 9)
)
PARTITIONS = "PartitionName=batch State=UP"
NO_RESERVATIONS = "No reservations in the system"
NOW_S = 1_795_250_000.0
RUNNING = ROW | {
    "State": "RUNNING",
    "Reason": "None",
    "NodeList": "n[1-2]",
    "BatchHost": "n1",
    "StartTime": "1795249000",
}
SETTINGS = SlurmSettings(
    classes=(
        JobClass(name="urgent", qos=frozenset({"urgent"}), kind=JobKind.ON_DEMAND),
        JobClass(name="batch", kind=JobKind.MALLEABLE, preemptible=True, node_count_min=1),
    )
)
Answer = tuple[int, str, str]
OK: Answer = (0, "", "")


class FakeSlurm:
    """Answers squeue and the reading scontrol from tables, and everything else from a script.

    `rows` are the jobs; `script` gives the answers to the other commands, in order, and then always yes.
    """

    def __init__(
        self, *rows: dict[str, str], release: str = "24.11.5", script: tuple[Answer, ...] = ()
    ) -> None:
        self.rows = list(rows)
        self.release = release
        self.script = list(script)
        self.parameters = "bf_interval=1,permit_job_expansion"
        self.calls: list[tuple[str, ...]] = []
        self.inputs: list[bytes] = []
        self.squeue_answer: Answer | None = None
        self.change: Callable[[list[str]], list[str]] = lambda lines: lines
        """What happens to the lines of the second command of a snapshot."""

    def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout_s: float | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> CompletedCommand:
        self.calls.append(argv)
        status, stdout, stderr = self._answer(argv, stdin, environment or {})
        return CompletedCommand(argv=argv, returncode=status, stdout=stdout, stderr=stderr)

    @property
    def acts(self) -> list[tuple[str, ...]]:
        """The commands that were no reading."""
        return [
            argv
            for argv in self.calls
            if argv[0] != "squeue" and argv not in (build.show_config(), build.show_cluster())
        ]

    def _answer(self, argv: tuple[str, ...], stdin: bytes, environment: Mapping[str, str]) -> Answer:
        if argv == build.show_config():
            text = (
                f"ClusterName = c\nSLURM_VERSION = {self.release}\nSchedulerParameters = {self.parameters}\n"
            )
            return 0, text, ""
        if argv == build.show_cluster():
            self.inputs.append(stdin)
            return 0, self._shown(stdin.decode().splitlines()), ""
        if argv[0] == "squeue":
            return self.squeue_answer or (0, self._listed(argv, environment), "")
        return self.script.pop(0) if self.script else OK

    def _listed(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> str:
        cells = [cell.partition(":0") for cell in environment["SQUEUE_FORMAT2"].split(",")]
        (wanted,) = [word.removeprefix("--jobs=") for word in argv if word.startswith("--jobs=")] or [""]
        (bound,) = [
            word.removeprefix("--reservation=") for word in argv if word.startswith("--reservation=")
        ] or [""]
        return "".join(
            "".join(f"{row.get(field, '')}{token}" for field, _, token in cells) + "\n"
            for row in self.rows
            if wanted in {"", row["JobArrayID"]} and bound in {"", row["Reservation"]}
        )

    def _shown(self, script: list[str]) -> str:
        lines: list[str] = []
        for line in script:
            lines.append(f"scontrol: {line}")
            word = line.split()[-1]
            if line.startswith("show hostnames"):
                lines.append(word)
            else:
                known = {"nodes": NODES, "partitions": PARTITIONS, "reservations": NO_RESERVATIONS}
                lines.append(known.get(word, f"JobId={word} JobName=x ExcNodeList=n[1-2] NodeList= Comment="))
        return "\n".join(self.change(lines)) + "\n"


def adapter_of(slurm: FakeSlurm) -> SlurmCliAdapter:
    return SlurmCliAdapter(SETTINGS, runner=slurm, now=lambda: NOW_S)


# Reading


def test_a_snapshot_is_two_commands_whatever_the_number_of_jobs() -> None:
    slurm = FakeSlurm(*(ROW | {"JobArrayID": str(number)} for number in range(500)))
    adapter = adapter_of(slurm)
    assert adapter.capabilities.name == "c, Slurm 24.11.5"
    slurm.calls.clear()
    cluster = adapter.snapshot()
    assert len(cluster.jobs) == 500
    assert (len(cluster.nodes), cluster.now_s, cluster.reservations) == (8, NOW_S, ())
    assert [argv[0] for argv in slurm.calls] == ["squeue", "scontrol"]
    assert slurm.acts == []


def test_jobs_that_are_over_are_in_no_snapshot() -> None:
    slurm = FakeSlurm(ROW | {"State": "COMPLETED"}, RUNNING | {"JobArrayID": "18"})
    assert [job.job_id for job in adapter_of(slurm).snapshot().jobs] == ["18"]


def test_the_nodes_that_urgent_jobs_exclude_are_read_otherwise_on_22_05() -> None:
    urgent = ROW | {"QOS": "urgent", "JobArrayID": "21"}
    slurm = FakeSlurm(urgent, ROW, release="22.05.8")
    jobs = adapter_of(slurm).snapshot().jobs_by_id()
    assert jobs["21"].eligible_nodes == frozenset({"n3", "n4", "n5", "n6", "n7", "n8"})
    assert jobs["17"].eligible_nodes is None
    assert slurm.inputs[-1].count(b"show job") == 1


def test_on_later_releases_squeue_tells_the_excluded_nodes() -> None:
    slurm = FakeSlurm(ROW | {"QOS": "urgent", "ExcNodes": "n8"})
    (job,) = adapter_of(slurm).snapshot().jobs
    assert job.eligible_nodes == frozenset({f"n{number}" for number in range(1, 8)})
    assert b"show job" not in slurm.inputs[-1]


def test_an_exclusive_job_is_not_shrunk_on_22_05() -> None:
    slurm = FakeSlurm(RUNNING | {"OverSubscribe": "NO"}, release="22.05.8")
    adapter = adapter_of(slurm)
    assert adapter.snapshot().jobs[0].kind is JobKind.RIGID
    with pytest.raises(Rejected, match="exclusive"):
        adapter.shrink("17", keep_nodes=("n1",), walltime_s=7200)
    assert slurm.acts == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"), Unavailable),
        ((1, "", "slurm_load_jobs error: Access/permission denied"), Rejected),
        ((0, "half a", ""), Unreadable),
        ((0, "", "squeue: error: Invalid job format specification: Comment"), Unreadable),
    ],
)
def test_half_a_view_is_none(answer: Answer, error: type[Exception]) -> None:
    slurm = FakeSlurm(RUNNING)
    slurm.squeue_answer = answer
    with pytest.raises(error):
        adapter_of(slurm).snapshot()


def without(part: str) -> Callable[[list[str]], list[str]]:
    return lambda lines: [line for line in lines if part not in line]


@pytest.mark.parametrize("part", ["-end", "NodeName=", "NodeName=n2 ", "PartitionName=", NO_RESERVATIONS])
def test_a_second_command_that_lacks_something_spoils_the_snapshot(part: str) -> None:
    slurm = FakeSlurm(RUNNING)
    slurm.change = without(part)
    with pytest.raises(Unreadable):
        adapter_of(slurm).snapshot()


def test_a_controller_that_does_not_answer_first_is_asked_again() -> None:
    slurm = FakeSlurm(RUNNING)
    slurm.release = "x"
    adapter = adapter_of(slurm)
    with pytest.raises(Unreadable):
        adapter.snapshot()
    slurm.release = "26.05.5"
    assert adapter.snapshot().jobs


# Verbs


def test_a_verb_looks_before_it_acts() -> None:
    slurm = FakeSlurm(RUNNING, ROW | {"JobArrayID": "30"})
    adapter = adapter_of(slurm)
    for_running: dict[str, Callable[[str], None]] = {
        "checkpoint": lambda job_id: adapter.checkpoint(job_id, signal="USR1", walltime_s=0.0),
        "requeue": adapter.requeue,
        "shrink": lambda job_id: adapter.shrink(job_id, keep_nodes=("n1",), walltime_s=0.0),
    }
    for_pending: dict[str, Callable[[str], None]] = {
        "prioritise": adapter.prioritise,
        "reserve": lambda job_id: adapter.reserve("mw_1", nodes=("n1",), duration_s=60, job_id=job_id),
    }
    for verb, attempt in {**for_running, **for_pending, "cancel": adapter.cancel}.items():
        with pytest.raises(Gone, match="is over"):
            attempt("99")
        assert slurm.acts == [], verb
    for attempt in for_running.values():
        with pytest.raises(Gone, match="does not run"):
            attempt("30")
    for attempt in for_pending.values():
        with pytest.raises(Gone, match="does not wait"):
            attempt("17")
    assert slurm.acts == []


def test_a_time_limit_rises_before_the_signal_and_never_falls() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    adapter.checkpoint("17", signal="USR1", walltime_s=3600)
    assert slurm.acts == [build.signal_batch("17", "USR1")]
    adapter.checkpoint("17", signal="USR2", walltime_s=3661)
    assert slurm.acts[1:] == [build.resize("17", None, 62), build.signal_batch("17", "USR2")]


def test_the_signal_goes_where_it_is_to_go() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    for target in SignalTarget:
        adapter.checkpoint("17", signal="USR2", signal_to=target, walltime_s=0)
    batch, steps = build.signal_batch("17", "USR2"), build.signal_steps("17", "USR2")
    assert slurm.acts == [batch, steps, batch, steps]


def test_a_limit_that_cannot_rise_now_costs_no_checkpoint() -> None:
    later = "Job update not available right now, the DB index is being set, try again in a bit for job 17"
    slurm = FakeSlurm(RUNNING, script=((1, "", later),))
    adapter_of(slurm).checkpoint("17", signal="USR1", walltime_s=7200)
    assert slurm.acts[-1] == build.signal_batch("17", "USR1")
    slurm = FakeSlurm(RUNNING, script=((1, "", "Job has already finished for job 17"),))
    with pytest.raises(Gone):
        adapter_of(slurm).checkpoint("17", signal="USR1", walltime_s=7200)
    assert len(slurm.acts) == 1


def test_a_shrunk_job_is_known_by_its_old_size_until_it_is_requeued() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    adapter.shrink("17", keep_nodes=("n1",), walltime_s=7200)
    assert slurm.acts == [build.resize("17", ("n1",), 120)]
    slurm.rows = [RUNNING | {"NodeList": "n1", "NumNodes": "1"}]
    assert adapter.snapshot().jobs[0].node_count_max == 2
    slurm.rows = [RUNNING | {"NodeList": "n1", "NumNodes": "1", "RestartCnt": "1"}]
    assert adapter.snapshot().jobs[0].node_count_max == 1


def test_a_shrink_that_is_done_is_not_done_again() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    adapter.shrink("17", keep_nodes=("n2", "n1"), walltime_s=1800)
    assert slurm.acts == []
    adapter.shrink("17", keep_nodes=("n2", "n1"), walltime_s=7200)
    assert slurm.acts == [build.resize("17", None, 120)]


def test_a_refusal_keeps_slurm_s_words() -> None:
    later = "Job update not available right now, the DB index is being set, try again in a bit for job 17"
    slurm = FakeSlurm(RUNNING, script=((1, "", later), (1, "", "Invalid node name specified for job 17")))
    adapter = adapter_of(slurm)
    with pytest.raises(Rejected, match="try again in a bit") as refusal:
        adapter.shrink("17", keep_nodes=("n1",), walltime_s=7200)
    assert refusal.value.retryable
    with pytest.raises(Rejected, match="Invalid node name") as refusal:
        adapter.shrink("17", keep_nodes=("n2",), walltime_s=7200)
    assert not refusal.value.retryable


def test_a_reservation_that_cannot_be_bound_is_taken_away_again() -> None:
    slurm = FakeSlurm(ROW, script=(OK, (1, "", "Job has already finished for job 17")))
    with pytest.raises(Gone):
        adapter_of(slurm).reserve("mw_1", nodes=("n3",), duration_s=60, job_id="17")
    assert slurm.acts[-1] == build.delete_reservation("mw_1")


def test_a_reservation_that_is_there_is_changed() -> None:
    slurm = FakeSlurm(ROW, script=((1, "", "Requested reservation overlaps with another reservation"),))
    adapter_of(slurm).reserve("mw_1", nodes=("n3",), duration_s=60, job_id="17")
    update = build.update_reservation("mw_1", nodes=("n3",), duration_s=60, users=("1000",))
    assert slurm.acts[1:] == [update, build.bind("17", "mw_1")]


def test_a_reservation_that_overlaps_says_so() -> None:
    slurm = FakeSlurm(ROW)
    adapter_of(slurm).reserve("mw_1", nodes=("n3",), duration_s=60, job_id="17", overlap=True)
    assert slurm.acts[0][-1] == "Flags=IGNORE_JOBS,NO_HOLD_JOBS_AFTER,PURGE_COMP=1,OVERLAP"


def test_a_reservation_for_an_announced_job_binds_nothing() -> None:
    slurm = FakeSlurm(ROW)
    adapter_of(slurm).reserve("mw_notice-1", nodes=("n3",), duration_s=60, job_id=None, user="ada")
    assert slurm.acts == [
        build.create_reservation("mw_notice-1", nodes=("n3",), duration_s=60, users=("ada",), purge=False)
    ]


@pytest.mark.parametrize("user", [None, "", "-ada", "ada,eve", "ada eve", "+ada", "ada=1", "ada\n"])
def test_a_reservation_is_for_nobody_whose_name_is_no_name(user: str | None) -> None:
    slurm = FakeSlurm(ROW)
    with pytest.raises(Rejected):
        adapter_of(slurm).reserve("mw_notice-1", nodes=("n3",), duration_s=60, job_id=None, user=user)
    assert slurm.acts == []


def test_a_reservation_that_cannot_be_made_is_refused_in_the_words_of_its_making() -> None:
    overlap = (
        1,
        "",
        "Error creating the reservation: Requested reservation overlaps with another reservation",
    )
    slurm = FakeSlurm(ROW, script=(overlap, (1, "", "slurm_update error: Requested reservation is invalid")))
    with pytest.raises(Rejected, match="overlaps"):
        adapter_of(slurm).reserve("mw_1", nodes=("n3",), duration_s=60, job_id="17")


def test_a_job_that_started_elsewhere_while_it_was_bound_is_let_go() -> None:
    slurm = FakeSlurm(ROW)

    class Racing(FakeSlurm):
        def _answer(self, argv: tuple[str, ...], stdin: bytes, environment: Mapping[str, str]) -> Answer:
            if argv[:2] == ("scontrol", "create"):
                self.rows = [RUNNING]
            return super()._answer(argv, stdin, environment)

    slurm = Racing(ROW)
    with pytest.raises(Gone, match="does not wait"):
        adapter_of(slurm).reserve("mw_1", nodes=("n7", "n8"), duration_s=60, job_id="17")
    assert slurm.acts[-2:] == [build.bind("17", None), build.delete_reservation("mw_1")]
    slurm = Racing(ROW)
    adapter_of(slurm).reserve("mw_1", nodes=("n1", "n2"), duration_s=60, job_id="17")
    assert slurm.acts[-1] == build.bind("17", "mw_1")


IN_USE: Answer = (1, "", "delete_reservation ReservationName=mw_1: Requested reservation is in use")


def test_a_reservation_that_is_forgotten_before_its_job_is_bound_is_made_again_later() -> None:
    forgotten = (1, "", "Requested reservation is invalid for job 17")
    slurm = FakeSlurm(ROW, script=(OK, forgotten))
    with pytest.raises(Rejected) as refusal:
        adapter_of(slurm).reserve("mw_1", nodes=("n1",), duration_s=60.0, job_id="17")
    assert refusal.value.retryable


def test_release_unbinds_the_waiting_jobs_first() -> None:
    slurm = FakeSlurm(ROW | {"Reservation": "mw_1"}, script=(IN_USE,))
    adapter_of(slurm).release("mw_1")
    delete = build.delete_reservation("mw_1")
    assert slurm.acts == [delete, build.bind("17", None), delete]


def test_release_waits_for_a_job_that_is_about_to_end() -> None:
    waiting = ROW | {"Reservation": "mw_1", "JobArrayID": "18"}
    completing = RUNNING | {"Reservation": "mw_1", "State": "COMPLETING"}
    slurm = FakeSlurm(waiting, completing, script=(IN_USE,))
    with pytest.raises(Rejected) as refusal:
        adapter_of(slurm).release("mw_1")
    assert refusal.value.retryable
    assert slurm.acts == [build.delete_reservation("mw_1")]


def test_release_lets_the_running_job_run_on_without_it() -> None:
    slurm = FakeSlurm(RUNNING | {"Reservation": "mw_1"}, script=(IN_USE,))
    adapter_of(slurm).release("mw_1")
    assert slurm.acts == [
        build.delete_reservation("mw_1"),
        build.bind(RUNNING["JobArrayID"], None),
        build.delete_reservation("mw_1"),
    ]


def test_release_of_nothing_is_gone() -> None:
    slurm = FakeSlurm(
        script=((1, "", "delete_reservation ReservationName=mw_1: Requested reservation is invalid"),)
    )
    with pytest.raises(Gone):
        adapter_of(slurm).release("mw_1")


def test_prioritise_lifts_the_delay_of_a_requeued_job_alone() -> None:
    slurm = FakeSlurm(ROW)
    adapter_of(slurm).prioritise("17")
    assert slurm.acts == [build.to_front("17", requeued=False, node_count=None)]
    slurm = FakeSlurm(ROW | {"RestartCnt": "2"})
    adapter_of(slurm).prioritise("17")
    assert slurm.acts == [build.to_front("17", requeued=True, node_count=None)]


def test_a_place_is_a_priority_below_the_front_and_changes_nothing_else() -> None:
    slurm = FakeSlurm(ROW | {"RestartCnt": "2"})
    adapter_of(slurm).prioritise("17", place=3)
    assert slurm.acts == [("scontrol", "update", "JobId=17", f"Priority={build.FRONT_PRIORITY - 4}")]


def test_prioritise_gives_a_job_its_size_back() -> None:
    slurm = FakeSlurm(
        ROW | {"RestartCnt": "1", "tres-alloc": "cpu=6,mem=6000M,node=6,billing=6"}, release="22.05.8"
    )
    adapter_of(slurm).prioritise("17")
    assert slurm.acts == [build.to_front("17", requeued=True, node_count=6)]


def test_a_requeue_that_slurm_forgot_is_repeated() -> None:
    ended = RUNNING | {"State": "FAILED", "RestartCnt": "1"}
    slurm = FakeSlurm(ended)
    adapter_of(slurm).requeue_again("17", requeue_count=1)
    assert slurm.acts == [("scontrol", "requeue", "17")]
    slurm = FakeSlurm(RUNNING)
    adapter_of(slurm).requeue_again("17", requeue_count=0)
    assert slurm.acts == [build.requeue("17")]


@pytest.mark.parametrize("rows", [(), (RUNNING | {"State": "CANCELLED", "RestartCnt": "2"},)])
def test_a_requeue_that_slurm_remembers_is_not_repeated(rows: tuple[dict[str, str], ...]) -> None:
    slurm = FakeSlurm(*rows)
    with pytest.raises(Gone):
        adapter_of(slurm).requeue_again("17", requeue_count=1)
    assert slurm.acts == []


@pytest.mark.parametrize("row", [RUNNING, ROW | {"PriorityLong": str(build.PLANNED_PRIORITY - 7)}])
def test_a_job_that_runs_or_has_a_place_gets_its_priority_back(row: dict[str, str]) -> None:
    slurm = FakeSlurm(row)
    adapter_of(slurm).restore_priority("17")
    assert slurm.acts == [("scontrol", "release", "17")]


@pytest.mark.parametrize("priority", ["0", str(build.PLANNED_PRIORITY - 7)])
def test_a_priority_that_is_given_back_lifts_no_hold(priority: str) -> None:
    slurm = FakeSlurm(ROW | {"Reason": "JobHeldUser", "PriorityLong": priority})
    with pytest.raises(Rejected, match="is held"):
        adapter_of(slurm).restore_priority("17")
    assert slurm.acts == []


@pytest.mark.parametrize("priority", [build.FRONT_PRIORITY, 1])
def test_a_waiting_job_without_a_place_has_nothing_to_give_back(priority: int) -> None:
    slurm = FakeSlurm(ROW | {"PriorityLong": str(priority)})
    with pytest.raises(Gone, match="has no place"):
        adapter_of(slurm).restore_priority("17")
    assert slurm.acts == []


def test_a_held_job_stays_held() -> None:
    slurm = FakeSlurm(ROW | {"Reason": "JobHeldUser", "PriorityLong": "0"})
    with pytest.raises(Rejected, match="is held"):
        adapter_of(slurm).prioritise("17")
    assert slurm.acts == []


# Growing


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)


GRANTED: Answer = (0, "", "salloc: Granted job allocation 44\n")
ALLOCATE = build.allocate_expander("17", ("n3",), reservation="mw_1", user_id="1000", group_id="1000")


@pytest.mark.usefixtures("as_root")
def test_growing() -> None:
    slurm = FakeSlurm(RUNNING, script=(OK, GRANTED))
    adapter = adapter_of(slurm)
    assert adapter.capabilities.expand
    adapter.expand("17", nodes=("n2", "n3"), reservation="mw_1")
    assert slurm.acts == [build.admit("mw_1", "1000"), ALLOCATE, build.merge_expander("44")]


@pytest.mark.usefixtures("as_root")
def test_an_allocation_that_cannot_be_merged_is_cancelled() -> None:
    slurm = FakeSlurm(RUNNING, script=(OK, GRANTED, (1, "", "Unspecified error for job 44")))
    with pytest.raises(Rejected, match="Unspecified error"):
        adapter_of(slurm).expand("17", nodes=("n3",), reservation="mw_1")
    assert slurm.acts[-1] == build.cancel("44")


@pytest.mark.usefixtures("as_root")
def test_an_allocation_that_was_left_over_is_used() -> None:
    """Its maker died, or was not heard, between the allocation and the merge."""
    left = RUNNING | {"JobArrayID": "43", "Name": build.EXPANDER_NAME, "BatchFlag": "0", "NodeList": "n3"}
    slurm = FakeSlurm(RUNNING, left)
    adapter_of(slurm).expand("17", nodes=("n3",), reservation=None)
    assert slurm.acts == [build.merge_expander("43")]


@pytest.mark.usefixtures("as_root")
def test_growing_to_nodes_that_it_has_is_nothing() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter_of(slurm).expand("17", nodes=("n2",), reservation=None)
    assert slurm.acts == []


@pytest.mark.parametrize("lacks", ["permission", "release", "root"])
def test_where_jobs_cannot_grow(lacks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000 if lacks == "root" else 0)
    slurm = FakeSlurm(RUNNING, release="22.05.8" if lacks == "release" else "24.11.5")
    slurm.parameters = "(null)" if lacks == "permission" else slurm.parameters
    adapter = adapter_of(slurm)
    assert not adapter.capabilities.expand
    assert not adapter.snapshot().can_expand
    with pytest.raises(Unsupported):
        adapter.expand("17", nodes=("n3",), reservation=None)
