"""How a snapshot is read: by Slurm's commands, or by pyslurm in a process of its own."""
