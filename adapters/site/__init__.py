"""What every batch system needs: job classes, words in comments, printable text, sections of a configuration,
checks.
"""
