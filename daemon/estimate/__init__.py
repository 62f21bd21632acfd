"""What makeway learns from what it observes: durations of checkpoints, and run times."""
