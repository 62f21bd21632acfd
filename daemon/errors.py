"""The errors that are the user's to mend: one sentence on standard error and exit status 2, never a traceback."""

USER_ERRORS = frozenset(
    {
        "makeway.daemon.errors.UserError",
        "makeway.daemon.journal.schema.JournalError",
        "makeway.policies.registry.UnknownPolicy",
        "makeway.policies.horizon.cp_sat.SolverUnavailable",
    }
)
"""By name, so that the command line need not import what a command does not use."""


class UserError(ValueError):
    """Something outside makeway is wrong, and the message says what, where, and what would be accepted.

    A message of several lines holds several problems, one a line.
    """


def is_user_error(error: BaseException, names: frozenset[str]) -> bool:
    """Whether `error` is of a class, or of a subclass of a class, that `names` names."""
    return any(f"{kind.__module__}.{kind.__qualname__}" in names for kind in type(error).__mro__)


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
