"""What the laws of the swarm look at."""
