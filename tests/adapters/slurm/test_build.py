"""The argument lists, and that no text of a user's becomes a command."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.adapters.protocol import Rejected
from makeway.adapters.slurm import build
from makeway.policies.model import QUEUE_POSITIONS, SignalTarget
from tests.adapters.slurm.jobs.raw_jobs import RUNNING


def test_places_lie_between_the_front_and_the_priorities_that_slurm_gives_by_itself() -> None:
    first_of_priority_basic = 0xFFFF0000
    priorities = [
        int(build.to_queue_position("5", queue_position)[-1].removeprefix("Priority="))
        for queue_position in (1, 2, QUEUE_POSITIONS)
    ]
    assert build.FRONT_PRIORITY > priorities[0] > priorities[1] > priorities[2] > first_of_priority_basic
    assert [build.queue_position_of(priority) for priority in priorities] == [1, 2, QUEUE_POSITIONS]
    assert build.queue_position_of(first_of_priority_basic) is None


def test_reading() -> None:
    assert build.squeue() == ("squeue", "--noheader", "--all", "--array")
    assert build.squeue("7_3")[-1] == "--jobs=7_3"
    assert build.squeue(reservation="mw_7")[-1] == "--reservation=mw_7"


def test_the_format_of_squeue_is_not_on_the_command_line() -> None:
    environment = build.squeue_environment(("JobArrayID", "Comment"), "mwsecret")
    assert environment == {
        "SQUEUE_FORMAT2": "JobArrayID:0mwsecret,Comment:0mwsecret",
        "SLURM_TIME_FORMAT": "%s",
    }
    assert not any("mwsecret" in word for word in build.squeue())


def test_excluded_nodes_are_asked_for_where_they_are_known() -> None:
    assert build.EXCLUDED_NODES not in build.job_fields((22, 5))
    assert build.EXCLUDED_NODES in build.job_fields((24, 11))
    assert build.EXCLUDED_NODES in build.job_fields((26, 5))
    assert build.job_fields((26, 5))[-1] == "Comment"


def test_one_scontrol_reads_everything_else() -> None:
    assert build.show_script("mwt", ("12",)).decode().splitlines() == [
        "show hostnames mwt-nodes",
        "show nodes",
        "show hostnames mwt-partitions",
        "show partitions",
        "show hostnames mwt-reservations",
        "show reservations",
        "show hostnames mwt-12",
        "show job 12",
        "show hostnames mwt-end",
    ]


def test_verbs() -> None:
    assert build.signal_batch("5", "USR1") == ("scancel", "-vvv", "--signal=USR1", "--batch", "5")
    assert build.signal_steps("5_2", "USR2") == ("scancel", "-vvv", "--signal=USR2", "5_2")
    assert build.signal_batch("5_2", "USR2") == ("scancel", "-vvv", "--signal=USR2", "--batch", "5_2")
    assert build.requeue("5_2") == ("scontrol", "requeue", "Incomplete", "5_2")
    assert build.cancel("5") == ("scancel", "5")
    assert build.bind("5", "mw_5") == ("scontrol", "update", "JobId=5", "ReservationName=mw_5")
    assert build.bind("5", None) == ("scontrol", "update", "JobId=5", "ReservationName=")
    assert build.delete_reservation("mw_5") == ("scontrol", "delete", "ReservationName=mw_5")
    assert build.bind("5+1", "mw_5+1") == ("scontrol", "update", "JobId=5+1", "ReservationName=mw_5+1")
    assert build.merge_expander("9") == ("scontrol", "update", "JobId=9", "NumNodes=0")
    assert build.admit("mw_5", "1000") == ("scontrol", "update", "ReservationName=mw_5", "Users+=1000")


def test_a_signal_to_both_is_one_to_each() -> None:
    batch, steps = build.signal_batch("5", "USR1"), build.signal_steps("5", "USR1")
    assert build.signal_job("5", "USR1", SignalTarget.BATCH) == (batch,)
    assert build.signal_job("5", "USR1", SignalTarget.STEPS) == (steps,)
    assert build.signal_job("5", "USR1", SignalTarget.BOTH) == (batch, steps)


def test_shrinking_is_one_command() -> None:
    """22.05 without accounting refuses every update after the first that takes nodes away."""
    update = ("scontrol", "update", "JobId=5")
    assert build.resize("5", ("n1", "n3", "n2"), 90) == (*update, "NodeList=n[1-3]", "TimeLimit=90")
    assert build.resize("5", ("n1",), None) == (*update, "NodeList=n1")
    assert build.resize("5", None, 90) == (*update, "TimeLimit=90")


@pytest.mark.parametrize(("seconds", "minutes"), [(1, 1), (60, 1), (61, 2), (3600, 60), (3600.5, 61)])
def test_time_limits_are_rounded_up(seconds: float, minutes: int) -> None:
    assert build.minutes(seconds) == minutes


def test_a_reservation_ends_by_itself_and_holds_nobody() -> None:
    argv = build.create_reservation("mw_5", nodes=("n3", "n4"), duration_s=600.2, users=("1000",), purge=True)
    assert argv[:3] == ("scontrol", "create", "reservation")
    assert "EndTime=now+601seconds" in argv
    (flags,) = (word for word in argv if word.startswith("Flags="))
    assert set(flags.removeprefix("Flags=").split(",")) == {
        "IGNORE_JOBS",
        "NO_HOLD_JOBS_AFTER",
        "PURGE_COMP=1",
    }
    capped = build.create_reservation(
        "mw_5", nodes=("n3",), duration_s=600, users=("1000",), purge=True, until_s=1_700_000_000.9
    )
    assert "EndTime=uts1700000000" in capped, "however long the command takes"
    early = build.create_reservation("mw_n", nodes=("n3",), duration_s=60, users=("ada",), purge=False)
    assert "Users=ada" in early
    assert "Flags=IGNORE_JOBS,NO_HOLD_JOBS_AFTER" in early, "it has no job yet, and is there for one"
    changed = build.update_reservation("mw_5", nodes=("n3",), duration_s=0, users=("1000",))
    assert changed == (
        "scontrol",
        "update",
        "ReservationName=mw_5",
        "Nodes=n3",
        "Users=1000",
        "EndTime=now+1seconds",
    )


def test_the_front_of_the_queue() -> None:
    update = ("scontrol", "update", "JobId=5", f"Priority={build.FRONT_PRIORITY}")
    assert build.to_front("5", requeued=False, node_count=None) == update
    restart = f"StartTime=now+{build.RESTART_S}seconds"
    assert build.to_front("5", requeued=True, node_count=6) == (*update, restart, "NumNodes=6")


def test_growing_is_done_as_the_job_s_user() -> None:
    job = replace(RUNNING, job_id="5", user_id="1000", group_id="100")
    argv = build.allocate_expander(job, ("n2", "n4"), reservation="mw_7")
    assert argv[: argv.index("salloc")] == ("setpriv", "--reuid=1000", "--regid=100", "--init-groups", "--")
    assert {"--dependency=expand:5", "--nodelist=n[2,4]", "--nodes=2", "--reservation=mw_7"} <= set(argv)
    without = build.allocate_expander(job, ("n2",), reservation=None)
    assert not any(word.startswith("--reservation") for word in without)


def test_what_a_job_grows_by_has_its_partition_qos_and_account() -> None:
    """Otherwise it would have the user's defaults, and "Job dependency problem" is all that Slurm says."""
    job = replace(RUNNING, account="physics", qos="low", partitions=("long",))
    argv = build.allocate_expander(job, ("n2",), reservation=None)
    assert {"--account=physics", "--qos=low", "--partition=long"} <= set(argv)
    argv = build.allocate_expander(replace(job, account="", qos=""), ("n2",), reservation=None)
    assert not any(word.startswith(("--account", "--qos")) for word in argv)


IDS: tuple[Callable[[str], tuple[str, ...]], ...] = (
    build.squeue,
    build.requeue,
    build.cancel,
    build.merge_expander,
    lambda job_id: build.signal_batch(job_id, "USR1"),
    lambda job_id: build.resize(job_id, ("n1",), 5),
    lambda job_id: build.bind(job_id, None),
    lambda job_id: build.to_front(job_id, requeued=True, node_count=None),
)
NAMES: tuple[Callable[[str], tuple[str, ...]], ...] = (
    build.delete_reservation,
    lambda name: build.squeue(reservation=name),
    lambda name: build.bind("1", name),
    lambda name: build.create_reservation(name, nodes=("n1",), duration_s=60, users=("0",), purge=True),
    lambda name: build.create_reservation("mw_1", nodes=(name,), duration_s=60, users=("0",), purge=True),
    lambda name: build.resize("1", ("n1", name), None),
)
BAD = (
    "",
    "-u",
    "--all",
    "1 2",
    "1;2",
    "1\n2",
    "a,b",
    "n[1-3]",
    "x=y",
    "ReservationName=a b",
    "$(id)",
    "é",
    "\udcff",
)


@pytest.mark.parametrize("text", [*BAD, "abc", "1_", "_1", "1_2_3", "1-3", "１"])
def test_only_a_job_id_is_a_job_id(text: str) -> None:
    for make in IDS:
        with pytest.raises(Rejected):
            make(text)


@pytest.mark.parametrize("text", BAD)
def test_only_a_name_is_a_name(text: str) -> None:
    for make in NAMES:
        with pytest.raises(Rejected):
            make(text)


@pytest.mark.parametrize("text", ["", "-9", "usr1", "USR1 ", "KILL,TERM", "100"])
def test_only_a_signal_is_a_signal(text: str) -> None:
    with pytest.raises(Rejected):
        build.signal_batch("1", text)


@settings(deadline=None)
@given(st.text())
def test_no_text_becomes_an_option(text: str) -> None:
    """Any text given as an id or a name is refused, or is put where it cannot be an option."""
    for make in (*IDS, *NAMES):
        try:
            argv = make(text)
        except Rejected:
            continue
        assert all(word.isprintable() and " " not in word for word in argv)
        known = tuple(word for word in make("1") if word.startswith("-"))
        assert len([word for word in argv if word.startswith("-")]) == len(known)
