"""What the daemon remembers: one SQLite file, versioned bodies."""
