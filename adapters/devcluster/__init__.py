"""A real Slurm on this machine, for development and tests."""
