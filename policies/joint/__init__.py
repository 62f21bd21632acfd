"""The joint choice for the components of a heterogeneous job: nodes for all of them, at the least loss."""
