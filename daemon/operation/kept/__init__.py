"""What the cluster keeps with the jobs of what was taken from them, and which it keeps from starting."""
