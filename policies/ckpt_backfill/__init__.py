"""Policy `ckpt-backfill` (P3): waiting jobs that can checkpoint start before their turn."""
