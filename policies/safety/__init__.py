"""The limits on every policy: which jobs may be touched, and the gate that every action passes. Imports the
model."""
