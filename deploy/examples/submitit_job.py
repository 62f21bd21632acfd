"""A submitit job with submitit's own checkpoints, and one more line of configuration.

submitit's jobs save and requeue themselves when their steps get the signal USR2. The line `slurm_comment`
makes this one a job of the site's class for them, which says `signal: USR2`, `signal_to: steps` and
`acknowledgement: requeue`.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import submitit

COMMENT = "makeway:submitit"
"""The one line that makeway needs."""


@dataclass
class Count(submitit.helpers.Checkpointable):
    """Counts. The count is in the object, which submitit saves."""

    steps: int
    step_s: float
    step: int = 0

    def __call__(self) -> int:
        print(f"starts after step {self.step}", flush=True)
        while self.step < self.steps:
            time.sleep(self.step_s)
            # Last, and at once: the signal may come between any two lines.
            self.step += 1
            print(f"step {self.step}", flush=True)
        return self.step


def main() -> None:
    """Submit it, and print the job's id."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path("submitit"), help="where submitit keeps its files"
    )
    parser.add_argument("--steps", type=int, default=360)
    parser.add_argument("--step-s", type=float, default=10.0, help="how long a step takes")
    options = parser.parse_args()

    executor = submitit.AutoExecutor(folder=options.folder)
    executor.update_parameters(timeout_min=120, slurm_comment=COMMENT)
    print(executor.submit(Count(options.steps, options.step_s)).job_id)


if __name__ == "__main__":
    main()
