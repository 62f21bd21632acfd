"""P3: backfilling with checkpoints."""
