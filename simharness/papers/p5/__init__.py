"""P5: the six mechanisms on Theta."""
