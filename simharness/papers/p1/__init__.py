"""P1: real-time jobs on Mira's partitions."""
