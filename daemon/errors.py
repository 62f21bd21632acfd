"""The errors that are the user's to mend: one sentence on standard error and exit status 2, never a traceback."""


class UserError(ValueError):
    """Something outside makeway is wrong. The message says what, where, and what would be accepted.

    A message of several lines holds several problems, one a line. Every package above the policies derives
    the errors that its user can mend from this class; a policy's are `policies.contract.PolicyError`.
    """


def printable(text: str) -> str:
    """`text` with everything that a terminal could obey written as an escape.

    Control characters, line ends, bidirectional marks, lone surrogates: whatever Python does not call printable.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
