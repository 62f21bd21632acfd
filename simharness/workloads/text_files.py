"""Text files, plain or compressed, and what is wrong with those that cannot be read."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import Final, TextIO

from makeway.daemon.errors import OneProblem


class Compression(StrEnum):
    """How a file may be compressed."""

    GZIP = "gzip"
    BZIP2 = "bzip2"
    XZ = "xz"
    ZSTD = "zstd"  # known, and never read
    ZIP = "zip"  # likewise


_MAGIC: Mapping[Compression, bytes] = MappingProxyType(
    {
        Compression.GZIP: b"\x1f\x8b",
        Compression.BZIP2: b"BZh",
        Compression.XZ: b"\xfd7zXZ",
        Compression.ZSTD: b"\x28\xb5\x2f\xfd",
        Compression.ZIP: b"PK\x03\x04",
    }
)
"""How files begin that are compressed."""
_SUFFIXES: Mapping[Compression, str] = MappingProxyType(
    {Compression.GZIP: ".gz", Compression.BZIP2: ".bz2", Compression.XZ: ".xz"}
)
_Bytes = gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile | BufferedReader
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_TEXT = "utf-8-sig"  # a byte order mark is no text
DAMAGE: Final = (EOFError, zlib.error, lzma.LZMAError, OSError)
"""What reading a file raises if it is damaged, or cannot be read: see `TextFile.complaint`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """What a reader takes, and how it complains."""

    noun: str
    """Such as "an SWF file"."""
    error: type[OneProblem]
    compressions: tuple[Compression, ...] = (Compression.GZIP,)
    """Those that are read."""

    @property
    def accepted(self) -> str:
        """What is accepted, in words."""
        *others, last = ("plain", *self.compressions)
        return f"{self.noun}, {', '.join(others)} or {last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    """An open file."""

    path: Path
    kind: FileKind
    stream: TextIO
    """Its text. Bytes that are not UTF-8 become replacement characters."""
    compression: Compression | None
    """What it is compressed by. None: it is plain."""

    def complaint(self, error: Exception) -> str:
        """What is wrong with the compression at the present place, and what is accepted.

        Args:
            error: one of `DAMAGE`, raised while the stream was read.

        Raises:
            kind.error: the file cannot be read for another reason.
        """
        if isinstance(error, OSError) and error.errno is not None:
            raise _unreadable(self.path, self.kind, error) from error
        words = "breaks off" if isinstance(error, EOFError) else f"is damaged ({shown(str(error))})"
        return f"the {self.compression} stream {words} here; accepted: a whole file"


@contextmanager
def open_text(path: Path, kind: FileKind, *, newline: str | None = None) -> Generator[TextFile]:
    """The file as text, decompressed if it begins like a compressed one, whatever its name.

    Args:
        path: the file.
        kind: what it should be.
        newline: see `io.TextIOWrapper`.

    Raises:
        kind.error: it cannot be read, or is of another form. Reading it may raise `DAMAGE`.
    """
    try:
        raw = path.open("rb")
    except IsADirectoryError:
        raise kind.error(f"{path}: is a directory; accepted: {kind.accepted}") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        raise _unreadable(path, kind, error) from error
    with raw:
        try:
            begin = raw.peek(6)
        except OSError as error:
            raise _unreadable(path, kind, error) from error
        compression = _compression(begin, path, kind)
        with TextIOWrapper(
            _decompressed(raw, compression), encoding=_TEXT, errors="replace", newline=newline
        ) as stream:
            yield TextFile(path=path, kind=kind, stream=stream, compression=compression)


def _unreadable(path: Path, kind: FileKind, error: OSError | ValueError) -> OneProblem:
    cause = error.strerror if isinstance(error, OSError) else None
    return kind.error(f"{path}: cannot be read: {cause or error}; accepted: {kind.accepted}")


def _decompressed(raw: BufferedReader, compression: Compression | None) -> _Bytes:
    match compression:
        case Compression.GZIP:
            return gzip.GzipFile(fileobj=raw)
        case Compression.BZIP2:
            return bz2.BZ2File(raw)
        case Compression.XZ:
            return lzma.LZMAFile(raw)
        case _:
            return raw


def _compression(begin: bytes, path: Path, kind: FileKind) -> Compression | None:
    """What a file that begins so is compressed by. None: nothing."""
    for compression, magic in _MAGIC.items():
        if not begin.startswith(magic):
            continue
        if compression not in kind.compressions:
            raise kind.error(f"{path}: is compressed by {compression}; accepted: {kind.accepted}")
        return compression
    if begin.startswith(_UTF_16):
        raise kind.error(f"{path}: is text in UTF-16; accepted: UTF-8")
    for compression in kind.compressions:
        suffix = _SUFFIXES[compression]
        if path.suffix == suffix and begin:
            raise kind.error(
                f"{path}: is named {suffix} and does not begin like {compression}; accepted: {kind.accepted}"
            )
    return None


def shown(text: str) -> str:
    """Text from a file made fit for one line of a message: printable ASCII, and short."""
    plain = text.strip()[:200].encode("ascii", "backslashreplace").decode("ascii")
    plain = "".join(letter if letter.isprintable() else "?" for letter in plain)
    return plain if len(plain) <= 60 else plain[:57] + "..."
