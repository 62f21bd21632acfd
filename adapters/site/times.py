"""Stand-ins for instants and durations that a batch system does not have."""

UNLIMITED_S = 365 * 86400.0
"""The walltime that the model gives a job without a time limit: a year, after which Slurm expects such a job
to end.
"""
NOT_BEFORE_S = 4_102_444_800.0
"""The year 2100: when a job may start that is held, or waits for what makeway cannot give it."""
