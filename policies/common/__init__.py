"""What several policies share, from urgent jobs and their requests to the order of the queue."""
