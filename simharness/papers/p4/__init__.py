"""P4: planned queues."""
