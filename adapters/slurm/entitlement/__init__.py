"""Who could submit which jobs on a Slurm."""
