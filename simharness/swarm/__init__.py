"""The swarm: random workloads under random troubles, run by the whole daemon, with every law checked."""
