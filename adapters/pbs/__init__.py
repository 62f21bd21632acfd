"""PBS Pro by its commands, read only."""
