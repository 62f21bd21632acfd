"""Policy `eviction` (P2): the set of jobs with the least loss leaves in time.

Other policies may import `policy` (`EvictionConfig`, `make_room`, `least_price_node_s`, `item_of`).
"""
