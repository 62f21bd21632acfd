"""The simulated cluster in virtual time, and its adapter."""
