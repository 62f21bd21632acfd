"""The program has all its commands, whichever test is run alone."""

from makeway.simharness import main

__all__ = ["main"]
