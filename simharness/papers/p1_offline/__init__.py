"""P1, section 5: the offline optimum."""
