"""The simulated cluster, as the configuration finds it. The simulator itself is imported when it is used."""

from makeway.adapters.registry import AdapterType, Connection
from makeway.simharness.run.settings import SimulatedSettings


def _open(section: SimulatedSettings) -> Connection:
    from makeway.simharness.run.embedded import open_simulated

    return open_simulated(section)


SIMULATED = AdapterType(name="simulated", section=SimulatedSettings, open=_open)
