"""The process that reads through pyslurm: what it tells, and how it fails."""

import contextlib
import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from makeway.adapters.command import CommandRunner
from makeway.adapters.protocol import Unavailable
from makeway.adapters.slurm.parse import Gres
from makeway.adapters.slurm.reader import helper as module
from makeway.adapters.slurm.reader.alike import SHOWN
from makeway.adapters.slurm.reader.helper import PROGRAM, HelperFailed, PyslurmHelper
from tests.adapters.slurm.reader.told import JOB, PARTITION, Told
from tests.adapters.test_command import PYTHON, gone
from tests.waiting import await_that, limit_s


@contextlib.contextmanager
def running(told: Told, **options: float) -> Iterator[PyslurmHelper]:
    with closing(told.helper(**options)) as helper:  # type: ignore[arg-type]
        yield helper


def test_one_job_has_one_row_or_one_for_each_waiting_task(told: Told) -> None:
    array = {"array_id": 20, "id": 20}
    told.tell(
        jobs=[
            JOB,
            JOB | array | {"array_tasks_waiting": "2-4,7"},
            JOB | array | {"id": 21, "array_task_id": 1},
            JOB | array | {"id": 22, "array_task_id": None},
            JOB | {"id": 30, "heterogeneous_id": 30},
            JOB | {"id": 31, "heterogeneous_id": 30, "heterogeneous_offset": 1},
        ]
    )
    with running(told) as helper:
        jobs = helper.read().listed.jobs
    ids = ["17", "20_2", "20_3", "20_4", "20_7", "20_1", "20_0", "30+0", "30+1"]
    assert [job.job_id for job in jobs] == ids
    assert [job.job_id for job in jobs if job.heterogeneous] == ["30+0", "30+1"]


def test_the_first_waiting_tasks_of_an_array_stand_for_the_others(told: Told) -> None:
    count = 3 * SHOWN
    told.tell(jobs=[JOB | {"array_id": 20, "id": 20, "array_tasks_waiting": f"1-{count}"}])
    with running(told) as helper:
        listed = helper.read().listed
    assert [job.job_id for job in listed.jobs] == [f"20_{number}" for number in range(1, SHOWN + 1)]
    assert listed.others == {f"20_{SHOWN}": (range(SHOWN + 1, count + 1),)}


def test_a_deadline_is_told(told: Told) -> None:
    told.tell(jobs=[JOB, JOB | {"id": 18, "deadline": 1795250400}])
    with running(told) as helper:
        assert [job.deadline_s for job in helper.read().listed.jobs] == [None, 1_795_250_400.0]


def test_hostile_text_stays_in_its_field(told: Told) -> None:
    name = 'a"\n["end","0"]\n["job","1"]\u2028é\x1b[31m'
    told.tell(jobs=[JOB | {"name": name, "bytes": {"comment": "6d6177ff0ac3280a"}}])
    with running(told) as helper:
        (job,) = helper.read().listed.jobs
    assert job.name == name
    assert job.comment == "maw\udcff\n\udcc3(\n"


def test_what_a_job_holds_and_asks_for(told: Told) -> None:
    tres = {"cpu": 8, "mem": 3072, "node": 2, "gres": {"gpu:a100": 4}, "license": {"fluent": 1}}
    asked = {
        "allocated_tres": tres,
        "allocated_nodes": "n[2-3]",
        "batch_host": "n3",
        "state": "RUNNING",
        "time_limit": None,
        "memory_per_cpu": 384,
        "gres_per_node": {"gres/gpu:a100": 2},
        "tres_per_task": {"gres": {"gpu": 1}},
        "licenses": ["fluent:1"],
        "constraints": ["[small|big]", "fast"],
    }
    told.tell(jobs=[JOB | asked])
    with running(told) as helper:
        (job,) = helper.read().listed.jobs
    assert job.tres == "cpu=8,mem=3G,node=2,license/fluent=1,gres/gpu:a100=4"
    assert (job.tres_memory_mb, job.memory_mb, job.limit_s) == (3072.0, 384.0, None)
    assert job.nodes == ("n3", "n2")
    assert job.gres_per_node == (Gres(name="gpu", type="a100", count=2),)
    assert job.gres_per_task == (Gres(name="gpu", type="", count=1),)
    assert (job.licenses, job.features) == ("fluent:1", "[small|big],fast")


def test_nodes(told: Told) -> None:
    one = {
        "name": "n1",
        "state": "IDLE+DRAIN",
        "total_cpus": 8,
        "effective_cpus": 6,
        "real_memory": 16000,
        "memory_reserved_for_system": 1000,
        "active_features": ["ht", "fast"],
        "configured_gres": {"gpu:a100": 4, "fpga::null": 2},
        "sockets": 1,
        "cores_per_socket": 4,
        "partitions": ["batch", "own"],
    }
    told.tell(nodes=[one])
    with running(told) as helper:
        (node,) = helper.read().cluster.nodes
    assert node.name == "n1"
    assert node.states == {"IDLE", "DRAIN"}
    assert (node.cpu_count, node.usable_cpu_count, node.core_count) == (8, 6, 4)
    assert node.usable_memory_mb == 15000
    assert node.features == {"ht", "fast"}
    assert node.partitions == {"batch", "own"}
    assert node.gres == (Gres(name="gpu", type="a100", count=4), Gres(name="fpga", type="", count=2))


def test_partitions(told: Told) -> None:
    own = {"is_user_exclusive": True, "is_default": True, "oversubscribe": "FORCE:4"}
    most = {"max_cpus_per_node": 6, "max_cpus_per_socket": 3, "max_time": 90, "max_nodes": 4}
    most["over_time_limit"] = 7
    told.tell(partitions=[PARTITION, PARTITION | own | {"default_memory_per_cpu": 500} | most])
    with running(told) as helper:
        plain, partition = helper.read().cluster.partitions
    assert (plain.exclusive, plain.oversubscribed, plain.by_default) == (False, False, False)
    assert plain.default_memory is None
    assert partition.exclusive
    assert partition.oversubscribed
    assert partition.by_default
    assert partition.default_memory is not None
    assert (partition.default_memory.per_cpu, partition.default_memory.amount_mb) == (True, 500.0)
    assert (plain.cpus_per_node_max, partition.cpus_per_node_max) == (None, 6)
    assert (plain.cpus_per_socket_max, partition.cpus_per_socket_max) == (None, 3)
    assert (plain.limit_max_s, partition.limit_max_s) == (None, 5400.0)
    assert (plain.node_count_max, partition.node_count_max) == (None, 4)
    assert (plain.times.overtime_s, partition.times.overtime_s) == (None, 420.0)
    told.tell(partitions=[PARTITION | {"max_time": "UNLIMITED", "max_nodes": "UNLIMITED"}])
    with running(told) as helper:
        (unlimited,) = helper.read().cluster.partitions
    assert (unlimited.limit_max_s, unlimited.node_count_max) == (None, None)


def test_reservations(told: Told) -> None:
    times = {"nodes": "n1", "start_time": 10, "end_time": 20}
    hold = {"users": ["ada", "bob"], "flags": 15, "purge_time": 60}
    told.tell(
        reservations=[
            times | hold | {"name": "their own", "comment": "x"},
            times | {"name": "daily", "flags": 0, "reoccurrence": "DAILY"},
            times | {"name": "new", "nodes": None, "flags": 1 << 40},
        ]
    )
    with running(told) as helper:
        theirs, daily, new = helper.read().cluster.reservations
    assert (theirs.name, theirs.users) == ("their own", ("ada", "bob"))
    assert theirs.limited_by == {"Comment"}
    flags = {"IGNORE_JOBS", "NO_HOLD_JOBS_AFTER_END", "SPEC_NODES", "PURGE_COMP=00:01:00"}
    assert theirs.flags == flags
    assert daily.flags == {"DAILY"}
    assert new.flags == {"UNKNOWN"}
    assert new.nodes == ()


def test_an_unchanged_job_is_the_same_object(told: Told) -> None:
    with running(told) as helper:
        (before,) = helper.read().listed.jobs
        (after,) = helper.read().listed.jobs
        assert before is after
        told.tell(jobs=[JOB | {"priority": 2}])
        assert helper.read().listed.jobs[0].priority == 2


def test_what_is_asked_by_gpu_is_seen_in_each_answer(told: Told) -> None:
    told.tell(jobs=[JOB | {"raising": ["cpus_per_gpu"]}])
    with running(told) as helper:
        assert helper.read().asks_by_gpu
        assert helper.read().asks_by_gpu
        told.tell()
        assert not helper.read().asks_by_gpu


def test_what_pyslurm_prints_is_no_part_of_the_answer(told: Told) -> None:
    told.tell(does="print")
    with running(told) as helper:
        assert len(helper.read().listed.jobs) == 1


def test_a_controller_that_does_not_answer_leaves_the_helper_alone(told: Told) -> None:
    with running(told) as helper:
        helper.read()
        told.tell(does="refuse")
        with pytest.raises(Unavailable, match="pyslurm: Unable to contact slurm controller") as error:
            helper.read()
        assert not isinstance(error.value, HelperFailed)
        told.tell()
        assert len(helper.read().listed.jobs) == 1
        assert helper.starts == 1


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("die", "pyslurm's helper was ended by signal 11"),
        ("exit", "pyslurm's helper ended with exit status 3"),
        ("raise", "pyslurm cannot read this cluster: ValueError: invalid literal"),
    ],
)
def test_a_helper_that_fails_rests_and_comes_back(told: Told, does: str, words: str) -> None:
    with running(told) as helper:
        for failures, pause_s in enumerate((1, 2, 4), start=1):
            told.tell(does=does)
            with pytest.raises(HelperFailed, match=re.escape(words)):
                helper.read()
            assert helper.starts == failures
            with pytest.raises(HelperFailed, match=rf"started again in {pause_s} s"):
                helper.read()
            assert helper.starts == failures
            told.now_s += pause_s
        told.tell()
        assert len(helper.read().listed.jobs) == 1
        told.tell(does=does)
        with pytest.raises(HelperFailed, match=re.escape(words)):
            helper.read()
        with pytest.raises(HelperFailed, match="started again in 1 s"):
            helper.read()
    assert told.children() == set()


def test_a_helper_that_hangs_is_ended_within_the_time_out(told: Told) -> None:
    with running(told, timeout_s=limit_s(2.0)) as helper:
        helper.read()
        (pid,) = told.children()
        told.tell(does="hang")
        with pytest.raises(Unavailable, match="pyslurm's helper gave no answer within") as error:
            helper.read()
        assert not isinstance(error.value, HelperFailed)
        assert gone(pid)
        assert told.children() == set()
        with pytest.raises(HelperFailed, match="started again in 1 s"):
            helper.read()


def test_a_helper_that_is_killed_between_two_answers(told: Told) -> None:
    with running(told) as helper:
        helper.read()
        (pid,) = told.children()
        os.kill(pid, 9)
        with pytest.raises(HelperFailed, match="was ended by signal 9"):
            helper.read()
        told.now_s += 1
        assert len(helper.read().listed.jobs) == 1


def test_the_pause_has_a_limit(told: Told) -> None:
    helper = PyslurmHelper(told.starter, "/no/such/python", 60.0, clock=lambda: told.now_s)
    for _ in range(12):
        with pytest.raises(HelperFailed, match="cannot be started"):
            helper.start()
        told.now_s += module.LONGEST_PAUSE_S
    told.now_s -= 1
    with pytest.raises(HelperFailed, match="again in 1 s"):
        helper.start()


@pytest.mark.parametrize(
    ("at_import", "words"),
    [
        ("raise", "pyslurm cannot be used with .*: ImportError: libslurmfull.so"),
        ("exit", "pyslurm's helper ended with exit status 1: fatal: could not open slurm.conf"),
    ],
)
def test_a_pyslurm_that_cannot_be_loaded(told: Told, at_import: str, words: str) -> None:
    told.tell(at_import=at_import)
    with running(told) as helper, pytest.raises(HelperFailed, match=words):
        helper.read()


def test_no_pyslurm_at_all() -> None:
    helper = PyslurmHelper(CommandRunner(), PYTHON, 60.0)
    with closing(helper), pytest.raises(HelperFailed, match="No module named 'pyslurm'"):
        helper.read()


def test_an_interpreter_that_is_not_there(told: Told) -> None:
    helper = PyslurmHelper(told.starter, "/no/such/python", 60.0)
    with closing(helper), pytest.raises(HelperFailed, match="/no/such/python cannot be started"):
        helper.read()


HELLO = '["hello", "24.11.2"]'
END = '["end", "1"]'


@pytest.mark.parametrize(
    "printed",
    [
        ["bash: warning", END],
        ["[]", END],
        ["{}", END],
        [HELLO, "nonsense", END],
        [HELLO, '["node", 1]', END],
        [HELLO, '["node", "n1"]', END],
        [HELLO, '["horse", "n1"]', END],
        [HELLO, END],
        [HELLO, '["end"'],
        [HELLO, '["job", "17", "PENDING"]', END],
    ],
)
def test_nonsense_is_no_answer(told: Told, tmp_path: Path, printed: list[str]) -> None:
    liar = tmp_path / "liar"
    hello, *answer = printed
    quoted = "; ".join(f"printf '%s\\n' '{line}'" for line in answer)
    liar.write_text(f"#!/bin/sh\nprintf '%s\\n' '{hello}'\nread request\n{quoted}\nexec sleep 1000\n")
    liar.chmod(0o755)
    helper = PyslurmHelper(told.starter, str(liar), limit_s(10.0))
    with closing(helper), pytest.raises(HelperFailed):
        helper.read()
    assert told.children() == set()


def test_after_many_answers_a_new_process_takes_over(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ANSWERS", 2)
    with running(told) as helper:
        starts = []
        for _ in range(5):
            helper.read()
            starts.append(helper.starts)
    assert starts == [1, 1, 2, 2, 3]


def test_nothing_is_left_after_the_end(told: Told) -> None:
    helper = told.helper()
    helper.read()
    (pid,) = told.children()
    helper.close()
    helper.close()
    assert gone(pid)
    assert told.children() == set()


def test_a_helper_without_makeway_ends_by_itself(told: Told) -> None:
    """Its input ends, or a signal ends it while it waits for the controller."""
    source = PROGRAM.read_text()
    told.tell(does="hang")
    done = told.starter.run((PYTHON, "-c", source, "1"), stdin=b"\n", timeout_s=limit_s())
    assert done.returncode == -14
    told.tell()
    done = told.starter.run((PYTHON, "-c", source, "60"), stdin=b"\n\n", timeout_s=limit_s())
    assert done.returncode == 0
    assert done.stdout.count('["end", "10"]') == 2


def test_no_child_is_left_of_a_start_that_fails(told: Told) -> None:
    told.tell(at_import="raise")
    with running(told) as helper, pytest.raises(HelperFailed):
        helper.start()
    await_that("no process is left", lambda: told.children() == set())
