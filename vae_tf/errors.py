"""The error that is the user's to mend, and text from files made safe to print."""


class InputError(ValueError):
    """Bad input. The message is one line: which argument, what was expected, what came, the choices.

    The programs print it without a traceback; any other error is a bug and shows where.
    """


def printable(text):
    r"""The text with its control characters escaped: a terminal obeys a raw escape, and shows \x1b as it stands."""
    return "".join(character if character.isprintable() else character.encode("unicode_escape").decode()
                   for character in str(text))
