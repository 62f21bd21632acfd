"""The arms of a fight: the same workload under several ways to make way for urgent jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.fight.workload import FightJob, Quality

from makeway.adapters.devcluster.conf import PROMPT_SCHEDULING

GRACE_S = 10
"""How long a job may take to save its work after the signal."""
START_WITHIN_S = 30
"""An urgent job that starts within this time after its submission is on time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way to make way."""

    name: str
    title: str
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Lines of slurm.conf."""
    preempts: bool = False
    """Whether the urgent QOS may preempt the normal one."""
    signals: bool = False
    """Whether Slurm signals the jobs that it preempts, and waits for GraceTime."""
    policy: str = ""
    """The policy with which makeway runs. Empty: it does not run."""

    @property
    def after_saving(self) -> str:
        """What a job does when it has saved its work at the signal: for makeway it goes on until it is
        requeued; Slurm would let it run until the end of GraceTime, so that it requeues itself.
        """
        return "requeue" if self.signals else "continue"

    def options(self, job: FightJob) -> tuple[str, ...]:
        """More options of sbatch for a job."""
        saving = job.interval_s is not None
        options: tuple[str, ...] = (f"--qos={job.quality}",)
        if saving:
            options += (f"--comment=makeway:saves makeway:ckpt-takes={job.save_s:.1f}",)
        if saving and self.signals:
            # Sent 1 s before the time limit, which no job reaches, and at its preemption.
            options += ("--signal=B:USR1@1",)
        return options

    def qos_settings(self, quality: Quality) -> tuple[str, ...]:
        """What sacctmgr sets for a QOS."""
        match quality:
            case Quality.URGENT:
                return ("priority=1000", *(("preempt=normal",) if self.preempts else ()))
            case Quality.NORMAL:
                return (f"gracetime={GRACE_S}",) if self.signals else ()
            case Quality.STEADY:
                return ()


_PREEMPTION = {"PreemptType": "preempt/qos", "PreemptMode": "REQUEUE"}
ARMS = (
    Arm(name="plain", title="Slurm without preemption"),
    Arm(name="requeue", title="Slurm, preempt/qos, REQUEUE", settings=_PREEMPTION, preempts=True),
    Arm(
        name="youngest",
        title="Slurm, preempt/qos, REQUEUE, the youngest jobs first",
        settings={
            **_PREEMPTION,
            "SchedulerParameters": ",".join((*PROMPT_SCHEDULING, "preempt_youngest_first")),
        },
        preempts=True,
    ),
    Arm(
        name="signals",
        title="Slurm, preempt/qos, REQUEUE, with a signal and GraceTime",
        settings={**_PREEMPTION, "SlurmctldParameters": "preempt_send_user_signal"},
        preempts=True,
        signals=True,
    ),
    Arm(name="makeway", title="makeway with its default policy, least-price", policy="least-price"),
    Arm(name="eviction", title="makeway with policy eviction", policy="eviction"),
)
