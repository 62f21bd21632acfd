"""The settings and what each accepts. Every description completes the sentence "accepted: ..." of an
error.
"""

import ipaddress
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, create_model, field_validator, model_validator

from makeway.adapters.site.sections import DAY_S, AdapterSection, FilePath, Names, Section
from makeway.daemon.config.mode import Mode
from makeway.daemon.operation.observation import Timeouts
from makeway.policies.model import Limits

SOCKET_PATH_LIMIT = 107
"""Bytes of the path of a Unix socket that Linux takes."""
_ADAPTER = "a mapping with the `type` of an adapter, such as `type: slurm`, and its settings"


class PolicySettings(Section):
    """Which policy decides, and its own settings, which the policy describes."""

    name: str = Field(default="eviction", description="the name of a policy")
    settings: dict[str, Any] = Field(default={}, description="a mapping of the policy's own settings")


class LimitsSettings(Section):
    """The site's limits, for every policy: `model.Limits`, with ranges."""

    min_runtime_s: float = Field(
        default=0.0, ge=0, le=30 * DAY_S, description="seconds from 0 to 2592000 (30 days)"
    )
    evictions_per_hour: int | None = Field(
        default=None, ge=0, le=1_000_000, description="a whole number from 0 to 1000000, or null for no limit"
    )
    evictions_per_job: int | None = Field(
        default=None, ge=0, le=1000, description="a whole number from 0 to 1000, or null for no limit"
    )
    min_progress_s: float = Field(
        default=1800.0, ge=0, le=30 * DAY_S, description="seconds from 0 to 2592000 (30 days)"
    )
    max_loss_node_hours: float | None = Field(
        default=200.0,
        ge=0,
        le=1e9,
        description="node-hours from 0 to 1000000000, or null for no limit",
    )
    max_loss_node_hours_per_day: float | None = Field(
        default=1000.0,
        ge=0,
        le=1e9,
        description="node-hours from 0 to 1000000000, or null for no limit",
    )
    price_past_evictions: bool = Field(default=True, description="true or false")
    max_nodes: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="a whole number of nodes from 0 to 1000000, or null for no limit",
    )
    protected_users: Names = Field(default=frozenset(), description="a list of names of users")
    protected_accounts: Names = Field(default=frozenset(), description="a list of names of accounts")
    protected_qos: Names = Field(default=frozenset(), description="a list of names of QOS")
    protected_partitions: Names = Field(default=frozenset(), description="a list of names of partitions")
    breaker_failures: int | None = Field(
        default=5,
        ge=1,
        le=10_000,
        description="a whole number from 1 to 10000, or null for no circuit breaker",
    )
    breaker_window_s: float = Field(
        default=3600.0, gt=0, le=7 * DAY_S, description="seconds above 0, at most 604800 (7 days)"
    )

    def to_limits(self) -> Limits:
        """The same values as the model has them."""
        return Limits(**{name: getattr(self, name) for name in type(self).model_fields})


class TimeoutSettings(Section):
    """How long an operation waits in each case: `observation.Timeouts`, with ranges."""

    give_up_after_s: float = Field(default=600.0, ge=0, le=DAY_S, description="seconds from 0 to 86400")
    settle_s: float = Field(default=30.0, ge=1, le=3600, description="seconds from 1 to 3600")
    retry_s: float = Field(default=5.0, ge=0, le=3600, description="seconds from 0 to 3600")
    refused_s: float = Field(default=60.0, ge=0, le=DAY_S, description="seconds from 0 to 86400")

    def to_timeouts(self) -> Timeouts:
        """The same values as the operations use them."""
        return Timeouts(**{name: getattr(self, name) for name in type(self).model_fields})


class MetricsSettings(Section):
    """The Prometheus endpoint."""

    enabled: bool = Field(default=True, description="true or false")
    host: str = Field(
        default="127.0.0.1",
        description="an IP address; one that others reach needs metrics.allow_remote: true",
    )
    port: int = Field(
        default=9789, ge=0, le=65_535, description="a port from 1 to 65535, or 0 for any that is free"
    )
    allow_remote: bool = Field(default=False, description="true or false")

    @model_validator(mode="after")
    def _loopback(self) -> Self:
        try:
            address = ipaddress.ip_address("127.0.0.1" if self.host == "localhost" else self.host)
        except ValueError:
            raise ValueError(f"metrics.host {self.host[:60]!r} is no IP address") from None
        if not address.is_loopback and not self.allow_remote:
            raise ValueError(
                f"metrics.host {self.host} can be reached by other machines, and the metrics have no "
                "password: set metrics.allow_remote to true if that is meant, or use 127.0.0.1"
            )
        return self


class LogSettings(Section):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="debug, info, warning or error"
    )
    format: Literal["json", "console"] = Field(default="json", description="json or console")


class Settings(Section):
    """Everything that a configuration file says."""

    mode: Mode = Field(default=Mode.OBSERVE, description="observe (decide, log, touch nothing) or act")
    adapter: AdapterSection = Field(description=_ADAPTER)
    policy: PolicySettings = Field(
        default=PolicySettings(), description="a mapping with the `name` of a policy"
    )
    poll_interval_s: float = Field(default=30.0, ge=0.1, le=3600, description="seconds from 0.1 to 3600")
    poke_gap_s: float = Field(
        default=1.0,
        ge=0,
        le=60,
        description="seconds from 0 to 60 that lie at least between two cycles, however often poked",
    )
    backoff_max_s: float = Field(
        default=300.0,
        ge=1,
        le=3600,
        description="seconds from 1 to 3600, the longest wait for a cluster that does not answer",
    )
    cycle_limit_s: float = Field(
        default=300.0,
        ge=1,
        le=DAY_S,
        description="seconds from 1 to 86400, after which a cycle counts as hung",
    )
    view_age_max_s: float | None = Field(
        default=30.0,
        ge=1,
        le=3600,
        description=(
            "seconds from 1 to 3600 after which the view of the cluster is too old to take anything, or "
            "null for no limit"
        ),
    )
    commands_per_cycle: int | None = Field(
        default=200,
        ge=1,
        le=100_000,
        description="a whole number from 1 to 100000 of commands in one cycle, or null for no limit",
    )
    limits: LimitsSettings = Field(default=LimitsSettings(), description="a mapping of limits")
    timeouts: TimeoutSettings = Field(default=TimeoutSettings(), description="a mapping of waits")
    keep_snapshots: bool = Field(
        default=True, description="true or false: whether decisions are stored with what they were taken on"
    )
    learn_durations: bool = Field(
        default=True,
        description=(
            "true or false: whether measured durations of checkpoints take the place of declared ones"
        ),
    )
    journal_keep_days: float | None = Field(
        default=30.0,
        ge=1,
        le=36_500,
        description=(
            "days from 1 to 36500 for which closed operations and decisions are kept, or null for ever"
        ),
    )
    journal: FilePath = Field(
        default=Path("/var/lib/makeway/journal.sqlite"),
        description="the path of a file, below the configuration if relative",
    )
    socket: FilePath = Field(
        default=Path("/run/makeway/makeway.sock"),
        description="the path of a socket, below the configuration if relative",
    )
    metrics: MetricsSettings = Field(
        default=MetricsSettings(), description="a mapping with enabled, host, port"
    )
    log: LogSettings = Field(default=LogSettings(), description="a mapping with level, format")

    @field_validator("socket")
    @classmethod
    def _socket_fits(cls, path: Path) -> Path:
        if len(bytes(path)) > SOCKET_PATH_LIMIT:
            raise ValueError(
                f"the path of a socket may have {SOCKET_PATH_LIMIT} bytes, this one has {len(bytes(path))}"
            )
        return path


_WITH_SECTION: dict[type[AdapterSection], type[Settings]] = {}


def settings_with(section: type[AdapterSection]) -> type[Settings]:
    """The settings with the section of one adapter: the same class for the same section, so that values
    compare.
    """
    model = _WITH_SECTION.get(section)
    if model is None:
        model = create_model("Settings", __base__=Settings, adapter=(section, Field(description=_ADAPTER)))
        _WITH_SECTION[section] = model
    return model
