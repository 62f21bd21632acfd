"""Text for logs and terminals."""


def printable(text: str) -> str:
    """`text` with everything that a terminal could obey written as an escape.

    Control characters, line ends, bidirectional marks, lone surrogates: whatever Python does not call
    printable.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def counted(count: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
