"""What a replay was worth: measures, tables, the HTML report."""
