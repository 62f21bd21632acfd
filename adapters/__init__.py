"""The edge: how makeway reads a cluster and acts on it. An adapter knows the model and nothing else
of ours.
"""
