"""P5's six policies: what they do at the notice and at the arrival of an on-demand job."""
