"""Policy `eviction` (P2): the least-loss set of jobs leaves in time. `knapsack` and `policy` serve other policies too."""
