"""The errors that are the user's to mend: one sentence on standard error and exit status 2, never a
traceback.
"""

from typing import ClassVar, Final

from makeway.adapters.site.text import counted, printable

__all__ = ["CANNOT_GO_ON", "TRY_AGAIN", "OneProblem", "UserError", "counted", "printable"]

CANNOT_GO_ON: Final = 2
"""The exit status of an error that only a person can mend: systemd does not start the daemon again."""
TRY_AGAIN: Final = 75
"""The exit status of an error that may pass by itself (EX_TEMPFAIL): systemd starts the daemon again."""


class UserError(ValueError):
    """Something outside makeway is wrong. The message says what, where, and what would be accepted.

    A message of several lines holds several problems, one a line. Every package above the policies derives
    the errors that its user can mend from this class; a policy's are `policies.contract.PolicyError`.
    """

    exit_status: ClassVar[int] = CANNOT_GO_ON
    """What the program ends with."""


class OneProblem(UserError):
    """An error with one problem. Its message is one line whatever it quotes: the name of a file, or the value
    of an option, may hold a line end.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))
