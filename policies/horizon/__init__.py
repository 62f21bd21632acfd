"""Policy `horizon` (P4): all waiting jobs are planned together. Making a plan needs OR-Tools."""
