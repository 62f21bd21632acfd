"""The commands that show or end the running daemon."""
