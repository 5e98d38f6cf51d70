"""The error that is the user's to mend."""


class InputError(ValueError):
    """Bad input. The message is one line: which argument, what was expected, what came, the choices.

    The programs print it without a traceback; any other error is a bug and shows where.
    """
