"""A program that saves its work at the signal USR1, and regularly by itself.

Standard library only. `python-program.sh` is its batch script.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

STAND_STILL_S = 30.0
"""How long the program waits for its end after a requested checkpoint."""


@dataclass(kw_only=True)
class State:
    """All that the program needs to continue."""

    step: int = 0
    digest: str = ""


def load(path: Path) -> State:
    """The last saved state, or a new one."""
    return State(**json.loads(path.read_text())) if path.exists() else State()


def save(state: State, path: Path) -> None:
    """Replace the saved state atomically: a reader finds the old one or the new one, even after a
    power cut.
    """
    new = path.with_name(path.name + ".new")
    with new.open("w") as file:
        json.dump(asdict(state), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def tell() -> None:
    """Report to makeway that the work is saved."""
    command = shutil.which("makeway-done")
    if command is not None:
        subprocess.run([command], check=False)


def work(state: State, step_s: float) -> None:
    """One step."""
    time.sleep(step_s)
    state.step += 1
    state.digest = hashlib.sha256(f"{state.digest}{state.step}".encode()).hexdigest()


def main() -> None:
    """Do the remaining steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="the file to save in")
    parser.add_argument("--steps", type=int, default=360)
    parser.add_argument("--step-s", type=float, default=10.0, help="how long a step takes")
    parser.add_argument("--every-s", type=float, default=600.0, help="time between two regular checkpoints")
    options = parser.parse_args()

    asked: list[int] = []
    # The handler only sets a flag: the state may be half changed when it is called.
    signal.signal(signal.SIGUSR1, lambda number, _frame: asked.append(number))

    state = load(options.state)
    print(f"starts after step {state.step}", flush=True)
    saved_s = time.monotonic()
    while state.step < options.steps:
        work(state, options.step_s)
        print(f"step {state.step}", flush=True)
        if not asked and time.monotonic() < saved_s + options.every_s:
            continue
        save(state, options.state)
        tell()
        saved_s = time.monotonic()
        if asked:
            # What is done from now on would be done again. If the nodes are not needed after all, go on.
            time.sleep(STAND_STILL_S)
            asked.clear()
    print(f"the result of {state.step} steps is {state.digest}", flush=True)


if __name__ == "__main__":
    main()
