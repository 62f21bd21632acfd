"""Jobs that leave: what they are told, and what became of a run that makeway's signal may have ended."""
