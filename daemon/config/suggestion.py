"""What to write instead of a word that is not known."""

import difflib
from collections.abc import Iterable


def closest(word: str, known: Iterable[str]) -> str:
    """`did you mean X?`, or the accepted words.

    X is the known word that looks most like it, else the only one that begins with it.
    """
    choices = sorted(known)
    near = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    begun = [one for one in choices if one.startswith(word)] if word else []
    if near or len(begun) == 1:
        return f"did you mean {(near or begun)[0]}?"
    return f"accepted: {', '.join(choices) or 'nothing'}"
