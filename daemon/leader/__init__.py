"""Which of several daemons acts: the lease that the cluster keeps, and what the operators say about it."""
