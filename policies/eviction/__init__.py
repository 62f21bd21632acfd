"""Policy `eviction` (P2): the set of jobs with the least loss leaves in time.

Other policies may import `items` and `knapsack` (the exact programme) and `policy` (`EvictionConfig`,
`make_room`).
"""
