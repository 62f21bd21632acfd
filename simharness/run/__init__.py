"""Replays: the daemon's own cycle against the simulated cluster."""
