"""P2: the exact programme compared with greedy and backtracking."""
