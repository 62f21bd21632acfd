"""P2: the exact programme beside greedy and backtracking."""
