"""Whether makeway acts. A module of its own, because what only runs cycles imports nothing else of
the room.
"""

from enum import StrEnum


class Mode(StrEnum):
    """Whether what is decided is done."""

    OBSERVE = "observe"
    ACT = "act"
