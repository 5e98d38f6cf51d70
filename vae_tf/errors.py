"""The errors that a program prints as one line, and functions that make text from outside safe to print."""

import unicodedata
from collections.abc import Sequence


class InputError(ValueError):
    """Raised for mistakes that the user can fix: one line with the argument, what was expected, what came, the choices.

    The programs print it without a traceback; any other error is a bug and shows where. The message may quote what
    was given, so its control characters are escaped, and its middle is left out if it is long.
    """

    # Keras and AutoGraph leave such an error as it is. They would put lines of their own around the message.
    _keras_call_info_injected = True
    ag_pass_through = True

    def __init__(self, message: str) -> None:
        super().__init__(shorten(make_printable(message)))


class NonFiniteError(RuntimeError):
    """The loss or a weight became NaN or infinite; the message names the step and the last good checkpoint."""


class DataError(RuntimeError):
    """Examples could not be read; the message names the step and the last good checkpoint."""


class WorkerError(RuntimeError):
    """Another worker has ended or cannot be reached; the message names the step and the last good checkpoint."""


JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"


def make_printable(text: object) -> str:
    r"""Return the text with its control characters escaped, because a terminal would obey them; ESC becomes \x1b.

    Spaces of all kinds stay, and so do the two characters that join letters, or keep them apart, in Persian, in Hindi
    and in emoji: no terminal obeys them, and paths may have them.
    """
    return "".join(character if character.isprintable() or unicodedata.category(character) == "Zs"
                   or character in JOINERS
                   else character.encode("unicode_escape").decode() for character in str(text))


def join_names(names: Sequence[str]) -> str:
    """Return names as a sentence has them: a, b and c."""
    return " and ".join([", ".join(names[:-1]), *names[-1:]] if len(names) > 1 else names)


def shorten(text: str, longest: int = 1_500) -> str:
    """Return the text; of one that is longer, the beginning and the end alone, with ... between them."""
    return text if len(text) <= longest else f"{text[:longest * 2 // 3]} ... {text[len(text) - longest // 3 + 5:]}"
