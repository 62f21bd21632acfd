"""Policy `wcjs` (P1): an urgent job takes the placement whose jobs cost least to preempt."""
