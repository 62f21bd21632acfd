"""A paper's claims, checked on every seed or trace: a claim holds, fails, or is open."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.table import Table

ResultT = TypeVar("ResultT")


class ClaimStatus(StrEnum):
    """Whether a claim holds."""

    HOLDS = "holds"
    FAILS = "does not hold"
    PARTLY = "partly"  # it holds on some parts and fails on others
    OPEN = "open"  # what was computed does not decide it


STYLES = {
    ClaimStatus.HOLDS: "green",
    ClaimStatus.FAILS: "red",
    ClaimStatus.PARTLY: "yellow",
    ClaimStatus.OPEN: "yellow",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the results of one seed or trace, or of all of them, say of a claim."""

    standing: ClaimStatus
    measured: str
    """The figure, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One sentence of a paper and what was found."""

    key: str
    says: str
    """The paper's claim, with the section."""
    criterion: str
    """When it counts as holding."""
    measured: str
    """The figure over all parts."""
    parts: tuple[tuple[int | str, Finding], ...]
    """The finding of each part of the experiment."""
    unit: str = "seed"
    """What the parts are: seeds, or traces."""
    average: ClaimStatus | None = None
    """The finding on the average over the parts, where the paper speaks of averages. None: every
    part counts.
    """
    preliminary: bool = False
    """Whether too little was computed for a verdict, as by `--quick`."""

    @property
    def standing(self) -> ClaimStatus:
        """The claim's status: it holds if it holds on every part. If it fails on a part, it holds partly
        where it holds on another one, else it fails.

        If there is an average, that decides alone.
        """
        if self.average is not None:
            return self.average
        found = {finding.standing for _, finding in self.parts}
        if ClaimStatus.FAILS in found:
            return ClaimStatus.PARTLY if ClaimStatus.HOLDS in found else ClaimStatus.FAILS
        return ClaimStatus.OPEN if ClaimStatus.OPEN in found else ClaimStatus.HOLDS

    @property
    def verdict(self) -> str:
        """The verdict in words; with several parts that differ, on how many of them it holds."""
        return f"{self._verdict} (preliminary)" if self.preliminary else self._verdict

    @property
    def _verdict(self) -> str:
        holds = sum(finding.standing is ClaimStatus.HOLDS for _, finding in self.parts)
        agree = sum(finding.standing is self.standing for _, finding in self.parts)
        if agree == len(self.parts) or (self.average is None and holds == 0):
            return self.standing.value
        return f"{self.standing.value}: holds on {holds} of {len(self.parts)} {self.unit}s"

    def values(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "key": self.key,
            "says": self.says,
            "criterion": self.criterion,
            "verdict": self.standing.value,
            "preliminary": self.preliminary,
            "measured": self.measured,
            f"{self.unit}s": [
                {self.unit: part, "verdict": finding.standing.value, "measured": finding.measured}
                for part, finding in self.parts
            ],
        }


def check(
    key: str,
    says: str,
    criterion: str,
    finding: Callable[[Sequence[ResultT]], Finding],
    by_seed: Sequence[tuple[int, Sequence[ResultT]]],
    *,
    averaged: bool = False,
) -> Claim:
    """Check a claim on the results of every seed, and take the figure from all of them together.

    `averaged`: the paper speaks of the average over its traces, so that all seeds together decide.
    """
    everything = [result for _, results in by_seed for result in results]
    overall = finding(everything)
    return Claim(
        key=key,
        says=says,
        criterion=criterion,
        measured=overall.measured,
        average=overall.standing if averaged else None,
        parts=tuple((seed, finding(results)) for seed, results in by_seed),
    )


def claims_table(claims: Sequence[Claim]) -> "Table":
    """The claims as a table for the terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text("What the paper claims"), title_justify="left", show_edge=False, show_lines=True)
    table.add_column("verdict", max_width=18)
    table.add_column("the paper")
    table.add_column("measured here")
    for claim in claims:
        table.add_row(
            Text(claim.verdict, style=STYLES[claim.standing]),
            Text(claim.says),
            Text(f"{claim.measured} (wanted: {claim.criterion})"),
        )
    return table
