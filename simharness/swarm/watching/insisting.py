"""Whether makeway asks without a pause for a hold that the controller refuses."""

from collections import deque

_MOST = 4
_WITHIN_S = 60.0
"""So many holds of one job may be refused within so many seconds: three, and one whose answer was lost."""


class Insisting:
    """Watches the refused holds of one story."""

    def __init__(self) -> None:
        self._refused_s: dict[str, deque[float]] = {}

    def refused(self, job_id: str, now_s: float) -> tuple[bool, str]:
        """The controller has refused a hold for a job. Returns whether that may be, and the violation."""
        times_s = self._refused_s.setdefault(job_id, deque(maxlen=_MOST + 1))
        times_s.append(now_s)
        often = len(times_s) > _MOST and times_s[0] > now_s - _WITHIN_S
        return not often, f"job {job_id} is refused hold after hold, {_MOST + 1} within {_WITHIN_S:.0f} s"

    def accepted(self, job_id: str) -> None:
        """The controller has accepted a hold for it."""
        self._refused_s.pop(job_id, None)

    def forget(self) -> None:
        """The daemon may not know what was refused: it was killed, or its journal is lost."""
        self._refused_s.clear()
