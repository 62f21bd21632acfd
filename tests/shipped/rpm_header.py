"""Reads the header of an rpm. Most machines with dpkg have no program rpm."""

import stat
import struct
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

_LEAD_BYTES = 96
_MAGIC = b"\x8e\xad\xe8"
_NUMBERS = {3: "H", 4: "I"}
"""The types of numbers, as `struct` calls them."""
_TEXTS = frozenset({6, 8, 9})
_CONFIG_NOREPLACE = 1 | 16


class RpmTag(IntEnum):
    """The numbers of the tags that tests look at."""

    SUMMARY = 1004
    LICENCE = 1014
    ARCHITECTURE = 1022
    FILE_MODES = 1030
    FILE_FLAGS = 1037
    NEEDS = 1049
    FOLDER_INDEXES = 1116
    NAMES = 1117
    FOLDERS = 1118
    RECOMMENDS = 5046


@dataclass(frozen=True, slots=True)
class RpmFile:
    """A file or a folder of a package. `kept`: an upgrade does not replace it where it was changed."""

    folder: bool
    kept: bool


@dataclass(frozen=True, slots=True)
class RpmHeader:
    """The values of a package's tags."""

    texts: dict[int, list[str]]
    numbers: dict[int, list[int]]

    def files(self) -> dict[str, RpmFile]:
        """What the package has, by its path."""
        folders = self.texts[RpmTag.FOLDERS]
        columns = (RpmTag.FOLDER_INDEXES, RpmTag.FILE_MODES, RpmTag.FILE_FLAGS)
        rows = zip(self.texts[RpmTag.NAMES], *(self.numbers[tag] for tag in columns), strict=True)
        return {
            folders[index] + name: RpmFile(stat.S_ISDIR(mode), flags == _CONFIG_NOREPLACE)
            for name, index, mode, flags in rows
        }


def read_header(package: Path) -> RpmHeader:
    """The header of a package. It follows the lead and the signature, which has the form of a header."""
    data = package.read_bytes()
    _, end = _section(data, _LEAD_BYTES)
    header, _ = _section(data, end + -end % 8)
    return header


def _section(data: bytes, start: int) -> tuple[RpmHeader, int]:
    """A header that begins at `start`, and where it ends."""
    assert data[start : start + 3] == _MAGIC
    count, size = struct.unpack_from(">II", data, start + 8)
    values = start + 16 + 16 * count
    header = RpmHeader({}, {})
    for entry in range(start + 16, values, 16):
        tag, kind, offset, many = struct.unpack_from(">IIII", data, entry)
        if kind in _NUMBERS:
            header.numbers[tag] = list(struct.unpack_from(f">{many}{_NUMBERS[kind]}", data, values + offset))
        elif kind in _TEXTS:
            texts = data[values + offset : values + size].split(b"\0", many)[:many]
            header.texts[tag] = [text.decode() for text in texts]
    return header, values + size
