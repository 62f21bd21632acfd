"""A site's own past: an export of its accounting as a workload, replayed with and without makeway."""
