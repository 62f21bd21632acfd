"""The simulated cluster: virtual time, Slurm's semantics, trace replay, measures and the report."""
