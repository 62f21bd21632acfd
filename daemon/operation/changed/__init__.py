"""What follows if the waiting job of an operation is changed after the decision."""
