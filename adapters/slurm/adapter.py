"""Slurm by its commands: `squeue` and `scontrol` to read, `scontrol`, `scancel` and `salloc` to act.

One snapshot is two commands, whatever the number of jobs.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from makeway.adapters.command import Runner
from makeway.adapters.protocol import Capabilities
from makeway.adapters.site.snapshot import check_whole
from makeway.adapters.slurm import build, parse
from makeway.adapters.slurm.access import SlurmClient, new_token
from makeway.adapters.slurm.commands import SlurmCommands
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.settings import Placing, SlurmSettings
from makeway.adapters.slurm.topology import placements
from makeway.adapters.slurm.translate import Translator, job_class, node, over, reservation, state
from makeway.policies.model import Action, Cluster, JobKind, JobState, Placement

_MOST_UNTOLD = 200
"""So many of them fit into one standard input."""


class SlurmCliAdapter:
    """`Adapter` over Slurm's commands.

    Args:
        settings: where Slurm is, and the classes of its jobs.
        runner: what runs the commands. None: one that follows the settings.
        now: the clock of the snapshots.

    The first use reads the controller's version and configuration (and its topology, if asked to), and raises
    `Unavailable` if it does not answer.
    """

    def __init__(
        self,
        settings: SlurmSettings,
        *,
        runner: Runner | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._now = now
        self._client = SlurmClient(settings, runner)
        self._commands = SlurmCommands(self._client)
        self._placements: tuple[Placement, ...] | None = None

    @property
    def capabilities(self) -> Capabilities:
        """What this cluster can do: see `access.known_from`."""
        return self._client.known()[0]

    def snapshot(self) -> Cluster:
        """The whole cluster at one instant, by two commands."""
        capabilities, release = self._client.known()
        raw_jobs = [job for job in self._client.squeue() if not over(job)]
        now_s = self._now()
        token = new_token()
        untold = self._untold(raw_jobs) if release < build.KNOWS_EXCLUDED_NODES else []
        command = build.show_cluster()
        done = self._client.run(
            command, stdin=build.show_script(token, untold), environment={"SLURM_TIME_FORMAT": "%s"}
        )
        sections = parse.sections(done.stdout, token=token, command=command)
        nodes = parse.nodes(sections.get("nodes", []), command=command)
        partitions = parse.partitions(sections.get("partitions", []), command=command)
        reservations = parse.reservations(sections.get("reservations", []), command=command)
        excluded = {job_id: parse.excluded_nodes(sections.get(job_id, [])) for job_id in untold}
        told = [
            replace(job, excluded_nodes=excluded[job.job_id]) if job.job_id in excluded else job
            for job in raw_jobs
        ]
        translator = Translator(
            self._settings.classes,
            nodes,
            partitions,
            now_s,
            exclusive_shrink=release >= build.RESIZES_CLEANLY,
        )
        self._commands.forget_others(raw_jobs)
        cluster = Cluster(
            now_s=now_s,
            nodes=tuple(node(one) for one in nodes),
            jobs=tuple(translator.job(raw, asked_node_count=self._commands.size_before(raw)) for raw in told),
            reservations=tuple(reservation(one) for one in reservations),
            actions=capabilities.actions,
            recomputes_priority=capabilities.recomputes_priority,
            placements=self._placing(),
        )
        check_whole(cluster, command)
        return cluster

    def apply(self, action: Action) -> None:
        """See `Adapter.apply`."""
        self._commands.apply(action)

    def close(self) -> None:
        """Nothing is held."""

    def _placing(self) -> tuple[Placement, ...]:
        """The switches or blocks, read once; none where any nodes serve."""
        if self._placements is None:
            wanted = self._settings.placements is Placing.TOPOLOGY
            self._placements = placements(self._client.run(build.show_topology())) if wanted else ()
        return self._placements

    def _untold(self, jobs: list[RawJob]) -> list[str]:
        """The waiting urgent jobs, whose excluded nodes this squeue does not tell."""
        return [
            job.job_id
            for job in jobs
            if state(job) is JobState.PENDING
            and not job.heterogeneous
            and (found := job_class(job, self._settings.classes)) is not None
            and found.kind is JobKind.ON_DEMAND
        ][:_MOST_UNTOLD]
