"""Slurm's expressions over node features (`--constraint`): which nodes satisfy one.

The grammar is that of sbatch's manual: names joined by `&` (or a comma) and `|` of equal rank, from left to
right, with parentheses, and `[a|b]` for nodes that all have the same one of several features. What cannot be
said of a node by itself, such as `a*2&b*3`, is satisfied by no node: it is better to make no room than the
wrong room.
"""

import re
from collections.abc import Callable, Mapping

_TOKEN = re.compile(r"[&|()\[\]]|[^&|()\[\]]+")
_MOST_ALTERNATIVES = 64
"""How many are looked at. Slurm's users write two or three."""
_FEATURE = re.compile(r"[\w.\-=:+/]+")


def alternatives(expression: str) -> tuple[str, ...]:
    """The expressions that `[a|b]` leaves to choose from, without brackets: of each, a job gets all nodes."""
    before, bracket, rest = expression.partition("[")
    inner, closed, after = rest.partition("]")
    if not (bracket and closed):
        return (expression,)
    later = alternatives(after)[:_MOST_ALTERNATIVES]
    return tuple(f"{before}({part}){end}" for part in _split(inner) for end in later)[:_MOST_ALTERNATIVES]


def satisfying(expression: str, features: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The nodes that satisfy the expression; all of them if it is empty, none if it cannot be understood.

    `features` has the features of every node. Of the groups that `[a|b]` leaves to choose from, the largest
    is taken, of equal ones the first.
    """
    if not expression:
        return frozenset(features)
    try:
        # A comma is another word for `&`.
        ways = [_TOKEN.findall(one.replace(",", "&")) for one in alternatives(expression)]
        groups = [_Parser(tokens, features).whole() for tokens in ways]
    except (ValueError, RecursionError):
        return frozenset()
    return max(groups, key=len)


def _split(inner: str) -> list[str]:
    """The parts of `a|(b|c)&d` between bars that are in no parentheses."""
    parts, depth = [""], 0
    for token in _TOKEN.findall(inner):
        depth += (token == "(") - (token == ")")
        if token == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return parts


class _Parser:
    """Recursive descent over the tokens; every level gives the set of nodes that satisfy it."""

    def __init__(self, tokens: list[str], features: Mapping[str, frozenset[str]]) -> None:
        self._tokens = tokens
        self._features = features
        self._at = 0

    def whole(self) -> frozenset[str]:
        """The whole expression. Raises ValueError if it is none."""
        found = self._joined()
        if self._at < len(self._tokens):
            raise ValueError(f"no feature expression: {self._tokens!r}")
        return found

    def _joined(self) -> frozenset[str]:
        found = self._one()
        while (operator := self._peek()) in {"&", "|"}:
            self._at += 1
            other = self._one()
            found = found & other if operator == "&" else found | other
        return found

    def _one(self) -> frozenset[str]:
        token = self._peek()
        self._at += 1
        if token == "(":
            return self._closed(")", self._joined)
        if not _FEATURE.fullmatch(token):
            raise ValueError(f"no feature: {token!r}")
        return frozenset(name for name, has in self._features.items() if token in has)

    def _closed(self, bracket: str, inner: Callable[[], frozenset[str]]) -> frozenset[str]:
        found = inner()
        if self._peek() != bracket:
            raise ValueError(f"{bracket} is missing")
        self._at += 1
        return found

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""
