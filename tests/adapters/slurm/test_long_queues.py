"""What is kept from one snapshot to the next never changes what a snapshot says.

Each snapshot of an adapter that has taken others before equals the first snapshot of a new adapter.
"""

import gc
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.adapters.protocol import Unavailable
from makeway.adapters.slurm import build, parse, parse_cluster
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.reader.rows import JobReader
from tests.adapters.slurm.fake_slurm import NO_CONTROLLER, NOW_S, RUNNING, SETTINGS, FakeSlurm
from tests.adapters.slurm.test_parse import COMMAND, RELEASES, ROW, TOKEN, captured, printed

FIELDS = build.JOB_FIELDS
CHANGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("PriorityLong", ("1", "0", "4294967290")),
    ("Reason", ("Resources", "Dependency", "QOSMaxJobsPerUserLimit")),
    ("EligibleTime", ("1795249000", str(int(NOW_S) + 50))),
    ("Comment", ("(null)", "makeway:ckpt=1795249500", f"makeway:ckpt={int(NOW_S) + 70}")),
    ("QOS", ("normal", "urgent")),
    ("Licenses", ("(null)", "fluent:2")),
    ("Reservation", ("(null)", "mine")),
    ("Feature", ("(null)", "big")),
    ("RestartCnt", ("0", "1")),
    ("Partition", ("batch", "batch,other")),
    ("MinMemory", ("0", "5000M")),
)
"""What changes between two snapshots: a field, and what it may become."""


class Site(FakeSlurm):
    """A Slurm whose jobs and nodes change."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)
        rows = [
            (RUNNING if number < 4 else ROW)
            | {"JobArrayID": str(100 + number)}
            | ({"NodeList": f"n{number + 1}", "BatchHost": f"n{number + 1}"} if number < 4 else {})
            for number in range(12)
        ]
        super().__init__(*rows)
        self.states = ["IDLE"] * 8
        self.features = ["(null)"] * 8
        self.now_s = NOW_S
        self.change = self._with_nodes

    def pass_time(self) -> None:
        """Some time passes, and something changes."""
        self.now_s += self.random.choice((0.0, 30.0, 30.0, -10.0))
        for _ in range(self.random.randint(0, 4)):
            field, values = self.random.choice(CHANGES)
            self.random.choice(self.rows)[field] = self.random.choice(values)
        if self.random.random() < 0.5:
            self.states[self.random.randrange(8)] = self.random.choice(("IDLE", "DOWN", "IDLE+DRAIN"))
        if self.random.random() < 0.2:
            self.features[self.random.randrange(8)] = self.random.choice(("(null)", "big"))
        if self.random.random() < 0.3:
            self.random.shuffle(self.rows)
        if len(self.rows) > 6 and self.random.random() < 0.2:
            del self.rows[self.random.randrange(len(self.rows))]

    def adapter(self) -> SlurmCliAdapter:
        """A new adapter on this Slurm."""
        return SlurmCliAdapter(SETTINGS, runner=self, now=lambda: self.now_s)

    def _with_nodes(self, lines: list[str]) -> list[str]:
        text = "\n".join(lines)
        for number, (state, features) in enumerate(zip(self.states, self.features, strict=True), start=1):
            old = f"NodeName=n{number} CPUTot=2 RealMemory=1000 State=IDLE ActiveFeatures=(null)"
            text = text.replace(
                old, f"NodeName=n{number} CPUTot=2 RealMemory=1000 State={state} ActiveFeatures={features}"
            )
        return text.split("\n")


@pytest.mark.parametrize("answers", [True, False], ids=["answers", "does not answer"])
def test_a_snapshot_leaves_nothing_that_the_collector_of_garbage_has_to_find(answers: bool) -> None:
    """The daemon has it look for that seldom: a long queue would take memory with every cycle."""
    site = Site("garbage")
    adapter = site.adapter()
    adapter.snapshot()
    if not answers:
        site.squeue_answer = NO_CONTROLLER
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            site.pass_time()
            with suppress(Unavailable):
                adapter.snapshot()
        found = gc.collect()
    finally:
        gc.enable()
    assert found == 0


@pytest.mark.parametrize("seed", range(60))
def test_later_snapshots_equal_first_ones(seed: int) -> None:
    site = Site(f"site {seed}")
    lasting = site.adapter()
    for _ in range(12):
        assert lasting.snapshot() == site.adapter().snapshot()
        site.pass_time()


def test_what_stays_the_same_is_not_made_again() -> None:
    site = Site("same")
    lasting = site.adapter()
    before, after = lasting.snapshot(), lasting.snapshot()
    assert all(old is new for old, new in zip(before.jobs, after.jobs, strict=True))
    site.rows[5]["PriorityLong"] = "77"
    changed = [
        new.job_id for old, new in zip(after.jobs, lasting.snapshot().jobs, strict=True) if old is not new
    ]
    assert changed == [site.rows[5]["JobArrayID"]]


def read(
    reader: JobReader, text: str, token: str = TOKEN, fields: tuple[str, ...] = FIELDS, piece: int = 1000
) -> tuple[RawJob, ...]:
    """The jobs of a text that comes in pieces of so many bytes."""
    data = text.encode("utf-8", "surrogateescape")
    coming = reader.begin(fields, token)
    for begin in range(0, len(data), piece):
        coming.take(data[begin : begin + piece])
    return reader.jobs(coming).jobs


@pytest.mark.parametrize("piece", [1, 7, 1 << 16])
@pytest.mark.parametrize("release", sorted(RELEASES))
def test_the_reader_reads_the_captures(release: str, piece: int) -> None:
    fields = build.job_fields(RELEASES[release])
    text = captured(release, "squeue")
    reader = JobReader()
    first = read(reader, text, fields=fields, piece=piece)
    assert first == parse.jobs(text, fields=fields, token=TOKEN, command=COMMAND)
    again = read(reader, text.replace(TOKEN, "other"), "other", fields=fields, piece=piece)
    assert all(old is new for old, new in zip(first, again, strict=True))


ROWS = st.lists(
    st.builds(
        lambda name, comment, number: ROW | {"Name": name, "Comment": comment, "JobArrayID": str(number)},
        st.text(max_size=4) | st.sampled_from(("\n", "\0", "a\0b", "\n\n")),
        st.text(max_size=4) | st.sampled_from(("\n", "\0")),
        st.integers(1, 4),
    ),
    max_size=5,
)


@settings(deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4), st.integers(1, 300))
def test_the_reader_reads_what_users_write(texts: list[list[dict[str, str]]], piece: int) -> None:
    reader = JobReader()
    for number, rows in enumerate(texts):
        token = f"mw5f1d0c9e{number}"
        text = printed(rows, token)
        found = read(reader, text, token, piece=piece)
        assert found == parse.jobs(text, fields=FIELDS, token=token, command=COMMAND)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-1],
        lambda text: text[: len(text) // 3],
        lambda text: text + "more",
        lambda text: text.replace(f"PENDING{TOKEN}", "PENDING", 1),
        lambda text: text.replace(f"PENDING{TOKEN}", f"PENDING{TOKEN}{TOKEN}", 1),
        lambda text: text.replace("1795247000", "soon", 1),
    ],
    ids=["no end", "a third", "more", "a field less", "a field more", "no number"],
)
@pytest.mark.parametrize("piece", [1, 1 << 16])
def test_a_damaged_text_is_not_read(damage: Callable[[str], str], piece: int) -> None:
    reader = JobReader()
    text = printed([ROW, ROW | {"JobArrayID": "18"}], TOKEN)
    before = read(reader, text, piece=piece)
    with pytest.raises(ValueError, match=r"break|fields|could not convert"):
        read(reader, damage(text), piece=piece)
    assert read(reader, text, piece=piece) == before


def test_only_a_piece_of_a_known_text_is_kept() -> None:
    reader = JobReader()
    text = printed([ROW | {"JobArrayID": str(number)} for number in range(4000)], TOKEN)
    first = read(reader, text)
    pieces = [text[begin : begin + 1000].encode() for begin in range(0, len(text), 1000)]
    tracemalloc.start()
    try:
        coming = reader.begin(FIELDS, TOKEN)
        for piece in pieces:
            coming.take(piece)
        kept_bytes, _ = tracemalloc.get_traced_memory()
        again = reader.jobs(coming).jobs
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(old is new for old, new in zip(first, again, strict=True))
    # A key and a reference for each row.
    assert kept_bytes < 100 * len(first)
    assert most_bytes < len(text) / 2


def test_hardware_is_compared_without_states() -> None:
    lines = [
        f"NodeName=n{number} CPUTot=2 RealMemory=1000 State=IDLE ActiveFeatures=(null) Gres=(null)"
        for number in (1, 2)
    ]
    nodes = parse_cluster.nodes(lines, command=COMMAND)
    busy = parse_cluster.nodes([line.replace("IDLE", "MIXED") for line in lines], command=COMMAND)
    larger = parse_cluster.nodes([line.replace("=1000", "=2000") for line in lines], command=COMMAND)
    assert nodes != busy
    assert parse_cluster.same_hardware(nodes, busy)
    assert not parse_cluster.same_hardware(nodes, larger)
    assert not parse_cluster.same_hardware(nodes, nodes[:1])
    assert not parse_cluster.same_hardware(nodes, nodes[::-1])
