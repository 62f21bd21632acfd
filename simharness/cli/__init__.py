"""The commands that need the simulated cluster."""
