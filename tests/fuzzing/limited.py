"""Readers get little memory and time."""

import contextlib
import pathlib
import resource
import signal

# What a reader may take above what the process has.
ROOM = 700 << 20
# Milliseconds are enough, but other processes may keep all cores.
SECONDS = 120


class Hang(BaseException):
    """Something took too long."""


@contextlib.contextmanager
def limited():
    """Limits the memory that the process may allocate, and the time."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    _, most = before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, _stop)
    resource.setrlimit(
        resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, most)
    )
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGALRM, handler)


def ran_out(error):
    """Whether an error comes from a lack of memory."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _stop(*_):
    raise Hang(f"more than {SECONDS} s")
