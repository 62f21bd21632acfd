"""What a history is made from: files, the machine, and how the jobs are classed."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from makeway.adapters.site.job_class import JobClass
from makeway.daemon.errors import OneProblem
from makeway.policies.model import Limits
from makeway.simharness.workloads.classes import ClassRule

HASH_BYTES = 5


class HistoryError(OneProblem):
    """An export, or an option about it, that cannot be used. The message names the file and the line, or the
    option, and what is accepted.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySource:
    """Where a history comes from. A value that another process can be given."""

    exports: tuple[Path, ...]
    """What `sacct` printed; several files are several periods."""
    machine: Path | None = None
    """What `scontrol` printed of the machine. None: `node_count` says how large it is."""
    node_count: int | None = None
    node: tuple[tuple[str, int], ...] | None = None
    """What each of `node_count` nodes has, where jobs share nodes. None: they are given as a whole."""
    config: Path | None = None
    """A configuration, whose classes and limits count. None: see `classes`."""
    classes: tuple[ClassRule, ...] = ()
    """Which jobs are urgent, and which may be evicted."""
    start_within_s: float | None = None
    """When the start of an urgent job is on time. None: as its class says, else the policy's default."""
    partition: str | None = None
    """Only the jobs and nodes of this partition. None: all."""
    from_s: float | None = None
    """Jobs that could start before this time run but are not measured. None: the first end of a job in the
    export."""
    to_s: float | None = None
    """Jobs that could start only at this time or later are left out. None: all are kept."""
    zone: str | None = None
    """Time zone of times without one. None: times are seconds since 1970."""
    salt: str | None = None
    """In what is written, users and accounts are replaced by a hash with this key. None: they keep their
    names. Limits and policies always see the names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRules:
    """What a configuration says about jobs."""

    classes: tuple[JobClass, ...] | None
    """In order. None: there is no configuration."""
    limits: Limits | None
    """None: there is no configuration."""
    policy: str | None
    """The name, or the file, of its policy. None: there is no configuration."""
    policy_settings: Mapping[str, object]


def site_rules(config: Path | None) -> SiteRules:
    """The rules of a configuration file.

    Raises:
        ConfigError: the file has problems.
        HistoryError: its cluster has no classes of jobs.
    """
    if config is None:
        return SiteRules(classes=None, limits=None, policy=None, policy_settings={})
    from makeway.adapters.site.class_sections import JobClassSettings
    from makeway.daemon.config.load import load
    from makeway.daemon.config.policy_finder import SUFFIX

    found = load(config).settings
    sections: tuple[JobClassSettings, ...] = getattr(found.adapter, "classes", ())
    if not sections:
        raise HistoryError(f"{config}: adapter.classes is empty; accepted: at least one class of jobs")
    name = found.policy.name
    return SiteRules(
        classes=tuple(one.to_class() for one in sections),
        limits=found.limits.to_limits(),
        policy=str(config.absolute().parent / name) if name.endswith(SUFFIX) else name,
        policy_settings=found.policy.settings,
    )


def hidden(name: str, prefix: str, salt: str | None) -> str:
    """A name, or what stands for it where names are hidden: the same for the same name and key.

    Args:
        name: the name; an empty one stays empty.
        prefix: what the hash begins with.
        salt: the key. None: the name itself.
    """
    if salt is None or not name:
        return name
    key = blake2b(salt.encode(), digest_size=32).digest()
    return f"{prefix}-{blake2b(name.encode(), key=key, digest_size=HASH_BYTES).hexdigest()}"
