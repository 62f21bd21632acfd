"""Checks of what could keep makeway from working on this machine; each result is a value.

`examine` checks the configured paths, reads the cluster through its adapter, and adds the adapter's own
checks.
"""

import errno
import os
import shlex
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from makeway.adapters.protocol import Adapter, AdapterError, Capabilities, LeaseKeeper
from makeway.adapters.site.checks import Check, DoctorContext, ok, problem, warning
from makeway.adapters.site.text import counted, printable
from makeway.daemon.config.load import AdapterFactory, Config, open_adapter
from makeway.daemon.config.mode import Mode
from makeway.daemon.config.schema import HookSettings, MetricsSettings
from makeway.daemon.errors import UserError
from makeway.daemon.inspect.setting_names import setting_names
from makeway.daemon.journal.file_guard import daemon_with, is_read_only, journal_owner
from makeway.daemon.leader.standing import Role
from makeway.policies.contract import Policy
from makeway.policies.model import Cluster, JobKind, Limits, NodeState

UNIT_FOLDERS = frozenset({Path("/var/lib/makeway"), Path("/run/makeway")})
"""Folders that deploy/makeway.service creates when it starts."""
ROOM_LEAST = 64 << 20
"""Bytes on the journal's disk below which the daemon may soon not be able to write."""
_METRICS_WAIT_S = 2.0
_METRICS_BYTES = 1 << 22
"""How much of an answer is read."""


def examine(config: Config, factories: Mapping[str, AdapterFactory]) -> tuple[Check, ...]:
    """Run every check of a valid configuration on the cluster that it describes. Changes nothing.

    Raises `UserError`, or another `ValueError` about the settings, if the adapter cannot be opened.
    """
    settings = config.settings
    running = running_daemon(settings.socket)
    own = running is not None and journal_owner(settings.journal) == daemon_with(running.get("pid"))
    checks = [
        ok(
            "configuration",
            f"{settings.mode} mode, policy {config.policy.name}, adapter {settings.adapter.adapter_name}",
        ),
        *check_user(settings.journal),
        check_journal(settings.journal, used_by_own=own),
        *check_room(settings.journal),
        check_socket(settings.socket, used_by_own=own),
        *check_cycles(running),
        *check_metrics(settings.metrics, running=running is not None),
        *check_hooks(settings.hooks),
        *check_planner(config.policy),
        *check_limits(config.policy, config.policy_config, settings.limits.to_limits()),
    ]
    connection = open_adapter(settings.adapter, factories)
    with closing(connection.adapter):
        try:
            capabilities = connection.adapter.capabilities
            cluster, took_s = _timed(connection.adapter.snapshot)
        except AdapterError as error:
            words = printable(" ".join(str(error).split()))
            return (
                *checks,
                problem("cluster", f"no snapshot: {words}; {config.adapter.unreachable_hint}"),
            )
        checks.append(check_snapshot(cluster, capabilities, took_s, settings.poll_interval_s))
        checks.append(check_jobs(cluster, settings.mode))
        checks += check_policy(config.policy, cluster)
        checks.append(check_leader(settings.leader.enabled, connection.adapter, cluster))
        checks += check_own_lease(running)
        context = DoctorContext(
            acts=settings.mode is Mode.ACT,
            poll_interval_s=settings.poll_interval_s,
            margin_s=getattr(config.policy_config, "margin_s", None),
            start_within_s=getattr(config.policy_config, "start_within_s", None),
            can_expand="expand" in capabilities.actions,
            names=setting_names(settings.limits.to_limits(), config.policy_config),
        )
        checks += config.adapter.check(settings.adapter, context)
    return tuple(checks)


def check_policy(policy: Policy[Any], cluster: Cluster) -> Iterator[Check]:
    """What the policy does not know of this cluster."""
    urgent = [job for job in cluster.jobs if job.kind is JobKind.ON_DEMAND]
    if policy.active and not policy.shares_nodes and cluster.capacities():
        yield warning(
            "policy",
            f"{policy.name} counts whole nodes, and on this cluster jobs share nodes: a job that needs "
            "a part of a node counts as one that needs all of it",
        )
    if policy.active and not policy.serves_components and any(job.het_job_id for job in urgent):
        yield warning(
            "policy",
            f"{policy.name} makes no room for heterogeneous jobs, and an urgent one is there: it waits",
        )
    if policy.active and not policy.whole_placements and cluster.placements:
        yield warning(
            "policy",
            f"{policy.name} takes nodes wherever they are, although urgent jobs are to get nodes of one "
            "switch, block or partition",
        )


def check_planner(policy: Policy[Any]) -> Iterator[Check]:
    """What the policy needs for its plans, and this installation lacks: the daemon does not start then."""
    if policy.planner is None:
        return
    try:
        policy.planner.require()
    except Exception as error:  # noqa: BLE001 - whatever it is, it ends the daemon's start
        yield problem("policy", f"{policy.name}: {printable(str(error))}")


def check_limits(policy: Policy[Any], policy_config: Any, limits: Limits) -> Iterator[Check]:
    """Whether the site has limited what one urgent job may cost, and not what its user may cost with
    several.
    """
    keys: list[str] = []
    ceiling, usual = (
        getattr(config, "ceiling_machine_hours", None) for config in (policy_config, policy.config_type())
    )
    if ceiling not in {None, usual}:
        keys.append("policy.settings.ceiling_machine_hours")
    if limits.max_loss_node_hours not in {None, Limits().max_loss_node_hours}:
        keys.append("limits.max_loss_node_hours")
    by_payer = (
        limits.max_loss_node_hours_per_user_per_day,
        limits.max_loss_node_hours_per_account_per_day,
    )
    if policy.active and keys and all(limit is None for limit in by_payer):
        verb = "limits" if len(keys) == 1 else "limit"
        yield warning(
            "limits",
            f"{' and '.join(keys)} {verb} what one urgent job may cost, and a user who splits a job into "
            "several passes: set limits.max_loss_node_hours_per_user_per_day, or the limit per account",
        )


def check_user(journal: Path) -> Iterator[Check]:
    """Whether root looks where another user's daemon is to run."""
    folder = journal.parent
    try:
        owner = folder.stat().st_uid
    except OSError:
        return  # see `check_journal`
    if os.geteuid() == 0 and owner != 0:
        name = _user(owner)
        yield warning(
            "user",
            f"this is root, and {printable(str(folder))} belongs to {name}: what follows holds for root's "
            f"rights, not for those of {name}: run `sudo -u {shlex.quote(name)} makeway doctor`",
        )


def check_journal(path: Path, *, used_by_own: bool = False) -> Check:
    """Whether the journal can be written and no other daemon uses it.

    `used_by_own`: whether the daemon that has it answers on the configuration's socket. Then all is well.
    """
    from makeway.daemon.journal.errors import JournalError, JournalUnfinished
    from makeway.daemon.journal.file_guard import check_folder
    from makeway.daemon.journal.store import Journal

    where = printable(str(path))
    if (refused := _folder_refused("journal", path)) is not None:
        return refused
    try:
        check_folder(path.parent)
    except JournalError as error:
        return problem("journal", printable(str(error)))
    if (owner := journal_owner(path)) is not None:
        said = ok if used_by_own else warning
        return said("journal", f"{where}: in use by {owner}: a second daemon needs a journal of its own")
    if not path.exists():
        return ok("journal", f"{where}: will be created")
    if not path.is_file():
        return problem("journal", f"{where}: not a regular file: a journal needs a path of its own")
    if not os.access(path, os.R_OK | os.W_OK):
        return problem("journal", f"{where}: {_user()} may not write it: give it to the daemon's user")
    try:
        with closing(Journal(path, read_only=True)) as journal:
            count = len(journal.open_operations())
            unreadable = (*journal.damaged, *journal.unreadable())
    except JournalUnfinished:
        return ok("journal", f"{where}: will be created")
    except JournalError as error:
        return problem("journal", printable(str(error)))
    if unreadable:
        rows = f"{counted(len(unreadable), 'row')} cannot be read"
        return warning("journal", f"{where}: {rows}, first: {printable(unreadable[0])}")
    return ok("journal", f"{where}: writable, {counted(count, 'operation')} open")


def check_room(journal: Path) -> Iterator[Check]:
    """Whether the disk of the journal is nearly full, or read-only. The daemon takes nothing that it cannot
    write down.
    """
    try:
        disk = os.statvfs(journal.parent)
    except OSError:
        return  # see `check_journal`
    if is_read_only(journal.parent):
        yield problem("journal", f"{printable(str(journal))}: its file system is read-only: see `dmesg`")
        return
    left = (disk.f_bfree if os.geteuid() == 0 else disk.f_bavail) * disk.f_frsize
    if left < ROOM_LEAST:
        text = f"only {left >> 20} MB are left on its disk; makeway sends only what it can write down"
        yield warning("journal", f"{printable(str(journal))}: {text}: make room")


def check_socket(path: Path, *, used_by_own: bool = False) -> Check:
    """Whether the socket can be created and no daemon answers on it. `used_by_own`: see `check_journal`."""
    where = printable(str(path))
    if (refused := _folder_refused("socket", path)) is not None:
        return refused
    if not path.exists():
        return ok("socket", f"{where}: will be created")
    if not path.is_socket():
        return problem(
            "socket", f"{where}: a file that is not a socket is there: remove it, or choose another path"
        )
    from makeway.daemon.service.socket_api import request

    try:
        status = request(path, {"command": "status"})["status"]
    except UserError:
        return ok("socket", f"{where}: left by a daemon that has ended, will be replaced")
    said = ok if used_by_own else warning
    return said(
        "socket", f"{where}: {daemon_with(status.get('pid'))} answers: a second daemon needs another socket"
    )


def check_metrics(metrics: MetricsSettings, *, running: bool) -> Iterator[Check]:
    """Whether the daemon cannot listen for scrapes, and so not start.

    `running`: whether the daemon of this configuration answers. It may have the port itself.
    """
    host, port = metrics.host, metrics.port
    if not metrics.enabled or port == 0:
        return
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the daemon does
            probe.bind(address)
    except OSError as error:
        if running and error.errno == errno.EADDRINUSE and _serves_metrics(host, port):
            return
        yield problem(
            "metrics",
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another metrics.port, "
            "or set metrics.enabled to false",
        )


def _serves_metrics(host: str, port: int) -> bool:
    """Whether a makeway answers there."""
    from http.client import HTTPConnection, HTTPException

    with closing(HTTPConnection(host, port, timeout=_METRICS_WAIT_S)) as connection:
        try:
            connection.request("GET", "/metrics")
            return b"\nmakeway_build_info" in connection.getresponse().read(_METRICS_BYTES)
        except (OSError, HTTPException):
            return False


def check_hooks(hooks: HookSettings) -> Iterator[Check]:
    """The commands of events that could not be run."""
    for event, (program, *_) in hooks.wanted.items():
        if not os.path.isfile(program) or not os.access(program, os.X_OK):
            text = f"hooks.{event}: {printable(program)} is not a program that {_user()} can run"
            yield warning("hooks", f"{text}: correct the path, or make it executable")


def check_snapshot(
    cluster: Cluster, capabilities: Capabilities, took_s: float, poll_interval_s: float
) -> Check:
    """Whether the cluster can be read, and quickly enough."""
    up = sum(1 for node in cluster.nodes if node.state is NodeState.UP)
    text = (
        f"{printable(capabilities.name)}: {counted(len(cluster.nodes), 'node')} ({up} up), "
        f"{counted(len(cluster.jobs), 'job')}, read in {took_s:.2f} s"
    )
    if took_s > poll_interval_s / 2:
        return warning(
            "cluster", f"{text}: more than half of poll_interval_s ({poll_interval_s:g}): raise it"
        )
    return ok("cluster", text)


def check_jobs(cluster: Cluster, mode: Mode) -> Check:
    """How many present jobs are urgent, may be evicted, or are left alone."""
    kinds = Counter(job.kind for job in cluster.jobs)
    opted_in = [job for job in cluster.jobs if job.preemptible]
    saving = sum(1 for job in opted_in if job.checkpoint is not None)
    text = (
        f"{kinds[JobKind.ON_DEMAND]} urgent, {len(opted_in)} that may be asked to leave "
        f"({kinds[JobKind.MALLEABLE]} malleable, {saving} with a checkpoint), "
        f"{len(cluster.jobs) - len(opted_in) - kinds[JobKind.ON_DEMAND]} that are left alone"
    )
    if cluster.jobs and not opted_in:
        what = "no job would ever make room" if mode is Mode.ACT else "there would be nothing to decide"
        return warning("jobs", f"{text}: with these jobs {what}: check adapter.classes")
    return ok("jobs", text)


def check_leader(enabled: bool, adapter: Adapter, cluster: Cluster) -> Check:
    """Whether a second daemon on the cluster would do harm."""
    only_one = "a second daemon in mode act would undo what this one does: run only one"
    if not enabled:
        return warning("leader", f"leader.enabled is false: {only_one}")
    if not isinstance(adapter, LeaseKeeper):
        return ok("leader", f"this adapter keeps no leases: {only_one}")
    terms = [lease.term for lease in cluster.leader_leases]
    found = f"the newest lease has term {max(terms)}" if terms else "no daemon has a lease yet"
    return ok("leader", f"{found}: of several daemons one acts")


def check_own_lease(running: Mapping[str, Any] | None) -> Iterator[Check]:
    """Whether the daemon that answers could write its lease. `running`: see `running_daemon`."""
    why = None if running is None else running.get("leader_problem")
    if running is None or not why:
        return
    found = problem if str(running.get("leader")).startswith(Role.WAITS) else warning
    yield found(
        "leader",
        f"the daemon with pid {running.get('pid')} could not write its lease: {printable(str(why))}",
    )


def check_cycles(running: Mapping[str, Any] | None) -> Iterator[Check]:
    """Whether the cycles of the daemon that answers end. `running`: see `running_daemon`."""
    failures = 0 if running is None else running.get("failures")
    if running is not None and failures:
        yield warning(
            "daemon",
            f"of the daemon with pid {running.get('pid')}, the last {counted(int(failures), 'cycle')} ended "
            f"without a decision: {printable(str(running.get('sentence')))}",
        )


def running_daemon(path: Path) -> Mapping[str, Any] | None:
    """What the daemon behind a socket reports of itself. None: none answers."""
    from makeway.daemon.inspect.now import reported_status

    return reported_status(path)[0] if path.is_socket() else None


def _folder_refused(name: str, path: Path) -> Check | None:
    """The problem with a file that cannot be created in its folder. None: it can."""
    where, folder = printable(str(path)), path.parent
    try:
        present = S_ISDIR(folder.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        present = False
    except OSError as error:  # a folder above it may not be entered
        reason = f"{where}: {_user()} cannot look at its folder ({error.strerror})"
        return problem(name, f"{reason}: give it to the daemon's user, or run this as that user")
    if not present:
        text = f"{where}: there is no folder {printable(str(folder))}"
        if folder in UNIT_FOLDERS:
            return warning(name, f"{text}: makeway.service creates it; without systemd create it yourself")
        return problem(name, f"{text}: create it, or choose another")
    if not os.access(folder, os.W_OK | os.X_OK):
        text = f"{where}: {_user()} may not write in its folder"
        return problem(name, f"{text}: give it to the daemon's user, or run this as that user")
    return None


def _user(user_id: int | None = None) -> str:
    """The name of a user, or `#` and the number, as sudo has it. None: the user of this process."""
    import pwd

    user_id = os.geteuid() if user_id is None else user_id
    try:
        return printable(pwd.getpwuid(user_id).pw_name)
    except KeyError:
        return f"#{user_id}"


def _timed(read: Callable[[], Cluster]) -> tuple[Cluster, float]:
    began_s = time.perf_counter()
    return read(), time.perf_counter() - began_s
