"""Termination signals as interruptions, so that a message can say what is kept."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

_NUMBERS = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def as_interruptions() -> Iterator[None]:
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
