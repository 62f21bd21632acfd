"""What three releases print of a cluster whose nodes are shared, read as the adapter reads it."""

from dataclasses import dataclass, replace

from makeway.adapters.slurm import build, parse, parse_cluster
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawNode, RawPartition
from makeway.adapters.slurm.resources import details as job_details
from makeway.adapters.slurm.resources.counting import Counting, counting
from makeway.adapters.slurm.resources.details import JobDetails
from makeway.adapters.slurm.resources.holdings import Holdings
from makeway.adapters.slurm.resources.licenses import FreeLicenses, license_counts
from makeway.adapters.slurm.resources.view import SnapshotResources
from tests.adapters.slurm.test_parse import RELEASES, TOKEN, captured

COMMAND = ("scontrol",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A captured cluster."""

    release: str
    jobs: tuple[RawJob, ...]
    nodes: tuple[RawNode, ...]
    partitions: tuple[RawPartition, ...]
    counts: Counting
    texts: dict[str, str]
    """What scontrol printed of each job by its id."""
    all_jobs: str
    """What it printed of all jobs."""
    licenses: FreeLicenses

    def job(self, name: str) -> RawJob:
        """The first job of that name."""
        return next(job for job in self.jobs if job.name == name)

    def details(self, name: str) -> JobDetails:
        """The details of that job."""
        job = self.job(name)
        found = job_details.details(self.texts[job.job_id], job)
        assert found is not None
        return found

    def resources(
        self,
        *,
        detailed: bool = True,
        by_weights: bool = False,
        parts_across_gpus: bool = False,
    ) -> SnapshotResources:
        """The resources of the snapshot.

        Args:
            detailed: with the details of the waiting jobs.
            by_weights: as `SnapshotResources` has it.
            parts_across_gpus: whether Slurm gives a job shards of several GPUs.
        """
        counts = replace(self.counts, parts_across_gpus=parts_across_gpus)
        holdings = Holdings(self.counts)
        holdings.learn(self.jobs, self.texts, {})
        return SnapshotResources(
            self.nodes,
            self.partitions,
            counts=counts,
            holdings=holdings,
            details={job.job_id: self.details(job.name) for job in self.jobs if not job.nodes}
            if detailed
            else None,
            tells_exclusive=RELEASES[self.release] <= build.TELLS_EXCLUSIVE,
            by_weights=by_weights,
        )


def shared(release: str, cluster: str = "shared") -> Shared:
    """That cluster, on that release."""
    version = RELEASES[release]
    squeue, scontrol = captured(release, f"{cluster}-squeue"), captured(release, f"{cluster}-scontrol")
    jobs = parse.jobs(squeue, fields=build.job_fields(version), token=TOKEN, command=COMMAND)
    sections = parse.sections(scontrol, token=TOKEN, command=COMMAND)
    names = (*(job.job_id for job in jobs), build.ALL_JOBS)
    texts = job_details.texts(scontrol, token=TOKEN, names=names)
    return Shared(
        release=release,
        jobs=jobs,
        nodes=parse_cluster.nodes(sections["nodes"], command=COMMAND),
        partitions=parse_cluster.partitions(sections["partitions"], command=COMMAND),
        counts=counting(parse.config(captured(release, f"{cluster}-config"))),
        texts=texts,
        all_jobs=texts.pop(build.ALL_JOBS),
        licenses=FreeLicenses(license_counts(sections["licenses"], command=COMMAND)),
    )
