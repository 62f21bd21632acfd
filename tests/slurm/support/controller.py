"""slurmctld is up again, whatever has become of it."""

from collections.abc import Iterator
from contextlib import contextmanager

from makeway.adapters.devcluster.cluster import DevCluster, DevClusterError
from makeway.adapters.devcluster.processes import by_pid
from makeway.adapters.protocol import AdapterError
from tests.waiting import limit_s, meanwhile

_STARTS = 3


@contextmanager
def controller_restarted(cluster: DevCluster) -> Iterator[None]:
    """Meanwhile slurmctld is started again whenever it has died. It answers at the end of the block."""

    def look() -> None:
        if not _runs(cluster):
            try:
                cluster.start_controller()
            except (DevClusterError, AdapterError):
                # It was killed while it started, or hangs: the next look starts it again.
                cluster.stop_controller(kill=True)

    try:
        with meanwhile(look):
            yield
    finally:
        revive_controller(cluster)


def revive_controller(cluster: DevCluster) -> None:
    """Start slurmctld if it is dead; kill it and start it if it does not answer. Its log's end is printed.

    Otherwise one test that leaves a dead slurmctld would fail every later test on its cluster.

    Raises:
        DevClusterError, AdapterError: it does not answer after several starts.
    """
    for attempt in range(_STARTS):
        if _answers(cluster):
            return
        print(f"slurmctld of {cluster.folder} does not answer; its log ends\n{cluster.log_end()}")
        try:
            if _runs(cluster):
                cluster.stop_controller(kill=True)
            cluster.start_controller()
        except (DevClusterError, AdapterError):
            if attempt == _STARTS - 1:
                raise


def _runs(cluster: DevCluster) -> bool:
    """By its file: to look at all processes of the machine again and again takes much of a processor."""
    try:
        process = by_pid(int((cluster.folder / "slurmctld.pid").read_text()))
    except (OSError, ValueError):
        return False
    return process is not None and process.name == "slurmctld"


def _answers(cluster: DevCluster) -> bool:
    try:
        return cluster.runner.run(("squeue", "-h", "-o", "%A"), timeout_s=limit_s()).returncode == 0
    except AdapterError:
        return False
