"""Which jobs may be touched, and what it costs to make them leave. Imports the model."""
