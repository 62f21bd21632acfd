"""Files of sacct and scontrol as they lie on the disk: compressed, cut off, or something else."""

import bz2
import gzip
import lzma
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.simharness.history import reading
from makeway.simharness.history.loading import PastPeriod, load_history
from makeway.simharness.history.reading import machine_text
from makeway.simharness.history.source import HistoryError, HistorySource
from tests.simharness.history.test_loading import HEADER, URGENT, jobs, row, source

__all__ = ["source"]
Compress = Callable[[bytes], bytes]
RUNS = [row(number, eligible=10, start=30, end=130) for number in range(100, 1100)]
TEXT = "\n".join([HEADER, *RUNS, URGENT]) + "\n"
EVERY = pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])


def written(source: HistorySource, content: bytes, name: str = "jobs.txt.gz") -> PastPeriod:
    path = source.exports[0].with_name(name)
    path.write_bytes(content)
    return load_history(replace(source, exports=(path,)))


def refused(source: HistorySource, content: bytes, name: str = "jobs.txt.gz") -> str:
    """The complaint, without the name of the file."""
    path = source.exports[0].with_name(name)
    with pytest.raises(HistoryError, match=rf"^{re.escape(str(path))}: ") as caught:
        written(source, content, name)
    return str(caught.value).removeprefix(f"{path}: ")


@EVERY
@pytest.mark.parametrize("name", ["jobs.txt.gz", "jobs.txt.bz2", "jobs.txt.xz", "jobs.txt", "jobs"])
def test_a_compressed_export_is_that_of_the_plain_file(
    source: HistorySource, compress: Compress, name: str
) -> None:
    plain = written(source, TEXT.encode(), "plain.txt")
    found = written(source, compress(TEXT.encode()), name)
    assert jobs(found) == jobs(plain)
    assert len(jobs(found)) == 1001
    assert (found.past, found.to_s, found.left_out) == (plain.past, plain.to_s, plain.left_out)


def test_jobs_of_two_clusters_are_refused(source: HistorySource) -> None:
    header = f"{HEADER};Cluster"
    lines = [header, f"{RUNS[0]};north", f"{URGENT};south"]
    words = "line 3: Cluster 'south' after 'north'; accepted: the jobs of one cluster (sacct --local)"
    assert refused(source, "\n".join(lines).encode(), "jobs.txt") == words
    other = source.exports[0].with_name("other.txt")
    other.write_text(f"{HEADER}\n{URGENT}")  # of an older makeway
    written(source, "\n".join([*lines[:2], f"{URGENT};north"]).encode(), "jobs.txt")
    load_history(replace(source, exports=(other, source.exports[0], other)))
    other.write_text("\n".join([header, lines[2]]))
    written(source, "\n".join([*lines[:2], f"{URGENT};north"]).encode(), "jobs.txt")
    with pytest.raises(HistoryError, match=re.escape(f"{other}: line 2: Cluster 'south' after 'north'")):
        load_history(replace(source, exports=(source.exports[0], other)))


@EVERY
def test_an_export_that_breaks_off_is_refused(source: HistorySource, compress: Compress) -> None:
    packed = compress(TEXT.encode())
    for size in (len(packed) // 2, len(packed) - 3):
        words = r"line \d+: the (gzip|bzip2|xz) stream breaks off here; accepted: a whole file"
        assert re.fullmatch(words, refused(source, packed[:size]))


@pytest.mark.parametrize(
    ("compress", "place"), [(gzip.compress, -6), (bz2.compress, -4), (lzma.compress, -1)]
)
def test_a_damaged_export_is_refused(source: HistorySource, compress: Compress, place: int) -> None:
    packed = bytearray(compress(TEXT.encode()))
    packed[place] ^= 1
    assert re.match(r"line \d+: the \w+ stream is damaged \(", refused(source, bytes(packed)))


@pytest.mark.parametrize(("suffix", "name"), [(".gz", "gzip"), (".bz2", "bzip2"), (".xz", "xz")])
def test_a_plain_export_with_the_name_of_a_compressed_one_is_refused(
    source: HistorySource, suffix: str, name: str
) -> None:
    assert refused(source, TEXT.encode(), f"jobs{suffix}") == (
        f"is named {suffix} and does not begin like {name}; accepted: a file that sacct has written, plain, "
        "gzip, bzip2 or xz"
    )


def test_what_is_not_read_is_named(source: HistorySource, tmp_path: Path) -> None:
    assert refused(source, b"PK\x03\x04\x14\0", "jobs.zip").startswith("is compressed by zip; accepted: a ")
    assert refused(source, b"\x28\xb5\x2f\xfd\x24", "jobs.zst").startswith("is compressed by zstd; accepted")
    assert refused(source, TEXT.encode("utf-16"), "jobs.txt") == "is text in UTF-16; accepted: UTF-8"
    with pytest.raises(HistoryError, match="is a directory; accepted: a file that sacct has written"):
        load_history(replace(source, exports=(tmp_path,)))


@pytest.mark.parametrize("content", [b"", gzip.compress(b"", mtime=0)], ids=["plain", "gzip"])
def test_an_empty_file_is_called_so(source: HistorySource, tmp_path: Path, content: bytes) -> None:
    assert refused(source, content, "jobs") == (
        "is empty; accepted: a file that sacct has written, plain, gzip, bzip2 or xz"
    )
    (tmp_path / "machine.txt").write_bytes(content)
    with pytest.raises(HistoryError, match=r"machine.txt: is empty; accepted: a file that scontrol"):
        machine_text(tmp_path / "machine.txt")


def test_an_export_that_expands_without_end_is_refused(
    source: HistorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "TEXT_MOST", 50_000)
    assert refused(source, gzip.compress(TEXT.encode())) == (
        "line 428: the file expands to more than is read; "
        "accepted: up to 50,000 characters, or the plain file"
    )
    assert len(jobs(written(source, TEXT.encode(), "plain.txt"))) == 1001


@pytest.mark.parametrize("compress", [gzip.compress, bytes])
def test_a_line_that_does_not_end_is_refused(source: HistorySource, compress: Compress) -> None:
    content = f"{HEADER}\n{URGENT}\n".encode() + bytes(3 << 20)
    assert refused(source, compress(content), "jobs.txt") == (
        "line 3: it does not end; accepted: a file that sacct has written"
    )


@EVERY
def test_the_text_about_the_machine_may_be_compressed(tmp_path: Path, compress: Compress) -> None:
    path = tmp_path / "machine.txt"
    path.write_bytes(compress(b"SelectType=select/linear\nNodeName=n0\n"))
    assert machine_text(path) == "SelectType=select/linear\nNodeName=n0\n"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(HistoryError, match=r"line \d+: the \w+ stream breaks off here"):
        machine_text(path)
