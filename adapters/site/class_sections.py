"""The classes of jobs in a configuration. See `sections` for the style of the descriptions."""

import re
from collections import Counter
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    StringConstraints,
    field_validator,
    model_validator,
)

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.site.sections import DAY_S, Section
from makeway.policies.model import Acknowledgement, CheckpointSpec, JobKind, SignalTarget

SiteName = Annotated[str, StringConstraints(max_length=255, pattern=r"^\S(.*\S)?$")]
SiteNames = Annotated[frozenset[SiteName], PlainSerializer(sorted)]
Signal = Literal["HUP", "INT", "QUIT", "ALRM", "USR1", "USR2", "TERM", "URG", "CONT", "TSTP", "TTIN", "TTOU"]
"""Signals that batch systems know by name and that a job can answer."""


class CheckpointSettings(Section):
    """How the jobs of a class checkpoint: `model.CheckpointSpec`, with ranges."""

    interval_s: float | None = Field(
        default=None,
        gt=0,
        le=30 * DAY_S,
        description="seconds above 0, at most 2592000 (30 days), or null if they do not save regularly",
    )
    application_s: float | None = Field(
        default=None,
        ge=0,
        le=DAY_S,
        description="seconds from 0 to 86400, or null if they do not save regularly",
    )
    system_s: float | None = Field(
        default=None,
        ge=0,
        le=DAY_S,
        description="seconds from 0 to 86400, or null if no signal makes them save",
    )
    signal: Signal = Field(
        default="USR1",
        description="USR1, USR2, HUP, INT, QUIT, ALRM, TERM, URG, CONT, TSTP, TTIN or TTOU",
    )
    signal_to: SignalTarget = Field(default=SignalTarget.BATCH, description="batch, steps or both")
    grace_s: float = Field(default=300.0, ge=1, le=DAY_S, description="seconds from 1 to 86400")
    acknowledgement: Acknowledgement = Field(
        default=Acknowledgement.COMMENT, description="comment, requeue, exit or none"
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.system_s is None and self.application_s is None:
            raise ValueError(
                "system_s (the duration of a checkpoint that the signal starts), application_s (that of a "
                "regular one) or both are expected: without them these jobs cannot checkpoint"
            )
        if self.interval_s is not None and self.application_s is None:
            raise ValueError("interval_s needs application_s, the duration of a regular checkpoint")
        if self.system_s is not None and self.grace_s < self.system_s:
            raise ValueError(
                f"grace_s is {self.grace_s:g} and system_s is {self.system_s:g}: a job may not be given less "
                "time than its checkpoint takes"
            )
        return self

    def to_spec(self) -> CheckpointSpec:
        """The same as the model has it."""
        return CheckpointSpec(**{name: getattr(self, name) for name in type(self).model_fields})


class JobClassSettings(Section):
    """Which jobs form a class, and what is true of them: `job_class.JobClass`, with ranges."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}$",
        description="a name of at most 64 letters, digits, `_`, `.` and `-`",
    )
    partitions: SiteNames = Field(default=frozenset(), description="a list of names of partitions")
    qos: SiteNames = Field(default=frozenset(), description="a list of names of QOS")
    accounts: SiteNames = Field(default=frozenset(), description="a list of names of accounts")
    users: SiteNames = Field(default=frozenset(), description="a list of names of users")
    features: SiteNames = Field(default=frozenset(), description="a list of names of node features")
    words: SiteNames = Field(
        default=frozenset(),
        description=(
            "a list of words of small letters, digits and `-` that come after `makeway:` in a comment"
        ),
    )
    kind: JobKind = Field(default=JobKind.RIGID, description="rigid, malleable or on_demand")
    preemptible: bool = Field(default=False, description="true or false")
    node_count_min: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="a whole number of nodes from 1 to 1000000, or null for a job's full size",
    )
    checkpoint: CheckpointSettings | None = Field(
        default=None,
        description=(
            "a mapping with system_s, application_s and so on, or null for jobs that cannot checkpoint"
        ),
    )
    setup_s: float = Field(default=0.0, ge=0, le=DAY_S, description="seconds from 0 to 86400")
    start_within_s: float | None = Field(
        default=None,
        ge=1,
        le=30 * DAY_S,
        description="seconds from 1 to 2592000 (30 days), or null for the policy's default",
    )

    @property
    def conditions(self) -> dict[str, frozenset[str]]:
        """What a job has to fulfil, by the name of the setting; the empty ones are left out."""
        names = ("partitions", "qos", "accounts", "users", "features", "words")
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    @field_validator("words")
    @classmethod
    def _readable(cls, words: frozenset[str]) -> frozenset[str]:
        for word in sorted(words):
            if not re.fullmatch(r"[a-z][a-z0-9\-]*", word, re.ASCII):
                raise ValueError(
                    f"{word!r} is never found: a word has small letters, digits and `-`, and is written "
                    "without `makeway:`"
                )
        return words

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        urgent = self.kind is JobKind.ON_DEMAND
        if urgent and self.preemptible:
            raise ValueError(
                f"class {self.name}: jobs of the kind on_demand are never touched: preemptible is false"
            )
        if urgent and not self.conditions:
            raise ValueError(
                f"class {self.name}: without a condition every job would be of the kind on_demand"
            )
        if self.start_within_s is not None and not urgent:
            raise ValueError(f"class {self.name}: start_within_s is for jobs of the kind on_demand alone")
        if self.node_count_min is not None and self.kind is not JobKind.MALLEABLE:
            raise ValueError(f"class {self.name}: node_count_min is for jobs of the kind malleable alone")
        return self

    def to_class(self) -> JobClass:
        """The same as the adapter has it."""
        return JobClass(
            name=self.name,
            partitions=self.partitions,
            qos=self.qos,
            accounts=self.accounts,
            users=self.users,
            features=self.features,
            words=self.words,
            kind=self.kind,
            preemptible=self.preemptible,
            node_count_min=self.node_count_min,
            checkpoint=None if self.checkpoint is None else self.checkpoint.to_spec(),
            setup_s=self.setup_s,
            start_within_s=self.start_within_s,
        )


def _reached(classes: tuple[JobClassSettings, ...]) -> tuple[JobClassSettings, ...]:
    for name, count in Counter(one.name for one in classes).items():
        if count > 1:
            raise ValueError(f"{count} classes are called {name}: each needs a name of its own")
    for one in classes[:-1]:
        if not one.conditions:
            raise ValueError(
                f"class {one.name} has no condition, so that no job reaches the classes after it"
            )
    return classes


JobClasses = Annotated[tuple[JobClassSettings, ...], AfterValidator(_reached)]
"""The setting `classes` of an adapter."""
