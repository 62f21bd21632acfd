"""From the rows of accounting to jobs: a job that was requeued has a row for each of its runs."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter

from makeway.adapters.slurm.accounting.rows import AccountingRow

_GOES_ON = frozenset({"REQUEUED", "PREEMPTED", "NODE_FAIL", "RESIZING", "RESIZED", "BOOT_FAIL"})
"""The states of a row after which the same job may have another."""
_RESIZED = frozenset({"RESIZING", "RESIZED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountedRun:
    """One run of a job, from a start to its end or to a requeue."""

    start_s: float
    end_s: float | None
    """None: it runs still."""
    elapsed_s: float
    """Without the time for which it was suspended."""
    node_count: int
    """The largest number of nodes that it had."""
    tres: tuple[tuple[str, int], ...]
    """What it held on all of them together."""
    requeued: bool
    """Whether the job waited again afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountedJob:
    """A job of the past."""

    job_id: str
    user: str
    account: str
    partition: str
    """Where it ran. If it never started: those that it could run in, by commas."""
    qos: str
    features: str
    words: frozenset[str]
    eligible_s: float
    """When it first could have started: submitted, its dependencies fulfilled, its begin time reached."""
    limit_s: float | None
    """None: it has no limit of its own."""
    runs: tuple[AccountedRun, ...]
    """In the order of time. Empty: it never started."""
    heterogeneous: bool
    """Whether it is a part of a heterogeneous job, whose parts start together."""


def jobs_of(rows: Iterable[AccountingRow]) -> list[AccountedJob]:
    """The jobs of the rows, by the time from which on they could start.

    Rows that are there twice, as in the exports of two periods that a job ran in, count once: that of the
    later export is believed, which has the end, or the longer time. A row of a job that still waits, as in
    the export of an earlier period, does not count next to one with a start. A job number that Slurm has used
    again belongs to two jobs.
    """
    by_number: dict[str, dict[tuple[float, float | None], AccountingRow]] = {}
    for row in rows:
        known, key = by_number.setdefault(row.raw_id, {}), (row.submit_s, row.start_s)
        if key not in known or _age(row) >= _age(known[key]):
            known[key] = row
    found: dict[str, AccountedJob] = {}
    for several in by_number.values():
        for group in _groups(sorted(_without_waits(several.values()), key=_order)):
            job = _job(group)
            name, times = job.job_id, 1
            while name in found:
                times += 1
                name = f"{job.job_id}.{times}"
            found[name] = job if times == 1 else replace(job, job_id=name)
    return sorted(found.values(), key=attrgetter("eligible_s"))


def _without_waits(rows: Collection[AccountingRow]) -> Iterator[AccountingRow]:
    """The rows of one number without those that another export has with a start, by then."""
    begun = {row.submit_s for row in rows if row.start_s is not None}
    return (row for row in rows if row.start_s is not None or row.submit_s not in begun)


def _age(row: AccountingRow) -> tuple[bool, float]:
    """How late a row of a run was written: the run only grows, until it ends. A change of size is no end."""
    return row.end_s is not None and row.state not in _RESIZED, row.elapsed_s


def _order(row: AccountingRow) -> tuple[float, float]:
    return (row.start_s if row.start_s is not None else float("inf"), row.submit_s)


def _groups(rows: Iterable[AccountingRow]) -> Iterator[list[AccountingRow]]:
    """The rows of one number, apart by job."""
    group: list[AccountingRow] = []
    for row in rows:
        if group and not (group[-1].state in _GOES_ON and group[-1].user == row.user):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _job(rows: list[AccountingRow]) -> AccountedJob:
    first, last = rows[0], rows[-1]
    # A begin time or a dependency makes it wait before it counts. In the row of a job that was requeued this
    # may be the time of the requeue.
    earliest_s = first.submit_s if first.eligible_s is None else max(first.submit_s, first.eligible_s)
    if first.ran and first.start_s is not None:
        earliest_s = min(earliest_s, first.start_s)
    return AccountedJob(
        job_id=last.job_id,
        user=last.user,
        account=last.account,
        partition=next((row.partition for row in reversed(rows) if row.ran), last.partition),
        qos=last.qos,
        features=last.features,
        words=last.words,
        eligible_s=earliest_s,
        limit_s=last.limit_s,
        runs=tuple(_runs(rows)),
        heterogeneous="+" in last.job_id,
    )


def _before(one: AccountingRow, last: AccountingRow) -> bool:
    """Whether a part of a run is not counted in the last one, which may count from the first start on."""
    return one.end_s is not None and last.start_s is not None and one.end_s <= last.start_s


def _runs(rows: list[AccountingRow]) -> Iterator[AccountedRun]:
    """The runs; the rows of a job whose size was changed while it ran are one run."""
    part: list[AccountingRow] = []
    for place, row in enumerate(rows):
        if not row.ran:
            continue
        part.append(row)
        more = any(other.ran for other in rows[place + 1 :])
        if row.state in _RESIZED and more:
            continue
        largest = max(part, key=attrgetter("node_count"))
        assert part[0].start_s is not None
        yield AccountedRun(
            start_s=part[0].start_s,
            end_s=row.end_s,
            elapsed_s=row.elapsed_s + sum(one.elapsed_s for one in part if _before(one, row)),
            node_count=largest.node_count,
            tres=largest.tres,
            requeued=place < len(rows) - 1,
        )
        part = []
