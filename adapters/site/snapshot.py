"""What holds for every snapshot."""

from makeway.adapters.protocol import Unreadable
from makeway.policies.model import Cluster


def check_whole(cluster: Cluster, command: tuple[str, ...]) -> None:
    """Raise `Unreadable` if a job holds a node that is not listed: the two commands have seen two
    clusters.
    """
    known = {one.name for one in cluster.nodes}
    for job in cluster.jobs:
        if not known.issuperset(job.nodes):
            unknown = sorted(set(job.nodes) - known)
            message = f"job {job.job_id} holds nodes that are not listed, such as {unknown[0]}"
            raise Unreadable(message, command=command, text=str(unknown))
