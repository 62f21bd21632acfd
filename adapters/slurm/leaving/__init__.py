"""Jobs that leave: what they are told, what became of a run that makeway's signal may have ended, and
how the job of a lost hold is freed.
"""
