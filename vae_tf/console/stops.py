"""Signals that ask a program to stop."""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

Handler = Callable[[int, Any], Any]

# Signals that ask a program to stop; Windows lacks some of them.
STOPS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupted(KeyboardInterrupt):
    """A signal asked the program to stop; `number` says which."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


_stopped_by: list[int] = []
_requested: list[int] = []      # signals that the last StopRequest has seen


def end_by_signal() -> None:
    """End the process by the signal that stopped `run`, if one did; called when the process exits."""
    for number in _stopped_by:
        sys.stdout.flush()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)


def end_by_request() -> None:
    """Let the process end by the signal that the last StopRequest has seen, if any, as a shell loop expects."""
    _stopped_by.extend(_requested)
    if _requested:
        sys.exit(128 + _requested[0])


def handle_stops(handler: Handler) -> dict[int, Any]:
    """Have `handler` called for every signal that asks to stop, but those that the parent had ignored (nohup).

    Returns {signal: handler before}; empty outside of the main thread, where signals cannot be handled.
    """
    try:
        return {number: signal.signal(number, handler) for number in STOPS
                if signal.getsignal(number) != signal.SIG_IGN}
    except ValueError:
        return {}


def renew_handlers() -> None:
    """Handle the signals that ask to stop as Python thinks that they are handled, after native code changed that."""
    for number in STOPS:
        with contextlib.suppress(ValueError, TypeError):        # not the main thread, or a handler that is not Python's
            signal.signal(number, signal.getsignal(number))


def run(program: str, main: Callable[[], Any]) -> None:
    """Call main(); a request to stop is one line, after everything has been tidied up, and ends the process by signal.

    A second request ends the process at once. Native code may turn the exception of a request into an error of its own,
    as TensorFlow's does now and then, so that whatever ends main() after a request is the request.
    """
    requests: list[Interrupted] = []

    def interrupt(number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        requests.append(Interrupted(number))
        raise requests[-1]

    def ask_again(ignored: Any) -> None:
        # What is raised while Python clears objects away is lost; so the same signal comes again a little later.
        if not isinstance(ignored.exc_value, Interrupted):
            return before(ignored)
        number = ignored.exc_value.number
        signal.signal(number, interrupt)
        threading.Timer(0.01, _signal_main_thread, (number,)).start()

    def show_no_request(*error: Any) -> None:
        # Native code that cannot hand on an exception, or has made another one of it, shows it by this hook.
        if not requests:
            shown(*error)

    before, sys.unraisablehook = sys.unraisablehook, ask_again
    shown, sys.excepthook = sys.excepthook, show_no_request
    handle_stops(interrupt)
    try:
        main()
    except BaseException:
        if not requests:
            raise
        stop = requests[0]
        print(f"{program}: stopped by {stop}", file=sys.stderr)
        _stopped_by.append(stop.number)
        sys.exit(128 + stop.number)


def _signal_main_thread(number: int) -> None:
    """Send a signal to the main thread, whatever it waits for; Windows can only send it to the process."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        signal.raise_signal(number)


class StopRequest:
    """While entered, SIGINT, SIGTERM and SIGHUP set `requested`; a second signal, of any kind, has its former effect.

    Until `worth_saving` is set, the first signal has its former effect, too.
    """

    def __enter__(self) -> "StopRequest":
        self.requested = self.worth_saving = False
        _requested.clear()
        self._before = handle_stops(self._request)
        return self

    def _request(self, number: int, frame: Any) -> None:
        self.requested = True
        _requested[:] = [number]
        self._restore_handlers()
        if not self.worth_saving:
            signal.raise_signal(number)

    def __exit__(self, *error: Any) -> None:
        self._restore_handlers()

    def _restore_handlers(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
