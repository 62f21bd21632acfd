"""Sweeps: policies x traces x workloads x seeds x settings, and what their results say."""
