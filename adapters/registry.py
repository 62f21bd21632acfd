"""Adapters by name: each is an entry point of the group `makeway.adapters`, makeway's own and those of other
packages.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Generic, TypeGuard, TypeVar, get_args

from makeway.adapters.protocol import Adapter, EntitlementReader
from makeway.adapters.site.checks import Check, DoctorContext

if TYPE_CHECKING:
    from makeway.adapters.site.sections import AdapterSection

GROUP = "makeway.adapters"

SectionT = TypeVar("SectionT", bound="AdapterSection")


class UnknownAdapter(ValueError):
    """No adapter of that name can be used. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A cluster that was opened, and its time."""

    adapter: Adapter
    now: Callable[[], float] = time.time
    """The time in the seconds of the snapshots; may be called from any thread."""
    speed: float = 1.0
    """How many of those seconds pass in a real one."""
    clock_ahead_s: Callable[[], float] | None = None
    """By how much the system clock is ahead of `now`, because it was set. None: `now` is no such clock."""
    follow_clock: Callable[[], None] | None = None
    """Makes `now` agree with the system clock at once. None: `now` is no such clock."""
    entitlements: EntitlementReader | None = None
    """Who could submit urgent jobs. None: the adapter cannot say, and no announcement is taken."""
    adopt: "Callable[[AdapterSection], bool] | None" = None
    """Uses another section of the same type from the next snapshot on, as far as it can change at run time.
    False: a part of it waits for a restart. Called between two cycles. None: all of it waits.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNames:
    """What classes of jobs can name on a cluster, sorted. Empty: unknown."""

    partitions: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()


def no_names(section: "AdapterSection") -> ClusterNames:
    """The names of an adapter that cannot list them."""
    return ClusterNames()


def no_checks(section: "AdapterSection", context: DoctorContext) -> tuple[Check, ...]:
    """The checks of an adapter that has none of its own."""
    return ()


@dataclass(frozen=True, kw_only=True)
class AdapterType(Generic[SectionT]):
    """A kind of cluster: what its configuration looks like, and how it is opened."""

    name: str
    """What `adapter.type` says, and the name of the entry point."""
    section: type[SectionT]
    """The section `adapter` of the configuration; its field `type` accepts `name` alone."""
    open: Callable[[SectionT], Connection]
    """Opens the cluster. May raise a `ValueError` about the settings; asks the cluster nothing yet."""
    check: Callable[[SectionT, DoctorContext], tuple[Check, ...]] = no_checks
    """The checks that `doctor` adds, once a snapshot was read."""
    names: Callable[[SectionT], ClusterNames] = no_names
    """What classes can name on the cluster; empty where it does not answer. For `makeway init`."""
    acts: bool = True
    """Whether it can act on a cluster. False: it only reads, and `mode: act` is refused."""
    unreachable_hint: str = "is the cluster up, and is the section `adapter` right?"
    """What to look at if no snapshot can be read."""


def adapter_names() -> tuple[str, ...]:
    """The names of all adapters that are installed, sorted. None of them is loaded."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


def find_adapter(name: str) -> AdapterType[Any]:
    """The adapter of that name.

    Raises:
        UnknownAdapter: there is none, several packages offer it, or it cannot be used.
    """
    points = list(entry_points(group=GROUP, name=name))
    if not points:
        raise UnknownAdapter(f"there is no adapter {name!r}; accepted: {' or '.join(adapter_names())}")
    if len(points) > 1:
        offers = ", ".join(sorted(point.value for point in points))
        raise UnknownAdapter(f"several packages offer the adapter {name}: {offers}")
    return _usable(points[0])


def _is_adapter_type(value: object) -> TypeGuard[AdapterType[Any]]:
    return isinstance(value, AdapterType)


def _usable(point: EntryPoint) -> AdapterType[Any]:
    from makeway.adapters.site.sections import AdapterSection

    where = f"adapter {point.name} ({point.value})"
    try:
        found: object = point.load()
    except Exception as error:
        raise UnknownAdapter(f"{where}: {type(error).__name__}: {error}") from error
    if not _is_adapter_type(found):
        raise UnknownAdapter(
            f"{where}: accepted: a makeway.adapters.registry.AdapterType, not a {type(found).__name__}"
        )
    if found.name != point.name:
        raise UnknownAdapter(f"{where}: its name is {found.name!r}; accepted: the entry point's")
    if not issubclass(found.section, AdapterSection):
        raise UnknownAdapter(f"{where}: its section is not an AdapterSection")
    accepts = found.section.model_fields.get("type")
    if accepts is None or get_args(accepts.annotation) != (found.name,):
        raise UnknownAdapter(f"{where}: the field `type` of its section accepts something else than its name")
    return found
