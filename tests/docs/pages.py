"""The documents, and the commands that they show."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.paths import ROOT

FENCE = re.compile(r"^(`{3,})(\w*)(?: title=\"([^\"]+)\")?$")
PLAIN = ("makeway ", "make ")
"""In a block without a language, what begins a line that is a command."""
_SEPARATORS = frozenset({"|", "||", "&", "&&", ";"})
_REDIRECTIONS = re.compile(r"&?[<>]+&?")

PAGES = sorted(
    path.relative_to(ROOT)
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/*.md", "docs/reference/*.md")
    for path in ROOT.glob(pattern)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    """The line of its first line of text, from 1."""
    language: str
    title: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCommand:
    """A command line that a page shows."""

    page: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in their order."""
    began: tuple[int, str, str | None] | None = None
    kept: list[str] = []
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), start=1):
        fence = FENCE.fullmatch(line.strip())
        if fence is None:
            kept.append(line)
        elif began is None:
            began, kept = (number + 1, fence[2], fence[3]), []
        else:
            yield Block(
                page=page, line=began[0], language=began[1], title=began[2], text="\n".join([*kept, ""])
            )
            began = None
    assert began is None, f"{page}: a block is not closed"


def commands(page: Path) -> Iterator[ShownCommand]:
    """The commands of a page: after a prompt (`$` or `#`) in a console block, and makeway's own elsewhere."""
    for block in blocks(page):
        joined = re.sub(r"\\\n *", lambda found: " " * len(found[0]), block.text)
        line = block.line
        for shown in joined.split("\n"):
            text = _command(block, shown.rstrip())
            if text is not None:
                yield ShownCommand(page=page, line=line, text=text)
            line += 1


def _command(block: Block, line: str) -> str | None:
    if block.language == "console":
        return line[2:] if line.startswith(("$ ", "# ")) else None
    return line if block.language in {"", "sh"} and line.startswith(PLAIN) else None


def programs(text: str) -> Iterator[list[str]]:
    """The words of each program that a command line runs, without redirections, variables and sudo."""
    words: list[str] = []
    for word in [*_words(text), ";"]:
        if word not in _SEPARATORS:
            words.append(word)
            continue
        if words:
            yield _bare(words)
        words = []


def _words(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    found = list(lexer)
    kept: list[str] = []
    skip = False
    for word in found:
        if _REDIRECTIONS.fullmatch(word):
            skip = True  # the file that comes next
        elif skip:
            skip = False
        else:
            kept.append(word)
    return kept


def _bare(words: list[str]) -> list[str]:
    while re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    if words[:2] == ["sudo", "-u"]:
        words = words[3:]
    return [words[0].removeprefix("/opt/makeway/bin/").removeprefix(".venv/bin/"), *words[1:]]
