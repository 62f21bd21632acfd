"""What is drawn for random stories besides their troubles."""
