"""Long lists of squeue, read while squeue prints them: no more than a piece of the text is kept at once."""

from collections.abc import Iterator, Mapping
from functools import partial
from hashlib import blake2b

from makeway.adapters.slurm.parse import RawJob, job_of
from makeway.adapters.slurm.reader.alike import AlikeTasks, ListedJobs


class RowReader:
    """Divides a text that comes in pieces into rows of `width` cells, each cell followed by `token`.

    Only the caller knows the token: a user who writes a new line begins no row. The first cell has no user's
    words, so that a new line in it ends a warning that was printed before the row.

    Args:
        token: what follows each cell.
        width: how many cells a row has.
        alike: what finds the rows that are left out. None: none are.
    """

    def __init__(self, token: str, width: int, alike: AlikeTasks | None = None) -> None:
        self._token = token.encode()
        self._row_end = self._token + b"\n"
        self._width = width
        self._alike = alike
        self._rest = bytearray()
        """The beginning of a row whose end has not come yet."""
        self._seen = 0
        """In how much of it the end of the row was sought."""
        self._problem: str | None = None

    def rows(self, piece: bytes) -> Iterator[bytearray]:
        """The rows that end in the next piece, without the token at their end. What follows a row with too
        many cells is not read: see `end`.
        """
        if self._problem is not None:
            return
        text = self._rest
        text += piece
        begin, seek = 0, self._seen
        while (end := text.find(self._row_end, seek)) >= 0:
            if self._alike is not None and self._alike.is_other(text, begin, end):
                begin = seek = end + len(self._row_end)
                continue
            row = text[begin:end]
            count = row.count(self._token) + 1
            if count > self._width:
                self._problem = f"{count} fields in a row instead of {self._width}"
                return
            seek = end + len(self._row_end)
            if count == self._width:
                if row.find(b"\n", 0, row.find(self._token)) >= 0:
                    self._problem = f"a line of its own before the row {bytes(row[:80])!r}"
                    return
                if self._alike is not None:
                    self._alike.keep(row)
                yield row
                begin = seek
            # Else the next cell begins with a new line that a user wrote.
        # The token that ends a row may have come in part.
        self._seen = max(seek, len(text) - len(self._row_end) + 1) - begin
        del text[:begin]

    def end(self) -> None:
        """Say that no piece follows. Raises ValueError if the text was not whole rows."""
        if self._problem is None and self._rest:
            self._problem = f"the text breaks off, or has other fields than {self._width}"
        if self._problem is not None:
            raise ValueError(self._problem)


class JobReader:
    """Reads jobs like `parse.jobs`, and keeps the records of its last text: most rows of a long queue stay
    the same.
    """

    def __init__(self) -> None:
        self._known: Mapping[bytes, RawJob] = {}

    def begin(self, fields: tuple[str, ...], token: str) -> "JobText":
        """Begin to read what squeue prints with `fields`, each followed by `token`."""
        return JobText(self._known, fields, token)

    def jobs(self, text: "JobText") -> ListedJobs:
        """The jobs of a text that has come to its end. Raises KeyError or ValueError if it cannot be read."""
        self._known = {}
        found, self._known = text.jobs()
        return found


class JobText:
    """One text of a `JobReader`, while it comes. A row that is known is not kept, and not read again."""

    def __init__(self, known: Mapping[bytes, RawJob], fields: tuple[str, ...], token: str) -> None:
        self._known = known
        self._token = token
        # No method of this object: it would go with the next collection of garbage only, which is far.
        self._job_of = partial(_job_of, fields=fields, token=token)
        self._alike = AlikeTasks(token.encode(), fields.index("JobArrayID"), self._job_of)
        self._rows = RowReader(token, len(fields), self._alike)
        self._keys: list[bytes] = []
        self._found: list[RawJob | bytes] = []

    def take(self, piece: bytes) -> None:
        """Take the next piece."""
        token = self._token.encode()
        for row in self._rows.rows(piece):
            # Without the token, which is another one in each text. No name contains a zero byte.
            short = bytes(row.replace(token, b"\0"))
            self._keys.append(blake2b(short, digest_size=16).digest())
            unsafe = b"\0" in row
            job = None if unsafe else self._known.get(self._keys[-1])
            self._found.append(job or (bytes(row) if unsafe else short))

    def jobs(self) -> tuple[ListedJobs, Mapping[bytes, RawJob]]:
        """The jobs, and the same by what they were read from. Raises KeyError or ValueError if the text
        cannot be read.
        """
        self._rows.end()
        jobs: list[RawJob] = []
        for number, row in enumerate(self._found):
            job = row if isinstance(row, RawJob) else self._job_of(row)
            self._found[number] = job  # its text is no longer kept
            jobs.append(job)
        listed = ListedJobs(jobs=tuple(jobs), others=self._alike.others())
        return listed, dict(zip(self._keys, jobs, strict=True))


def _job_of(row: bytes, *, fields: tuple[str, ...], token: str) -> RawJob:
    text = row.decode("utf-8", "surrogateescape")
    return job_of(text.split(token if token in text else "\0"), fields)
