"""What no policy may do: who may be touched, and the gate that every action passes. Imports the model."""
