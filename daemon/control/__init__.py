"""One cycle: read, decide, arbitrate, write down, send."""
