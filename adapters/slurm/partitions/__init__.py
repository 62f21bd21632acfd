"""What partitions say of their jobs and nodes, where it overrides what the cluster says."""
