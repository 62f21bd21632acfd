"""The experiments of the five papers, run again."""
