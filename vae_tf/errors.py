"""The error for mistakes that the user can fix, and a function that makes text from files safe to print."""


class InputError(ValueError):
    """Raised for mistakes that the user can fix: one line with the argument, what was expected, what came, the choices.

    The programs print it without a traceback; any other error is a bug and shows where.
    """


def printable(text: object) -> str:
    r"""Return the text with its control characters escaped, because a terminal would obey them; ESC becomes \x1b."""
    return "".join(character if character.isprintable() else character.encode("unicode_escape").decode()
                   for character in str(text))
