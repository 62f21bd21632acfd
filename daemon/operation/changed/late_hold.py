"""The nodes of a hold whose job has started before a change of the hold reached the cluster."""

from dataclasses import replace

from makeway.daemon.operation.due import hold_index
from makeway.daemon.operation.tasks import with_task
from makeway.policies.model import Cluster, Operation, Reserve, changed


def with_held_nodes(operation: Operation, cluster: Cluster) -> Operation:
    """The operation of a job that runs, with the nodes of the hold that is there.

    Otherwise it would keep nodes from other urgent jobs that it does not hold.
    """
    index, sets = hold_index(operation), cluster.node_sets()
    hold = None if index is None else operation.tasks[index].action
    nodes = next((one.nodes for one in cluster.reservations if one.name == operation.reservation), ())
    if index is None or not isinstance(hold, Reserve) or not nodes:
        return operation
    if sets.of(nodes) == sets.of(operation.nodes):
        return operation
    task = changed(operation.tasks[index], action=replace(hold, nodes=nodes))
    return changed(with_task(operation, index, task), nodes=nodes)
