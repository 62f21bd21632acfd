"""Where a snapshot's records come from: Slurm's commands, pyslurm, or pyslurm while it agrees with them."""

import logging
import sys
from dataclasses import dataclass, replace
from typing import Protocol

from makeway.adapters.command import CommandRunner
from makeway.adapters.site.text import printable
from makeway.adapters.slurm import build, parse, parse_cluster
from makeway.adapters.slurm.access import SlurmClient, new_token
from makeway.adapters.slurm.reader.agreement import View, difference
from makeway.adapters.slurm.reader.alike import ListedJobs
from makeway.adapters.slurm.reader.answer import ClusterRecords
from makeway.adapters.slurm.reader.gpu_requests import GpuRequests
from makeway.adapters.slurm.reader.helper import HelperFailed, PyslurmHelper
from makeway.adapters.slurm.settings import Reader, SlurmSettings
from makeway.adapters.slurm.translate import over

_log = logging.getLogger("makeway.slurm")
_log.addHandler(logging.NullHandler())  # without the daemon's own handlers, nothing is printed


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRead:
    """The first part of a snapshot."""

    listed: ListedJobs
    cluster: ClusterRecords | None
    """None: it is read by the next command, with everything else."""


class RecordSource(Protocol):
    """Reads the first part of snapshots."""

    def read(self) -> FirstRead:
        """The jobs, and as much as this reader has read with them.

        Raises:
            Unavailable: no answer in time.
            Unreadable: an answer that is not whole or cannot be understood.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End what was started."""


class CommandSource:
    """Reads by squeue, and leaves the rest to the scontrol that every snapshot runs."""

    def __init__(self, client: SlurmClient) -> None:
        self._client = client

    def read(self) -> FirstRead:
        return FirstRead(listed=self._client.all_jobs(), cluster=None)

    def close(self) -> None:
        pass


class PyslurmSource:
    """Reads by pyslurm.

    Args:
        client: what runs Slurm's commands.
        helper: the process that has pyslurm.
    """

    def __init__(self, client: SlurmClient, helper: PyslurmHelper) -> None:
        self._client = client
        self._helper = helper
        self._requests = GpuRequests(client)
        self._checked = 0
        """Which start of the helper was compared with the controller's release."""

    @property
    def version(self) -> str:
        """Of pyslurm. Empty: it was not started yet."""
        return self._helper.version

    @property
    def starts(self) -> int:
        """How often the helper was started."""
        return self._helper.starts

    def read(self) -> FirstRead:
        self._helper.start()
        if self._checked != self._helper.starts:
            self._check_release()
            self._checked = self._helper.starts
        answer = self._helper.read()
        jobs = tuple(job for job in answer.listed.jobs if not over(job))
        if answer.asks_by_gpu or any(node.gres for node in answer.cluster.nodes):
            jobs = self._requests.completed(jobs)
        return FirstRead(listed=replace(answer.listed, jobs=jobs), cluster=answer.cluster)

    def close(self) -> None:
        self._helper.close()

    def _check_release(self) -> None:
        """Raise `HelperFailed` if this pyslurm is for another release than the controller's."""
        try:
            found = parse.release(self._helper.version)
        except ValueError:
            raise self._helper.fail(
                HelperFailed(f"pyslurm has no version: {self._helper.version!r}")
            ) from None
        if found != self._client.known().release and found != self._client.read_again().release:
            year, month = self._client.known().release
            words = f"pyslurm {self._helper.version} is for another release than {year}.{month:02}"
            raise self._helper.fail(HelperFailed(words))


class AutomaticSource:
    """Reads by pyslurm while that works and agrees with Slurm's commands, else by the commands.

    Each process that is started is compared once. If it differs, pyslurm is not used again.
    """

    def __init__(self, client: SlurmClient, pyslurm: PyslurmSource) -> None:
        self._client = client
        self._commands = CommandSource(client)
        self._pyslurm = pyslurm
        self._compared = 0
        """Which start of the helper was compared."""
        self._differs = False
        self.why = ""
        """Why the last read was one by the commands. Empty: it was one by pyslurm."""

    def read(self) -> FirstRead:
        if self._differs:
            return self._commands.read()
        try:
            found = self._pyslurm.read()
        except HelperFailed as error:
            return self._by_commands(error)
        if self._compared != self._pyslurm.starts:
            if (different := self._difference()) is not None:
                self._differs = True
                self._pyslurm.close()
                return self._by_commands(
                    f"pyslurm tells something else than squeue and scontrol: {different}"
                )
            self._compared = self._pyslurm.starts
        self.why = ""
        return found

    def close(self) -> None:
        self._pyslurm.close()

    def _by_commands(self, why: object) -> FirstRead:
        words = printable(" ".join(str(why).split()))
        # The time that is left changes with each read.
        if words.partition("; it is started again")[0] != self.why.partition("; it is started again")[0]:
            _log.warning("the cluster is read by squeue and scontrol: %s", words)
        self.why = words
        return self._commands.read()

    def _difference(self) -> str | None:
        before = commands_view(self._client)
        told = self._pyslurm.read()
        assert told.cluster is not None
        after = commands_view(self._client)
        jobs = tuple(told.listed.with_others(lambda _: True))
        return difference(before, View(jobs=jobs, cluster=told.cluster), after)


def commands_view(client: SlurmClient) -> View:
    """The whole cluster by squeue and scontrol."""
    token, command = new_token(), build.show_cluster()
    done = client.run(command, stdin=build.show_script(token), environment={"SLURM_TIME_FORMAT": "%s"})
    sections = parse.sections(done.stdout, token=token, command=command)
    return View(jobs=client.squeue(), cluster=cluster_records(sections, command))


def cluster_records(sections: dict[str, list[str]], command: tuple[str, ...]) -> ClusterRecords:
    """What scontrol's sections say. Raises `Unreadable` if one is missing or cannot be read."""
    return ClusterRecords(
        nodes=parse_cluster.nodes(sections.get("nodes", []), command=command),
        partitions=parse_cluster.partitions(sections.get("partitions", []), command=command),
        reservations=parse_cluster.reservations(sections.get("reservations", []), command=command),
    )


def source_of(settings: SlurmSettings, client: SlurmClient, starter: CommandRunner) -> RecordSource:
    """The reader that the settings ask for. Nothing is started yet."""
    if settings.reader is Reader.CLI:
        return CommandSource(client)
    pyslurm = pyslurm_source(settings, client, starter)
    return pyslurm if settings.reader is Reader.PYSLURM else AutomaticSource(client, pyslurm)


def pyslurm_source(settings: SlurmSettings, client: SlurmClient, starter: CommandRunner) -> PyslurmSource:
    """The reader by pyslurm. Nothing is started yet."""
    python = settings.pyslurm_python or sys.executable
    return PyslurmSource(client, PyslurmHelper(starter, python, settings.timeout_s))
