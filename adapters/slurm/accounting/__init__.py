"""What Slurm's accounting says about past jobs, and the shape of their machine. Pure functions
of text.
"""
