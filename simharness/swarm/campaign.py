"""Many stories, on several processors, and what they came to together."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.validation import validate
from makeway.policies.model import Operation
from makeway.simharness.run.workers import spread
from makeway.simharness.swarm.law import Law, Violation
from makeway.simharness.swarm.shrinking import shrink
from makeway.simharness.swarm.story import Story, TroubleKind
from makeway.simharness.swarm.telling import Told, tell

YEAR_S = 365.25 * 86400.0
KEPT_IN = "tests/simharness/swarm/kept_stories.py"
"""Where stories are listed that once broke a law."""


@dataclass(slots=True, kw_only=True)
class Campaign:
    """What all stories that were told came to."""

    stories: int = 0
    cluster_s: float = 0.0
    cycles: int = 0
    commands: int = 0
    met: Counter[TroubleKind] = field(default_factory=Counter[TroubleKind])
    checks: Counter[Law] = field(default_factory=Counter[Law])
    broken: Counter[Law] = field(default_factory=Counter[Law])
    """In how many stories each law was broken."""
    failures: list[tuple[Story, Violation]] = field(default_factory=list[tuple[Story, Violation]])
    """Each story that broke a law, with the first violation, in the order in which they were told."""

    def add(self, story: Story, told: Told) -> None:
        """Count one story."""
        self.stories += 1
        self.cluster_s += told.cluster_s
        self.cycles += told.cycles
        self.commands += told.commands
        self.met += told.met
        self.checks += told.checks
        self.broken.update({violation.law for violation in told.violations})
        if told.violations:
            self.failures.append((story, told.violations[0]))

    def lines(self) -> Iterator[str]:
        """The figures, for people."""
        years = self.cluster_s / YEAR_S
        word = "story" if self.stories == 1 else "stories"
        yield (
            f"{self.stories} {word}, {years:.2f} cluster-years, {self.cycles} cycles, "
            f"{self.commands} commands"
        )
        yield "troubles, and how often they had an effect:"
        for kind in TroubleKind:
            yield f"  {kind:<16}{self.met[kind]:>10}"
        yield "laws, how often they were checked, and in how many stories they were broken:"
        for law in Law:
            yield f"  {law:<16}{self.checks[law]:>10}{self.broken[law]:>6}"


@contextmanager
def operations_checked(check: Callable[[Operation], None] | None) -> Generator[None]:
    """Every operation that is written down meanwhile is checked. `check` None: none is."""
    before, Journal.check = Journal.check, check
    try:
        yield
    finally:
        Journal.check = before


def tell_validated(story: Story) -> Told:
    """Tell a story, and check each operation that its daemon writes down.

    Not where the clock is set: then what came later can bear an earlier instant.
    """
    clock = any(trouble.kind is TroubleKind.CLOCK for trouble in story.troubles)
    with operations_checked(None if clock else validate):
        return tell(story)


def tell_all(stories: Iterable[Story], workers: int) -> Iterator[Campaign]:
    """Tell the stories, `workers` at a time. Gives the same campaign after each of them."""
    campaign = Campaign()
    stories = list(stories)
    for place, told in spread(tell_validated, stories, workers):
        campaign.add(stories[place], told)
        yield campaign


def kept_line(story: Story, violation: Violation, troubles: tuple[str, ...]) -> str:
    """The line for `KEPT_IN` by which a test tells a drawn story again. `troubles`: the kinds that were to be
    drawn; empty: all.
    """
    only = f", troubles={troubles!r}" if troubles else ", troubles=ALL"
    only += ", switches=True" if story.switch_nodes is not None else ""
    only += ", components=True" if any(job.het_job_id for job in story.jobs) else ""
    law, broke = violation.law.value, violation.text
    return f"    KeptStory(seed={story.seed}, policy={story.policy!r}{only}, law={law!r}, broke={broke!r}),"


def shortest(story: Story, law: Law) -> Story:
    """The shortest story found that breaks the law as `story` does."""
    return shrink(story, partial(_breaks, law))


def _breaks(law: Law, story: Story) -> bool:
    return any(violation.law is law for violation in tell_validated(story).violations)
