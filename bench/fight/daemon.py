"""makeway's daemon in a fight: its configuration and its process."""

import json
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.fight.arms import GRACE_S, START_WITHIN_S
from bench.fight.service import serving
from bench.fight.workload import Quality

from makeway.adapters.devcluster.cluster import DevCluster
from makeway.daemon.errors import UserError
from makeway.daemon.service.socket_api import request

KEPT = ("makeway.yaml", "makeway.log", "journal.sqlite")
"""What the daemon leaves for a later look, as by `makeway explain`."""
_SCALE = 60.0
"""How many seconds of a site one second of a fight is."""
_LEAVE_S = 2.0
"""How long a kill takes. It is not scaled: in seeds 4 to 6 it was 0.5 to 0.9 s until the urgent job ran."""
_MARGIN_S = 2.0
_OWN: dict[str, dict[str, object]] = {
    "eviction": {"late": "evict"},
    "least-price": {
        "instant_s": 3,
        "instant_machine_hours": 0.02 / _SCALE,
        "waiting_machine_hours": 2.0 / _SCALE,
    },
}
"""The settings that only one policy has: those of least-price are its defaults, scaled."""
_LIMITS = {
    "min_progress_s": 1800.0 / _SCALE,
    "max_loss_node_hours": 200.0 / _SCALE,
    "max_loss_node_hours_per_day": 1000.0 / _SCALE,
}
"""The default limits, scaled."""


def configuration(slurm_conf: Path, policy: str) -> dict[str, object]:
    """The configuration of the daemon with that policy, scaled as the workload is."""
    checkpoint = {
        "system_s": 2,
        "application_s": 2,
        "interval_s": 55,
        "grace_s": GRACE_S,
        "acknowledgement": "comment",
    }
    normal = {"qos": [Quality.NORMAL.value], "preemptible": True, "setup_s": 1}
    urgent = {"qos": [Quality.URGENT.value], "kind": "on_demand", "start_within_s": START_WITHIN_S}
    return {
        "mode": "act",
        "adapter": {
            "type": "slurm",
            "conf": str(slurm_conf),
            "classes": [
                {"name": "urgent", **urgent},
                {"name": "saving", "words": ["saves"], **normal, "checkpoint": checkpoint},
                {"name": "fixed", **normal},
            ],
        },
        "policy": {
            "name": policy,
            "settings": {"margin_s": _MARGIN_S, "leave_s": _LEAVE_S, "step_s": 1, **_OWN[policy]},
        },
        "limits": _LIMITS,
        "poll_interval_s": 0.5,
        "poke_gap_s": 0.2,
        "backoff_max_s": 2,
        "timeouts": {"settle_s": 5, "retry_s": 1, "refused_s": 5},
        "journal": "journal.sqlite",
        "socket": "makeway.sock",
        "metrics": {"enabled": False},
    }


@contextmanager
def daemon(cluster: DevCluster, policy: str, folder: Path, keep: Path) -> Generator[None, None, None]:
    """The daemon in act mode with a policy, for a `with` block; afterwards `keep` has its files.

    Raises NotServing.
    """
    conf = folder / "makeway.yaml"
    # JSON is YAML.
    conf.write_text(json.dumps(configuration(cluster.folder / "slurm.conf", policy), indent=2))
    socket = folder / "makeway.sock"

    def looks() -> bool:
        with suppress(UserError):
            return bool(request(socket, {"command": "status"})["status"]["cycles"])
        return False

    argv = (sys.executable, "-m", "makeway.daemon.cli.main", "run", "--config", str(conf))
    try:
        with serving(argv, folder / "makeway.log", {}, looks):
            yield
    finally:
        for name in KEPT:
            if (folder / name).exists():
                shutil.copy(folder / name, keep / name)
