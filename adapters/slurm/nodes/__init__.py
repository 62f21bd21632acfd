"""The states of Slurm's nodes, and what is done about nodes that sleep to save power."""
