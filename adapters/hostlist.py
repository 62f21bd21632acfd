"""Slurm's host lists (`n[1-3,7]`), by ClusterShell."""

import re
from collections.abc import Iterable
from functools import lru_cache

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

_NO_NODES = frozenset({"", "(null)", "None", "N/A", "None assigned"})

_RANGE = re.compile(r"(\d+)-(\d+)")
_PART = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
"""A part of a host list between commas that are in no brackets."""
_ENDS_IN_TEXT = re.compile(r"\][^\]]+$")
_LONGEST = 120_000
"""Linux takes no word of a command that has more than 131,071 bytes."""
_MOST_NAMES = 1 << 17
"""More than any cluster has nodes; Slurm itself expands no range beyond 65,536."""


@lru_cache(maxsize=1 << 14)
def expand(text: str) -> tuple[str, ...]:
    """The names in a host list, sorted as Slurm sorts them, numbers by value; none for Slurm's words for
    nothing.

    Raises:
        ValueError: it is no host list.
    """
    if text in _NO_NODES:
        return ()
    # The set operators and groups of ClusterShell mean nothing to Slurm.
    if any(character in "@!&^*% \t\n" for character in text):
        raise ValueError(f"no host list: {text!r}")
    # A user may ask for any list of nodes: n[1-999999999] must not take all memory.
    if any(len(last) > 9 or int(last) - int(first) > _MOST_NAMES for first, last in _RANGE.findall(text)):
        raise ValueError(f"a host list with more than {_MOST_NAMES} names: {text!r}")
    try:
        # Without a resolver nothing is looked up: a resolver may read files and run commands.
        names = NodeSet(_RANGE.sub(_one_width, text), resolver=RESOLVER_NOGROUP)
        if len(names) > _MOST_NAMES:
            raise ValueError(f"a host list with more than {_MOST_NAMES} names: {text!r}")
        return tuple(names)
    except NodeSetException as error:
        raise ValueError(f"no host list: {text!r} ({error})") from None


def _one_width(found: re.Match[str]) -> str:
    """A range whose leading zeros run out (Slurm: 098-1001), as ClusterShell wants it: 098-999,1000-1001."""
    first, last = found.groups()
    if not first.startswith("0") or len(last) <= len(first):
        return found.group()
    return f"{first}-{'9' * len(first)},{10 ** len(first)}-{last}"


def fold(names: Iterable[str]) -> str:
    """The names as one host list, short enough for a command line. Empty for no names.

    22.05 takes no list such as `n[1-2]-ib` or `r[1-2]c1`, in which text follows the last bracket, as tried:
    these names are written one by one, unless the list gets too long for a command. 24.11 and 26.05 take it.
    """
    folded = str(NodeSet.fromlist(sorted(set(names)), resolver=RESOLVER_NOGROUP))
    plain = ",".join(
        ",".join(expand(part)) if _ENDS_IN_TEXT.search(part) else part for part in _PART.findall(folded)
    )
    return plain if len(plain) <= _LONGEST else folded


def batch_host_first(names: tuple[str, ...], batch_host: str) -> tuple[str, ...]:
    """The same names, with the batch host in front if it is one of them."""
    if batch_host not in names:
        return names
    return (batch_host, *(name for name in names if name != batch_host))
