"""Cores, memory and GPUs: what nodes have, what running jobs hold on each node and what waiting jobs ask."""
