"""Slurm, as the configuration finds it. What needs Slurm's commands is imported when it is used."""

from makeway.adapters.protocol import AdapterError
from makeway.adapters.registry import AdapterType, Connection
from makeway.adapters.site.checks import Check, DoctorContext, problem
from makeway.adapters.site.clock import SteadyClock
from makeway.adapters.site.text import printable
from makeway.adapters.slurm.settings import SlurmAdapterSettings


def _open(section: SlurmAdapterSettings) -> Connection:
    """A real Slurm. Nothing is asked of it yet."""
    from makeway.adapters.slurm.adapter import SlurmCliAdapter

    clock = SteadyClock()
    adapter = SlurmCliAdapter(section.to_settings(), now=clock)
    return Connection(adapter=adapter, now=clock, clock_ahead_s=clock.ahead_s)


def _check(section: SlurmAdapterSettings, context: DoctorContext) -> tuple[Check, ...]:
    """What Slurm's own configuration means for makeway."""
    from makeway.adapters.slurm.doctor import check_slurm
    from makeway.adapters.slurm.survey import survey

    try:
        found = survey(section.to_settings())
    except AdapterError as error:
        words = printable(" ".join(str(error).split()))
        return (problem("slurm", f"its configuration cannot be read: {words}"),)
    return check_slurm(found, section, context)


SLURM = AdapterType(
    name="slurm",
    section=SlurmAdapterSettings,
    open=_open,
    check=_check,
    unreachable_hint="is slurmctld up, and is adapter.conf right?",
)
