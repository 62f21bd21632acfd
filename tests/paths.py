"""Where the files are that tests read."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
CAPTURED = ROOT / "tests" / "adapters" / "slurm" / "captured"
"""What real Slurms printed, a folder for each release."""
EXAMPLE_POLICY = ROOT / "docs" / "examples" / "youngest.py"
SLURM_PREEMPTION = ROOT / "docs" / "examples" / "slurm_preemption.py"
SHARED = ROOT.parent / "shared"
"""Real traces next to the checkout. The folder is absent on a user's machine."""
