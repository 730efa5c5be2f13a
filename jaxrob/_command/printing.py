"""Printing that never fails, and signals as interruptions."""

import contextlib
import io
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class _Stream:
    """A stream that records write errors instead of raising them.

    Attributes:
      lost: the first write error, or None.
    """

    def __init__(self, stream: Any, escapes: bool) -> None:
        self.lost: OSError | None = None
        self._stream, self._escapes = stream, escapes

    def write(self, text: str) -> int:
        with self._kept():
            self._stream.write(plain(text) if self._escapes else text)
        return len(text)

    def flush(self) -> None:
        with self._kept():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextlib.contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.lost = self.lost or error
            # The buffered rest would fail again when Python exits.
            with contextlib.suppress(OSError), open(os.devnull, "w") as nothing:
                os.dup2(nothing.fileno(), self._stream.fileno())


@contextlib.contextmanager
def forgiving() -> Iterator[_Stream]:
    """Lets work continue if its output is closed or cannot be written."""
    old: tuple[Any, Any] = sys.stdout, sys.stderr
    for stream in old:
        if isinstance(stream, io.TextIOWrapper):
            # Class names may have letters that the terminal does not support.
            stream.reconfigure(errors="backslashreplace")
    # Python replaces closed streams by None, and the next file opened would get their
    # number.
    out, err = (one or open(os.devnull, "w") for one in old)
    # Progress bars, which the library draws, need control characters.
    streams: tuple[Any, Any] = _Stream(out, True), _Stream(err, False)
    sys.stdout, sys.stderr = streams
    try:
        yield streams[0]
    finally:
        for stream in streams:
            stream.flush()
        sys.stdout, sys.stderr = old


def plain(text: str) -> str:
    """Escapes a text's control characters, except for tabs and new lines."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def say(text: str, command: str | None = None) -> None:
    """Prints a message on one line of the standard error."""
    who = "jaxrob" if command is None else f"jaxrob {command}"
    print(f"{who}: {plain(' '.join(text.split()))}", file=sys.stderr)


def say_traceback(error: BaseException) -> None:
    """Prints an error's traceback."""
    print(plain("".join(traceback.format_exception(error))), end="", file=sys.stderr)


_NUMBERS = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def signals_as_interruptions() -> Iterator[None]:
    """Turns a termination signal into `KeyboardInterrupt`; a second one terminates."""
    # Signals that are ignored, as under nohup, or handled already are left alone.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [one for one in _NUMBERS if signal.getsignal(one) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(number: int, frame: Any) -> None:
    del frame
    signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt(f"ended by {signal.Signals(number).name}")
