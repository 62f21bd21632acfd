"""The queue of the batch system: its order, and how many nodes are free from when on."""
