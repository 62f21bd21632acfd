"""The edge: how makeway reads a cluster and acts on it. An adapter imports the model and nothing else
of makeway's.
"""
