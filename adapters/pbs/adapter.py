"""PBS Pro by its commands `qstat` and `pbsnodes`, read only: one snapshot is two commands, whatever the
number of jobs.
"""

from pathlib import Path

from makeway.adapters.command import SEARCH_PATH, CommandRunner, Runner
from makeway.adapters.pbs import parse
from makeway.adapters.pbs.settings import PbsAdapterSettings
from makeway.adapters.pbs.translate import has_ended, job, node, reservations
from makeway.adapters.protocol import Capabilities, Unavailable, unsupported
from makeway.adapters.site.snapshot import check_whole
from makeway.policies.model import Action, Cluster

LIST_JOBS = ("qstat", "-t", "-f", "-F", "json")
LIST_NODES = ("pbsnodes", "-a", "-F", "json")


class PbsAdapter:
    """`Adapter` over the commands of PBS Pro. It supports no action.

    Args:
        section: where PBS is, and the classes of its jobs.
        runner: what runs the commands. None: one that follows the section.
    """

    def __init__(self, section: PbsAdapterSettings, *, runner: Runner | None = None) -> None:
        self._classes = tuple(one.to_class() for one in section.classes)
        self._timeout_s = section.timeout_s
        self._runner: Runner = runner if runner is not None else _runner_of(section.bin_dir)
        self._capabilities: Capabilities | None = None

    @property
    def capabilities(self) -> Capabilities:
        """What this cluster is called. Read once; raises what `snapshot` raises."""
        if self._capabilities is None:
            header = parse.header(self._run(LIST_NODES), command=LIST_NODES)
            self._capabilities = Capabilities(
                name=f"{header.server}, PBS {header.version}", actions=frozenset(), recomputes_priority=False
            )
        return self._capabilities

    def snapshot(self) -> Cluster:
        """The whole cluster at one instant, by two commands."""
        capabilities = self.capabilities
        raw_jobs = parse.jobs(self._run(LIST_JOBS), command=LIST_JOBS)
        text = self._run(LIST_NODES)
        raw_nodes = parse.nodes(text, command=LIST_NODES)
        now_s = parse.header(text, command=LIST_NODES).now_s
        cluster = Cluster(
            now_s=now_s,
            nodes=tuple(node(one) for one in raw_nodes),
            jobs=tuple(job(one, self._classes, raw_nodes, now_s) for one in raw_jobs if not has_ended(one)),
            reservations=reservations(raw_nodes, now_s),
            actions=capabilities.actions,
            recomputes_priority=capabilities.recomputes_priority,
        )
        check_whole(cluster, LIST_NODES)
        return cluster

    def apply(self, action: Action) -> None:
        """Raises `Unsupported`: this adapter only reads."""
        raise unsupported(action)

    def close(self) -> None:
        """Nothing is held."""

    def _run(self, argv: tuple[str, ...]) -> str:
        done = self._runner.run(argv, timeout_s=self._timeout_s)
        if done.returncode != 0:
            raise Unavailable(f"{argv[0]}: {done.words or f'exit status {done.returncode}'}")
        return done.stdout


def _runner_of(bin_dir: Path) -> CommandRunner:
    """What runs the commands in that directory."""
    return CommandRunner(environment={"PATH": f"{bin_dir}:{SEARCH_PATH}"})
