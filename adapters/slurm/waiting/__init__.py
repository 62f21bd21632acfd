"""What a waiting job lacks besides nodes, and from when until when it may start."""
