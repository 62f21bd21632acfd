"""Nodes that jobs share: what is used of each, and a scheduler that counts every resource."""
