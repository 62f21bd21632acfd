"""Slurm by its commands. Imports the model, the protocol and the site's words."""
