"""PBS Pro, as the configuration finds it. What runs its commands is imported when it is used."""

from makeway.adapters.pbs.settings import PbsAdapterSettings
from makeway.adapters.registry import AdapterType, Connection
from makeway.adapters.site.checks import Check, DoctorContext, ok, problem
from makeway.adapters.site.entitlement import ClassEntitlements


def _open(section: PbsAdapterSettings) -> Connection:
    """A PBS Pro. Nothing is asked of it yet."""
    from makeway.adapters.pbs.adapter import PbsAdapter

    classes = tuple(one.to_class() for one in section.classes)
    return Connection(adapter=PbsAdapter(section), entitlements=ClassEntitlements(classes))


def _check(section: PbsAdapterSettings, context: DoctorContext) -> tuple[Check, ...]:
    """What the section means for makeway."""
    reads = ok("pbs", "PBS is only read: makeway shows what it would do, and changes nothing")
    if section.classes:
        return (reads,)
    return (reads, problem("classes", "adapter.classes is empty: no job is urgent or preemptible; name some"))


PBS = AdapterType(
    name="pbs",
    section=PbsAdapterSettings,
    open=_open,
    check=_check,
    acts=False,
    unreachable_hint="is the PBS server up, and is adapter.bin_dir right?",
)
