"""What a package may offer as adapters."""

from typing import Literal

from pydantic import Field

from makeway.adapters.registry import AdapterType, Connection
from makeway.adapters.site.sections import AdapterSection, Section
from tests.builders import cluster
from tests.fakes import FakeAdapter

TEXT = "no adapter"


class PackagedSettings(AdapterSection):
    """What the section of this adapter accepts."""

    type: Literal["packaged"] = Field(description="packaged")
    host: str = Field(default="localhost", description="the name of a machine")


class BareSettings(Section):
    """No section of an adapter."""

    type: Literal["bare"]


def _open(section: PackagedSettings) -> Connection:
    return Connection(adapter=FakeAdapter(cluster(2)), speed=2.0)


PACKAGED = AdapterType(name="packaged", section=PackagedSettings, open=_open)
WATCHING = AdapterType(name="packaged", section=PackagedSettings, open=_open, acts=False)
BARE = AdapterType(name="bare", section=BareSettings, open=_open)  # type: ignore[type-var, arg-type]
OTHER = AdapterType(name="other", section=PackagedSettings, open=_open)
