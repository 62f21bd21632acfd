"""The nodes of a Slurm: whether they are up, and those that sleep to save power."""
