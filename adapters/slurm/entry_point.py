"""Slurm, as the configuration finds it. What needs Slurm's commands is imported when it is used."""

from makeway.adapters.protocol import AdapterError
from makeway.adapters.registry import AdapterType, ClusterNames, Connection
from makeway.adapters.site.checks import Check, DoctorContext, problem
from makeway.adapters.site.clock import SteadyClock
from makeway.adapters.site.sections import AdapterSection
from makeway.adapters.site.text import printable
from makeway.adapters.slurm.settings import SlurmAdapterSettings


def _open(section: SlurmAdapterSettings) -> Connection:
    """A real Slurm. Nothing is asked of it yet."""
    from makeway.adapters.slurm.adapter import SlurmCliAdapter
    from makeway.adapters.slurm.entitlement.reader import SlurmEntitlements

    clock, settings = SteadyClock(), section.to_settings()
    adapter, entitlements = SlurmCliAdapter(settings, now=clock), SlurmEntitlements(settings)

    def adopt(other: AdapterSection) -> bool:
        if not isinstance(other, SlurmAdapterSettings):
            return False
        classes = other.to_settings().classes
        adapter.use_classes(classes)
        entitlements.use_classes(classes)
        return other.model_copy(update={"classes": section.classes}) == section

    return Connection(
        adapter=adapter,
        now=clock,
        clock_ahead_s=clock.ahead_s,
        follow_clock=clock.follow,
        entitlements=entitlements,
        adopt=adopt,
    )


def _check(section: SlurmAdapterSettings, context: DoctorContext) -> tuple[Check, ...]:
    """What Slurm's own configuration means for makeway."""
    from makeway.adapters.slurm.doctor import check_slurm
    from makeway.adapters.slurm.reader.check import check_reader
    from makeway.adapters.slurm.survey import survey

    try:
        found = survey(section.to_settings(), names=context.names)
    except AdapterError as error:
        words = printable(" ".join(str(error).split()))
        return (problem("slurm", f"its configuration cannot be read: {words}"),)
    return (*check_slurm(found, section, context), check_reader(section.to_settings()))


def _names(section: SlurmAdapterSettings) -> ClusterNames:
    """The partitions and QOS of the cluster."""
    from makeway.adapters.slurm.survey import cluster_names

    try:
        return cluster_names(section.to_settings())
    except AdapterError:
        return ClusterNames()


SLURM = AdapterType(
    name="slurm",
    section=SlurmAdapterSettings,
    open=_open,
    check=_check,
    names=_names,
    unreachable_hint="is slurmctld up, and is adapter.conf right?",
)
