"""What jobs ask for by job, by socket or by GPU: pyslurm cannot tell, so that squeue is asked of new jobs."""

from dataclasses import dataclass, replace
from itertools import filterfalse

from makeway.adapters.protocol import Unreadable
from makeway.adapters.slurm import build
from makeway.adapters.slurm.access import SlurmClient, new_token
from makeway.adapters.slurm.parse import GpuDefaults, Gres, RawJob, for_each_gpu, gres
from makeway.adapters.slurm.reader.answer import HIDDEN
from makeway.adapters.slurm.reader.rows import RowReader

_FIELDS = ("JobArrayID", "SubmitTime", *HIDDEN)


@dataclass(frozen=True, slots=True)
class _Request:
    """The fields of `RawJob` that pyslurm does not tell."""

    gres_per_job: tuple[Gres, ...] = ()
    gres_per_socket: tuple[Gres, ...] = ()
    memory_per_gpu_mb: int = 0
    cpus_per_gpu: int = 0
    gpu_defaults: GpuDefaults | None = None


_NO_REQUEST = _Request()


class GpuRequests:
    """Completes the jobs that pyslurm has read. What a job asks for does not change after its submission."""

    def __init__(self, client: SlurmClient) -> None:
        self._client = client
        self._known: dict[tuple[str, float], _Request] = {}
        self._complete: dict[str, tuple[RawJob, RawJob]] = {}
        """By job id: the job as pyslurm tells it, and with the rest, for later snapshots."""

    def completed(self, jobs: tuple[RawJob, ...]) -> tuple[RawJob, ...]:
        """The same jobs with all fields.

        Raises:
            Unavailable: squeue gave no answer.
            Unreadable: it gave one that cannot be understood.
        """
        if any(filterfalse(self._known.__contains__, map(_key, jobs))):
            self._known = self._read()
        before, self._complete = self._complete, {}
        for job in jobs:
            pair = before.get(job.job_id)
            if pair is None or pair[0] is not job:
                # A job that squeue does not list has ended meanwhile.
                found = self._known.get(_key(job), _NO_REQUEST)
                pair = (job, job if found == _NO_REQUEST else _with(job, found))
            self._complete[job.job_id] = pair
        return tuple(self._complete[job.job_id][1] for job in jobs)

    def _read(self) -> dict[tuple[str, float], _Request]:
        token, command = new_token(), build.squeue()
        rows: list[bytearray] = []
        reader = RowReader(token, len(_FIELDS))
        self._client.run_squeue(command, _FIELDS, token, lambda piece: rows.extend(reader.rows(piece)))
        found: dict[tuple[str, float], _Request] = {}
        try:
            reader.end()
            for row in rows:
                job_id, submitted, per_job, per_socket, memory, cpus = row.decode(
                    "utf-8", "surrogateescape"
                ).split(token)
                found[job_id, float(submitted)] = _Request(
                    gres_per_job=gres(per_job),
                    gres_per_socket=gres(per_socket),
                    **for_each_gpu(memory, cpus),
                )
        except ValueError as error:
            message = f"squeue printed what cannot be read: {error}"
            raise Unreadable(message, command=command, text="") from None
        return found


def _key(job: RawJob) -> tuple[str, float]:
    return job.job_id, job.submit_s


def _with(job: RawJob, found: _Request) -> RawJob:
    return replace(
        job,
        gres_per_job=found.gres_per_job,
        gres_per_socket=found.gres_per_socket,
        memory_per_gpu_mb=found.memory_per_gpu_mb,
        cpus_per_gpu=found.cpus_per_gpu,
        gpu_defaults=found.gpu_defaults,
    )
