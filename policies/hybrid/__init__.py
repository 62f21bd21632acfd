"""P5's six policies: what is done at the notice and at the arrival of an on-demand job."""
