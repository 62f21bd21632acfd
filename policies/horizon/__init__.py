"""Policy `horizon` (P4): the waiting jobs are planned together. Needs OR-Tools to solve."""
