"""Jobs and machines to simulate: traces, generators, samples. Imports no other room."""
