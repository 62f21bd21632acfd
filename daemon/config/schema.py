"""The settings and what each accepts. Every description completes the sentence "accepted: ..." of an
error.
"""

import ipaddress
import os
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, create_model, field_validator, model_validator

from makeway.adapters.site.sections import DAY_S, AdapterSection, FilePath, Names, Section
from makeway.adapters.site.trust import distrust
from makeway.daemon.config.complaints import ProblemAtKey
from makeway.daemon.config.mode import Mode
from makeway.daemon.operation.announcements import NoticeLimits
from makeway.daemon.operation.observation import Timeouts
from makeway.policies.model import Limits

SOCKET_PATH_LIMIT = 107
"""Bytes of the path of a Unix socket that Linux takes."""
_HOST = ("metrics", "host")
_ADAPTER = "a mapping with the `type` of an adapter, such as `type: slurm`, and its settings"


class PolicySettings(Section):
    """Which policy decides, and its own settings, which the policy describes."""

    name: str = Field(default="least-price", description="the name of a policy")
    """Its name, or the path of a file that defines one."""
    settings: dict[str, Any] = Field(default={}, description="a mapping of the policy's own settings")
    """Those of the policy that `name` chooses."""


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
    max_loss_machine_share: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description=(
            "a share from 0 to 1 of what all nodes can do in a day, or null for 0.03 with the default of "
            "max_loss_node_hours and 0 with another one"
        ),
    )
    max_loss_machine_share_per_day: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description=(
            "a share from 0 to 1 of what all nodes can do in a day, or null for 0.1 with the default of "
            "max_loss_node_hours_per_day and 0 with another one"
        ),
    )
    max_loss_node_hours_per_user_per_day: float | None = Field(
        default=None,
        ge=0,
        le=1e9,
        description="node-hours from 0 to 1000000000, or null for no limit",
    )
    max_loss_node_hours_per_account_per_day: float | None = Field(
        default=None,
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


class NoticesSettings(Section):
    """What one user may announce: `announcements.NoticeLimits`, with ranges."""

    node_hours_per_user_per_day: float | None = Field(
        default=1000.0,
        ge=0,
        le=1e9,
        description="node-hours from 0 to 1000000000, or null for no limit",
    )
    no_shows: int | None = Field(
        default=3,
        ge=1,
        le=1000,
        description="a whole number from 1 to 1000 of jobs that did not come, or null for no limit",
    )
    no_show_window_s: float = Field(
        default=7 * DAY_S, gt=0, le=365 * DAY_S, description="seconds above 0, at most 31536000 (a year)"
    )

    def to_limits(self) -> NoticeLimits:
        """The same values as the desk uses them."""
        return NoticeLimits(**{name: getattr(self, name) for name in type(self).model_fields})


class TimeoutSettings(Section):
    """How long an operation waits in each case: `observation.Timeouts`, with ranges."""

    give_up_after_s: float = Field(default=600.0, ge=0, le=DAY_S, description="seconds from 0 to 86400")
    settle_s: float = Field(default=30.0, ge=1, le=3600, description="seconds from 1 to 3600")
    retry_s: float = Field(default=5.0, ge=0, le=3600, description="seconds from 0 to 3600")
    refused_s: float = Field(default=60.0, ge=0, le=DAY_S, description="seconds from 0 to 86400")
    pass_on_s: float = Field(default=14_400.0, ge=0, le=7 * DAY_S, description="seconds from 0 to 604800")
    linger_s: float = Field(default=0.0, ge=0, le=45, description="seconds from 0 to 45")

    def to_timeouts(self) -> Timeouts:
        """The same values as the operations use them."""
        return Timeouts(**{name: getattr(self, name) for name in type(self).model_fields})


class LeaderSettings(Section):
    """By which lease one of several daemons acts."""

    enabled: bool = Field(default=True, description="true or false")
    """Whether this daemon acts only while it has the lease. With `false` no second daemon may act on the
    cluster with the same instance."""
    lease_s: float | None = Field(
        default=None,
        ge=30,
        le=3600,
        description="seconds from 30 to 3600, or null for six times adapter.timeout_s and at least 120",
    )
    """How long a lease lasts. It is renewed after a third of that. When its daemon has died, another one
    takes over after this time and a little more."""


class MetricsSettings(Section):
    """The Prometheus endpoint."""

    enabled: bool = Field(default=True, description="true or false")
    """Whether metrics are served."""
    host: str = Field(
        default="127.0.0.1",
        description="an IP address; one that others reach needs metrics.allow_remote: true",
    )
    """The address to listen on."""
    port: int = Field(
        default=9789, ge=0, le=65_535, description="a port from 1 to 65535, or 0 for any free port"
    )
    """The port to listen on. The log shows the port that was bound."""
    allow_remote: bool = Field(default=False, description="true or false")
    """Whether `host` may be an address that other machines can reach. The metrics have no password."""

    @model_validator(mode="after")
    def _loopback(self) -> Self:
        try:
            address = ipaddress.ip_address("127.0.0.1" if self.host == "localhost" else self.host)
        except ValueError:
            raise ProblemAtKey(_HOST, f"{self.host[:60]!r} is no IP address") from None
        if not address.is_loopback and not self.allow_remote:
            why = "can be reached by other machines, without a password"
            raise ProblemAtKey(_HOST, f"{self.host} {why}; accepted: 127.0.0.1, or allow_remote: true")
        return self


class LogSettings(Section):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="debug, info, warning or error"
    )
    """The least severe entries that are written to standard error."""
    format: Literal["json", "console"] = Field(default="json", description="json or console")
    """One JSON object a line, or text for a terminal."""


_HOOK = "a list of words, the first of them the absolute path of a program, or null for none"


class HookSettings(Section):
    """A site's own commands at events."""

    evicted: list[str] | None = Field(default=None, description=_HOOK)
    """Run when the cluster has accepted to requeue or cancel a job."""
    resumed: list[str] | None = Field(default=None, description=_HOOK)
    """Run when an evicted job runs again."""
    urgent_started: list[str] | None = Field(default=None, description=_HOOK)
    """Run when an urgent job that makeway served has started."""
    given_up: list[str] | None = Field(default=None, description=_HOOK)
    """Run when such a job has ended before it started, or did not start in time."""
    timeout_s: float = Field(default=10.0, ge=0.1, le=600, description="seconds from 0.1 to 600")
    """How long a command may take before it is killed."""

    @field_validator("evicted", "resumed", "urgent_started", "given_up")
    @classmethod
    def _program(cls, words: list[str] | None) -> list[str] | None:
        if words is None:
            return None
        if not words or not words[0].startswith("/") or any("\0" in word for word in words):
            raise ValueError(f"{str(words)[:60]} is not accepted; accepted: {_HOOK}")
        path = Path(words[0])
        try:
            path.stat()
            why = distrust(path)
        except (FileNotFoundError, NotADirectoryError):
            return words  # `makeway doctor` warns of it
        except OSError as error:
            accepted = f"accepted: a program that user {os.geteuid()} can reach"
            raise ValueError(f"{words[0]} cannot be looked at: {error.strerror}; {accepted}") from error
        if why is not None:
            raise ValueError(f"{words[0]} is run by the daemon: {why}")
        return words

    @property
    def wanted(self) -> dict[str, tuple[str, ...]]:
        """The commands by the name of their event."""
        given = {
            "evicted": self.evicted,
            "resumed": self.resumed,
            "urgent_started": self.urgent_started,
            "given_up": self.given_up,
        }
        return {name: tuple(words) for name, words in given.items() if words is not None}


class Settings(Section):
    """Everything that a configuration file says."""

    mode: Mode = Field(default=Mode.OBSERVE, description="observe (decide, log, touch nothing) or act")
    """Whether decisions are carried out. `observe` changes nothing on the cluster."""
    adapter: AdapterSection = Field(description=_ADAPTER)
    """The cluster. A reload cannot change it."""
    policy: PolicySettings = Field(
        default=PolicySettings(), description="a mapping with the `name` of a policy"
    )
    """The policy that decides."""
    poll_interval_s: float = Field(default=30.0, ge=0.1, le=3600, description="seconds from 0.1 to 3600")
    """The cluster is read this often. A poke or something that becomes due starts a cycle earlier."""
    poke_gap_s: float = Field(
        default=1.0,
        ge=0,
        le=60,
        description="seconds from 0 to 60 that lie at least between two cycles, however often poked",
    )
    """The shortest time between two cycles, however many pokes arrive."""
    backoff_max_s: float = Field(
        default=300.0,
        ge=1,
        le=3600,
        description="seconds from 1 to 3600, the longest wait for a cluster that does not answer",
    )
    """The longest time between two cycles while the cluster does not answer."""
    cycle_limit_s: float = Field(
        default=300.0,
        ge=1,
        le=DAY_S,
        description="seconds from 1 to 86400, after which a cycle counts as hung",
    )
    """A cycle that takes longer counts as hung: systemd's watchdog then restarts the daemon."""
    view_age_max_s: float | None = Field(
        default=30.0,
        ge=1,
        le=3600,
        description=(
            "seconds from 1 to 3600 after which the view of the cluster is too old to take anything, or "
            "null for no limit"
        ),
    )
    """Nothing is taken from a job once this long has passed since the cluster was read. What gives back is
    still sent."""
    commands_per_cycle: int | None = Field(
        default=200,
        ge=1,
        le=100_000,
        description="a whole number from 1 to 100000 of commands in one cycle, or null for no limit",
    )
    """The most commands that one cycle sends. The rest waits for the next cycle; what gives back is sent
    first."""
    limits: LimitsSettings = Field(default=LimitsSettings(), description="a mapping of limits")
    """Limits that hold for every policy."""
    notices: NoticesSettings = Field(
        default=NoticesSettings(), description="a mapping of limits on announcements"
    )
    """What one user may announce."""
    leader: LeaderSettings = Field(default=LeaderSettings(), description="a mapping with enabled, lease_s")
    """Which of several daemons on the cluster acts. A reload cannot change `enabled`."""
    timeouts: TimeoutSettings = Field(default=TimeoutSettings(), description="a mapping of waits")
    """How long an operation waits."""
    keep_snapshots: bool = Field(
        default=True, description="true or false: whether decisions are stored with what they were taken on"
    )
    """Whether decisions keep their snapshots, which `makeway explain` and `makeway whatif` read."""
    learn_durations: bool = Field(
        default=True,
        description=(
            "true or false: whether measured durations of checkpoints take the place of declared ones"
        ),
    )
    """Whether the longest recent duration of a requested checkpoint, for jobs of the same user, account,
    partition and size, replaces the declared `system_s`. It is at most the grace."""
    journal_keep_days: float | None = Field(
        default=30.0,
        ge=1,
        le=36_500,
        description=(
            "days from 1 to 36500 for which closed operations and decisions are kept, or null for ever"
        ),
    )
    """How long closed operations and decisions are kept."""
    journal: FilePath = Field(
        default=Path("/var/lib/makeway/journal.sqlite"),
        description="the path of a file, below the configuration if relative",
    )
    """The daemon's memory. Only the daemon's user may write into its folder. A reload cannot change it."""
    socket: FilePath = Field(
        default=Path("/run/makeway/makeway.sock"),
        description="the path of a socket, below the configuration if relative",
    )
    """The local socket, with mode 0660. A reload cannot change it."""
    metrics: MetricsSettings = Field(
        default=MetricsSettings(), description="a mapping with enabled, host, port"
    )
    """The endpoint for Prometheus. A reload cannot change it."""
    hooks: HookSettings = Field(
        default=HookSettings(), description="a mapping of events and the commands that are run at them"
    )
    """Commands of the site at events. They run after one another and never hold up a cycle."""
    log: LogSettings = Field(default=LogSettings(), description="a mapping with level, format")
    """What is logged, and how."""

    @model_validator(mode="after")
    def _lease_lasts(self) -> Self:
        timeout_s, lease_s = getattr(self.adapter, "timeout_s", 0.0), self.leader.lease_s
        if self.leader.enabled and lease_s is not None and lease_s < 3 * timeout_s:
            raise ProblemAtKey(
                ("leader", "lease_s"),
                f"{lease_s:g} is too short for commands that may take adapter.timeout_s {timeout_s:g}; "
                f"accepted: at least {3 * timeout_s:g}",
            )
        return self

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
