"""The errors that are the user's to mend: one sentence on standard error and exit status 2, never a
traceback.
"""

from makeway.adapters.site.text import printable

__all__ = ["UserError", "printable"]


class UserError(ValueError):
    """Something outside makeway is wrong. The message says what, where, and what would be accepted.

    A message of several lines holds several problems, one a line. Every package above the policies derives
    the errors that its user can mend from this class; a policy's are `policies.contract.PolicyError`.
    """
