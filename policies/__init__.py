"""Decisions: the model of a cluster and the policies that choose what to do to it.

Everything here is a pure function of a snapshot: no clock, no I/O, no memory. `model` is the vocabulary that
every other package shares; it imports nothing else of makeway.
"""
