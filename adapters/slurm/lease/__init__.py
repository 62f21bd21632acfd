"""The leases by which one of several daemons acts, as reservations of Slurm."""
