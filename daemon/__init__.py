"""The daemon: one cycle reads a cluster, decides, lets the arbiter refuse, writes down, and acts."""
