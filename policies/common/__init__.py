"""What several policies share: requests, victims, commitments, shrinking, notices, queues. Imports the model and safety."""
