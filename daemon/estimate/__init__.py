"""What is learned from what was seen: checkpoint durations and run times."""
