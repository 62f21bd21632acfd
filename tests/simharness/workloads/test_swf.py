"""The format itself: which lines are sound, and what is said of those that are not."""

import bz2
import gzip
import lzma
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.simharness.workloads.swf import Columns, SwfReader, TraceError

HEADER = "; Version: 2.2\n; MaxNodes: 100\n; MaxProcs: 100\n"
LINE = "7 60 5 300 4 -1 -1 4 600 -1 1 11 12 -1 -1 -1 -1 -1"


def with_field(number: int, text: str) -> str:
    fields = LINE.split()
    fields[number - 1] = text
    return " ".join(fields)


def written(folder: Path, content: str | bytes, name: str = "trace.swf") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows(path: Path, *, skip_bad: bool = False) -> tuple[list[str], SwfReader]:
    reader = SwfReader(path=path, skip_bad=skip_bad)
    return [job_id for block in reader.blocks() for job_id in block.job_id], reader


def attempt(path: Path, *, skip_bad: bool) -> tuple[list[str], SwfReader] | TraceError:
    try:
        return rows(path, skip_bad=skip_bad)
    except TraceError as error:
        return error


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (
            LINE + " 9",
            "19 fields ('7 60 5 300 4 -1 -1 4 600 -1 1 11 12 -1 -1 -1 -1 -1 9'); accepted: 18 numbers",
        ),
        ("7 60 5", "3 fields ('7 60 5'); accepted: 18 numbers"),
        ("7,60,5,300", "1 field ('7,60,5,300'); accepted: 18 numbers"),
        (with_field(1, "-1"), "field 1 (job number): '-1'; accepted: a whole number from 0"),
        (with_field(1, "7.5"), "field 1 (job number): '7.5'"),
        (with_field(2, "-60"), "field 2 (submit time): '-60'; accepted: seconds from 0"),
        (with_field(2, "1e300"), "field 2 (submit time): '1e300'"),
        (with_field(3, "-2"), "field 3 (wait time): '-2'"),
        (
            with_field(4, "nan"),
            "field 4 (run time): 'nan'; accepted: seconds from 0 to 1e+10, or -1 for unknown",
        ),
        (with_field(4, "-5"), "field 4 (run time): '-5'"),
        (with_field(5, "4.5"), "field 5 (allocated processors): '4.5'; accepted: a whole number"),
        (with_field(5, "1e9"), "field 5 (allocated processors): '1e9'"),
        (with_field(6, "x"), "field 6 (average CPU time): 'x'; accepted: a number"),
        (with_field(8, "1_0"), "field 8 (requested processors): '1_0'"),
        (with_field(9, "inf"), "field 9 (requested time): 'inf'"),
        (with_field(12, "root"), "field 12 (user): 'root'; accepted: a number"),
        (with_field(18, "nan"), "field 18 (think time): 'nan'"),
        (with_field(4, "٣٠٠"), r"field 4 (run time): '\u0663\u0660\u0660'"),
        (with_field(4, "9" * 400), f"field 4 (run time): '{'9' * 57}...'"),
        (with_field(4, "3\x1b[31m0"), "field 4 (run time): '3?[31m0'"),
        ("; MaxProcs: many", "header MaxProcs: 'many'; accepted: a whole number below 1e+08, or -1"),
        ("; MaxNodes: 1e300", "header MaxNodes: '1e300'"),
        ("; MaxNodes: -40", "header MaxNodes: '-40'"),
        ("; UnixStartTime: 99999999999", "header UnixStartTime: '99999999999'"),
    ],
)
def test_damage_is_named_and_can_be_counted(tmp_path: Path, line: str, complaint: str) -> None:
    path = written(tmp_path, f"{HEADER}{LINE}\n{line}\n{with_field(1, '8')}\n")
    with pytest.raises(TraceError) as caught:
        rows(path)
    message = str(caught.value)
    assert message.startswith(f"{path}, line 5: {complaint}")
    assert "\n" not in message
    assert "accepted: " in message

    ids, reader = rows(path, skip_bad=True)
    assert ids == ["7", "8"]
    assert reader.bad == 1


def test_two_lines_that_only_together_have_the_right_number_of_fields_are_both_damaged(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, f"{LINE} 8\n{LINE.split(' ', 1)[1]}\n")
    ids, reader = rows(path, skip_bad=True)
    assert ids == []
    assert reader.bad == 2


def test_the_line_number_counts_every_block(tmp_path: Path) -> None:
    lines = [with_field(1, str(number)) for number in range(5000)]
    lines[4321] = with_field(2, "later")
    with pytest.raises(TraceError, match=r"line 4325: field 2 \(submit time\): 'later'"):
        rows(written(tmp_path, HEADER + "\n".join(lines)))


def test_comments_blank_lines_and_foreign_line_ends_may_stand_anywhere(tmp_path: Path) -> None:
    text = f"{HEADER}\r\n  {LINE}\r\n\r\n ; a remark: 5\r\n\t{with_field(1, '8')}"
    ids, reader = rows(written(tmp_path, text))
    assert ids == ["7", "8"]
    assert reader.bad == 0


def test_numbers_may_be_followed_by_words_in_the_header(tmp_path: Path) -> None:
    text = (
        f"; MaxNodes: 338 (batch partition; 512 total)\n; MaxProcs: -1\n; UnixStartTime: 835823160\n{LINE}\n"
    )
    _, reader = rows(written(tmp_path, text))
    assert reader.header.max_nodes == 338
    assert reader.header.max_procs is None
    assert reader.header.start_epoch_s == 835823160


@pytest.mark.parametrize("value", ["1,024", "64,32", "1.024", "1e3"])
def test_numbers_with_separators_are_refused_in_the_header(tmp_path: Path, value: str) -> None:
    path = written(tmp_path, f"; MaxNodes: {value}\n{LINE}\n")
    message = f"line 1: header MaxNodes: '{value}'; accepted: a whole number below .* without separators"
    with pytest.raises(TraceError, match=message):
        rows(path)


@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_is_skipped(tmp_path: Path, packed: bool) -> None:
    content = f"\ufeff{HEADER}{LINE}\n".encode()
    ids, reader = rows(written(tmp_path, gzip.compress(content) if packed else content))
    assert ids == ["7"]
    assert reader.bad == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            bz2.compress(LINE.encode()),
            "is compressed by bzip2; accepted: an SWF file, plain or gzip",
        ),
        (lzma.compress(LINE.encode()), "is compressed by xz; accepted"),
        (b"\x28\xb5\x2f\xfd\x24", "is compressed by zstd; accepted"),
        (b"PK\x03\x04\x14\x00", "is compressed by zip; accepted"),
        (LINE.encode("utf-16"), "is text in UTF-16; accepted: UTF-8"),
    ],
    ids=["bzip2", "xz", "zstd", "zip", "utf-16"],
)
def test_what_is_not_read_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(TraceError, match=f"^{re.escape(str(path))}: {words}"):
        rows(path)


def test_columns_hold_the_fields_of_their_names(tmp_path: Path) -> None:
    path = written(tmp_path, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18\n")
    assert list(SwfReader(path=path).blocks()) == [
        Columns(
            job_id=["1"],
            submit_s=[2.0],
            wait_s=[3.0],
            run_s=[4.0],
            allocated=[5.0],
            requested=[8.0],
            requested_s=[9.0],
            requested_kb=[10.0],
            status=[11.0],
            user=["12"],
            group=["13"],
            queue=["15"],
            partition=["16"],
        )
    ]


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    packed = gzip.compress(f"{HEADER}{LINE}\n".encode())
    for name in ("trace.swf.gz", "trace.swf", "trace"):
        assert rows(written(tmp_path, packed, name))[0] == ["7"]


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    cases = {
        tmp_path / "absent.swf": "cannot be read: No such file or directory; accepted: an SWF file",
        tmp_path: "is a directory; accepted: an SWF file",
        tmp_path / "nul\0byte": "cannot be read: ",
        written(tmp_path, b"", "empty.swf"): "is empty; accepted: an SWF file",
        written(tmp_path, b"", "empty.swf.gz"): "is empty",
        written(tmp_path, gzip.compress(b""), "void.swf.gz"): "is empty",
        written(tmp_path, LINE, "plain.swf.gz"): "is named .gz and does not begin like gzip",
        written(
            tmp_path, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "picture.png"
        ): r", line 1: 1 field ('\ufffdPNG')",
        written(tmp_path, "id,submit\n1,2\n", "table.csv"): ", line 1: 1 field ('id,submit')",
    }
    for path, complaint in cases.items():
        with pytest.raises(TraceError) as caught:
            rows(path)
        assert complaint in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_stream_that_breaks_off_gives_the_lines_before_on_request(tmp_path: Path) -> None:
    lines = [with_field(1, str(number * 7919 % 100_000)) for number in range(20_000)]
    packed = gzip.compress((HEADER + "\n".join(lines)).encode())
    path = written(tmp_path, packed[: len(packed) // 2], "half.swf.gz")
    with pytest.raises(
        TraceError, match=r"line \d+: the gzip stream breaks off here; accepted: a whole file"
    ):
        rows(path)
    ids, reader = rows(path, skip_bad=True)
    assert reader.bad == 1
    assert 1000 < len(ids) < 20_000
    assert ids == [line.split()[0] for line in lines[: len(ids)]]


def test_a_stream_whose_checksum_is_wrong_is_damaged(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(f"{HEADER}{LINE}\n".encode()))
    packed[-6] ^= 1
    path = written(tmp_path, bytes(packed), "wrong.swf.gz")
    with pytest.raises(TraceError, match="the gzip stream is damaged"):
        rows(path)
    ids, reader = rows(path, skip_bad=True)
    assert (ids, reader.bad) == (["7"], 1)


@settings(deadline=None, max_examples=300)
@given(data=st.data(), packed=st.booleans(), skip_bad=st.booleans())
def test_random_damage_is_a_trace_error_or_none(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, packed: bool, skip_bad: bool
) -> None:
    whole = (HEADER + "\n".join(with_field(1, str(number)) for number in range(30))).encode()
    content = bytearray(gzip.compress(whole) if packed else whole)
    for _ in range(data.draw(st.integers(0, 6))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    path = written(
        tmp_path_factory.getbasetemp(), bytes(content), "damaged.swf.gz" if packed else "damaged.swf"
    )
    match attempt(path, skip_bad=skip_bad):
        case TraceError() as error:
            assert str(path) in str(error)
            assert "\n" not in str(error)
            # With skip_bad only what is no trace at all still raises.
            no_trace = ("is empty", "does not begin like gzip", "is text in UTF-16", "is compressed by")
            assert not skip_bad or any(words in str(error) for words in no_trace)
        case (ids, reader):
            assert all(job_id.isdigit() for job_id in ids)
            assert skip_bad or reader.bad == 0


_TEXTS = st.one_of(
    st.integers(-3, 10**10).map(str),
    st.floats(width=32).map(repr),
    st.sampled_from(["-1", "0", "1e9", "nan", "-inf", ";", "x", "1_0", "", "4.0", "+4", "\x0b", "\x85"]),
)


@settings(deadline=None, max_examples=300)
@given(
    changes=st.lists(
        st.one_of(st.none(), st.tuples(st.integers(1, 18), _TEXTS), st.sampled_from(["", "; note", "1 2"])),
        max_size=12,
    )
)
def test_a_line_is_judged_alike_alone_and_among_others(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, str] | str | None],
) -> None:
    lines = []
    for change in changes:
        match change:
            case None:
                lines.append(LINE)
            case str():
                lines.append(change)
            case (number, text):
                lines.append(with_field(number, text))
    folder = tmp_path_factory.getbasetemp()
    expected: list[str] = []
    bad = 0
    for line in lines:
        ids, reader = rows(written(folder, line + "\n", "one.swf"), skip_bad=True)
        expected += ids
        bad += reader.bad
    ids, reader = rows(written(folder, "\n".join([*lines, ";"]), "all.swf"), skip_bad=True)
    assert ids == expected
    assert reader.bad == bad
