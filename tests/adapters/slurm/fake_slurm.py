"""A Slurm whose answers a test writes down, for the adapter's logic."""

import threading
import time
from collections.abc import Callable, Mapping

from makeway.adapters.command import CompletedCommand
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm import build
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.settings import SlurmSettings
from makeway.policies.model import JobKind
from tests.adapters.slurm.test_parse import ROW

NODES = "\n".join(
    (
        f"NodeName=n{number} CPUTot=2 RealMemory=1000 State=IDLE ActiveFeatures=(null) Gres=(null) "
        f"Partitions=batch"
    )
    for number in range(1, 9)
)
PARTITIONS = "PartitionName=batch State=UP"
SHOW_RESERVATION = build.show_reservation("x")[:-1]
NO_RESERVATIONS = "No reservations in the system"
NOW_S = 1_795_250_000.0
RUNNING = ROW | {
    "State": "RUNNING",
    "Reason": "None",
    "NodeList": "n[1-2]",
    "BatchHost": "n1",
    "StartTime": "1795249000",
}
SETTINGS = SlurmSettings(
    classes=(
        JobClass(name="urgent", qos=frozenset({"urgent"}), kind=JobKind.ON_DEMAND),
        JobClass(name="batch", kind=JobKind.MALLEABLE, preemptible=True, node_count_min=1),
    )
)
KEPT = ("AdminComment=", "Comment=")
Answer = tuple[int, str, str]
OK: Answer = (0, "", "")
NO_CONTROLLER: Answer = (1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")


def made_reservation(name: str, **changes: str) -> str:
    """What scontrol shows of a hold for a job, with some keys changed."""
    shown = {
        "StartTime": f"{NOW_S:.0f}",
        "EndTime": f"{NOW_S + 600:.0f}",
        "Nodes": "n1",
        "Features": "(null)",
        "PartitionName": "(null)",
        "Flags": "IGNORE_JOBS,SPEC_NODES,PURGE_COMP=00:01:00,NO_HOLD_JOBS_AFTER_END",
        "Users": "ada",
        "Groups": "(null)",
        "Accounts": "(null)",
        "Licenses": "(null)",
        "State": "ACTIVE",
        "BurstBuffer": "(null)",
        "MaxStartDelay": "(null)",
    } | changes
    return f"ReservationName={name} " + " ".join(f"{key}={text}" for key, text in shown.items())


class FakeSlurm:
    """Answers squeue and the reading scontrol from tables, and everything else from a script.

    `rows` are the jobs; `script` gives the answers to the other commands, or what they raise, in order, and
    then always yes.
    """

    def __init__(
        self, *rows: dict[str, str], release: str = "24.11.5", script: tuple[Answer | Exception, ...] = ()
    ) -> None:
        self.rows = list(rows)
        self.release = release
        self.script = list(script)
        self.parameters = "bf_interval=1,permit_job_expansion"
        self.settings: dict[str, str] = {}
        """More lines of the configuration."""
        self.config_answer: Answer | None = None
        """What scontrol answers that is to show the configuration. None: it shows it."""
        self.calls: list[tuple[str, ...]] = []
        self.inputs: list[bytes] = []
        self.squeue_answer: Answer | None = None
        self.notices: list[tuple[str, ...]] = []
        """What jobs are told, by a thread of the adapter: no other list has it."""
        self.notify_answer: Answer = OK
        self.may_notify = threading.Event()
        """While it is not set, a notice gets no answer."""
        self.may_notify.set()
        self.untils: set[str] = set()
        """At which words commands were to be ended."""
        self.note_answer: Answer = OK
        """The answer to a command that only keeps with a job what is taken from it."""
        self.reservation_answer: Answer | None = None
        """What scontrol says of one reservation. None: what it shows."""
        self.reservations: dict[str, str] = {}
        """What scontrol shows of reservations. One that is not there is shown as makeway makes them."""
        self.change: Callable[[list[str]], list[str]] = lambda lines: lines
        """What happens to the lines of the second command of a snapshot."""

    def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout_s: float | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        take: Callable[[bytes], object] | None = None,
        until: str = "",
    ) -> CompletedCommand:
        if argv[:2] == ("scontrol", "notify"):
            return self._notify(argv)
        self.calls.append(argv)
        self.untils |= {until} - {""}
        status, stdout, stderr = self._answer(argv, stdin, environment or {})
        if take is not None:
            take(stdout.encode("utf-8", "surrogateescape"))
            stdout = ""
        return CompletedCommand(argv=argv, returncode=status, stdout=stdout, stderr=stderr)

    def _notify(self, argv: tuple[str, ...]) -> CompletedCommand:
        self.may_notify.wait()
        self.notices.append(argv)
        status, stdout, stderr = self.notify_answer
        return CompletedCommand(argv=argv, returncode=status, stdout=stdout, stderr=stderr)

    @property
    def acts(self) -> list[tuple[str, ...]]:
        """The commands that were no reading, without what they keep with a job of what is taken from it."""
        return [
            tuple(word for word in argv if not word.startswith(KEPT))
            for argv in self.calls
            if argv[0] != "squeue"
            and argv not in (build.show_config(), build.show_cluster())
            and argv[:-1] != SHOW_RESERVATION
            and not _is_note(argv)
        ]

    @property
    def kept(self) -> list[str]:
        """What the commands have written into AdminComment or Comment, in order."""
        return [word for argv in self.calls for word in argv if word.startswith(KEPT)]

    def _answer(self, argv: tuple[str, ...], stdin: bytes, environment: Mapping[str, str]) -> Answer:
        if argv == build.show_config():
            text = (
                f"ClusterName = c\nSLURM_VERSION = {self.release}\nSchedulerParameters = {self.parameters}\n"
            )
            text += "".join(f"{key} = {value}\n" for key, value in self.settings.items())
            return self.config_answer or (0, text, "")
        if argv == build.show_cluster():
            self.inputs.append(stdin)
            return 0, self._shown(stdin.decode().splitlines()), ""
        if argv[0] == "squeue":
            return self.squeue_answer or (0, self._listed(argv, environment), "")
        if argv[:-1] == SHOW_RESERVATION:
            shown = self.reservations.get(argv[-1], made_reservation(argv[-1])) + "\n"
            return self.reservation_answer or (0, shown, "")
        if _is_note(argv):
            return self.note_answer
        answer = self.script.pop(0) if self.script else OK
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _listed(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> str:
        cells = [cell.partition(":0") for cell in environment["SQUEUE_FORMAT2"].split(",")]
        (wanted,) = [word.removeprefix("--jobs=") for word in argv if word.startswith("--jobs=")] or [""]
        (bound,) = [
            word.removeprefix("--reservation=") for word in argv if word.startswith("--reservation=")
        ] or [""]
        return "".join(
            "".join(f"{row.get(field, '')}{token}" for field, _, token in cells) + "\n"
            for row in self.rows
            if wanted in {"", row["JobArrayID"]} and bound in {"", row["Reservation"]}
        )

    def _shown(self, script: list[str]) -> str:
        lines: list[str] = []
        for line in script:
            lines.append(f"scontrol: {line}")
            word = line.split()[-1]
            if line.startswith("show hostnames"):
                lines.append(word)
            else:
                reservations = "\n".join(self.reservations.values()) or NO_RESERVATIONS
                known = {"nodes": NODES, "partitions": PARTITIONS, "reservations": reservations}
                lines.append(known.get(word, f"JobId={word} JobName=x ExcNodeList=n[1-2] NodeList= Comment="))
        return "\n".join(self.change(lines)) + "\n"


def _is_note(argv: tuple[str, ...]) -> bool:
    """Whether the command changes nothing of a job but AdminComment or Comment."""
    return argv[:2] == ("scontrol", "update") and len(argv) == 4 and argv[3].startswith(KEPT)


def adapter_of(slurm: FakeSlurm, clock: Callable[[], float] = time.monotonic) -> SlurmCliAdapter:
    return SlurmCliAdapter(SETTINGS, runner=slurm, now=lambda: NOW_S, clock=clock)
