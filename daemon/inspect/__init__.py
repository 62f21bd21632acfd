"""Answers that read and change nothing: doctor, explain, summary, what-if."""
