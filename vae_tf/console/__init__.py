"""The terminal of a program.

    stops       requests to stop: signals
    streams     standard streams that may go away, and TensorFlow's import without a word
    environment what the environment says to the libraries, settled
    progress    how far training is
    commands    names of commands, and errors of one line

It imports nothing slow, so that a program can call `start` before anything else.
"""

from vae_tf.console.commands import Parser, describe_error, fail, name_command, name_program, show_warnings_as_lines
from vae_tf.console.progress import Progress, format_clock, join_parts
from vae_tf.console.stops import STOPS, Interrupted, StopRequest, end_by_request, handle_stops, renew_handlers, run
from vae_tf.console.streams import import_tensorflow, import_without, start

__all__ = ["STOPS", "Interrupted", "Parser", "Progress", "StopRequest", "describe_error", "end_by_request", "fail",
           "format_clock", "handle_stops", "import_tensorflow", "import_without", "join_parts", "name_command",
           "name_program", "renew_handlers", "run", "show_warnings_as_lines", "start"]
