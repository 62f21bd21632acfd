"""Waiting tasks of an array of which Slurm prints the same: the first ones stand for the others."""

from collections.abc import Callable
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.adapters.slurm import parse
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.build import FRONT_PRIORITY
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.reader import alike
from makeway.adapters.slurm.reader.alike import SHOWN, ListedJobs
from makeway.adapters.slurm.reader.rows import JobReader
from tests.adapters.slurm.fake_slurm import RUNNING, SETTINGS, FakeSlurm
from tests.adapters.slurm.test_long_queues import FIELDS
from tests.adapters.slurm.test_parse import COMMAND, ROW, TOKEN, printed

COUNT = 3 * SHOWN
Row = dict[str, str]


def listed(rows: list[Row], piece: int = 1 << 16) -> ListedJobs:
    """What is read of rows that come in pieces of so many bytes."""
    reader = JobReader()
    data = printed(rows, TOKEN).encode("utf-8", "surrogateescape")
    coming = reader.begin(FIELDS, TOKEN)
    for begin in range(0, len(data), piece):
        coming.take(data[begin : begin + piece])
    return reader.jobs(coming)


def tasks(array: int, numbers: range, **other: str) -> list[Row]:
    """Rows of tasks that wait."""
    return [ROW | other | {"JobArrayID": f"{array}_{number}"} for number in numbers]


def ids(jobs: tuple[RawJob, ...]) -> list[str]:
    return [job.job_id for job in jobs]


def every(found: ListedJobs) -> tuple[RawJob, ...]:
    return tuple(found.with_others(lambda _: True))


def test_the_first_tasks_of_an_array_stand_for_the_others() -> None:
    rows = [ROW | {"JobArrayID": "6"}, *tasks(7, range(1, COUNT + 1)), ROW | {"JobArrayID": "8"}]
    found = listed(rows)
    assert ids(found.jobs) == ["6", *(f"7_{number}" for number in range(1, SHOWN + 1)), "8"]
    assert found.others == {f"7_{SHOWN}": (range(SHOWN + 1, COUNT + 1),)}
    assert every(found) == parse.jobs(printed(rows, TOKEN), fields=FIELDS, token=TOKEN, command=COMMAND)
    assert tuple(found.with_others(lambda _: False)) == found.jobs


def test_an_array_of_no_more_tasks_is_whole() -> None:
    found = listed(tasks(7, range(SHOWN)))
    assert len(found.jobs) == SHOWN
    assert not found.others


@pytest.mark.parametrize(
    "other",
    [
        {"State": "RUNNING"},
        {"RestartCnt": "1"},
        {"PriorityLong": str(FRONT_PRIORITY)},
    ],
    ids=["it runs", "it ran before", "makeway has put it to the front"],
)
def test_only_tasks_that_wait_as_they_were_submitted_are_left_out(other: Row) -> None:
    assert len(listed(tasks(7, range(COUNT), **other)).jobs) == COUNT


def test_a_task_that_differs_in_anything_is_shown() -> None:
    rows = tasks(7, range(COUNT))
    rows[SHOWN + 50]["Comment"] = "makeway:taken=1795249500"
    found = listed(rows)
    assert f"7_{SHOWN + 50}" in ids(found.jobs)
    assert len(found.jobs) == 2 * SHOWN + 1
    assert every(found) == parse.jobs(printed(rows, TOKEN), fields=FIELDS, token=TOKEN, command=COMMAND)


CHANGES = st.dictionaries(
    st.sampled_from(("Name", "Comment")), st.sampled_from(("\n", "\0", "_2", "a", "7_1")), max_size=1
)
RUNS = st.lists(
    st.tuples(st.integers(1, 2), st.lists(st.integers(0, 12), max_size=8), CHANGES), min_size=1, max_size=5
)


@settings(deadline=None)
@given(RUNS, st.integers(1, 400))
def test_those_shown_and_the_others_are_all_of_them(
    runs: list[tuple[int, list[int], Row]], piece: int
) -> None:
    rows = {
        f"{array}_{number}": ROW | change | {"JobArrayID": f"{array}_{number}"}
        for array, numbers, change in runs
        for number in numbers
    }
    text = printed([*rows.values()], TOKEN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alike, "SHOWN", 2)
        found = listed([*rows.values()], piece)
    assert every(found) == parse.jobs(text, fields=FIELDS, token=TOKEN, command=COMMAND)
    assert len(found.jobs) + sum(map(len, chain.from_iterable(found.others.values()))) == len(rows)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-1],
        lambda text: text[: len(text) - len(text) // 4],
        lambda text: text.replace(f"7_{COUNT - 2}", "7_x"),
        lambda text: text.replace(f"7_{COUNT - 2}{TOKEN}", f"7_{COUNT - 2}{TOKEN}{TOKEN}"),
    ],
    ids=["no end", "three quarters", "no number", "a field more"],
)
def test_a_text_that_is_damaged_among_the_others_is_not_read(damage: Callable[[str], str]) -> None:
    text = damage(printed(tasks(7, range(COUNT)), TOKEN))
    reader = JobReader()
    coming = reader.begin(FIELDS, TOKEN)
    coming.take(text.encode())
    try:
        found = every(reader.jobs(coming))
    except ValueError:
        return
    # What is no number is an id of its own, as it was before.
    assert len(found) == COUNT
    assert "7_x" in ids(found)


@pytest.mark.parametrize("urgent", [False, True])
def test_a_snapshot_has_all_tasks_of_an_urgent_array_alone(urgent: bool) -> None:
    rows = tasks(7, range(COUNT), QOS="urgent" if urgent else "normal")
    adapter = SlurmCliAdapter(SETTINGS, runner=FakeSlurm(RUNNING, *rows))
    found = [job.job_id for job in adapter.snapshot().jobs if job.job_id.startswith("7_")]
    assert found == [f"7_{number}" for number in range(COUNT if urgent else SHOWN)]
