"""How a run ends: its status, streams and signals, and the record of it."""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import io
import os
import platform
import re
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jaxrob._arguments.texts import was_computing
from jaxrob._command import user_code
from jaxrob._command.define import Refused, Values

GOOD, NOT_GOOD_ENOUGH, WRONG_USE, FAILED = range(4)
MEANING = {
    GOOD: "all is good",
    NOT_GOOD_ENOUGH: "not good enough, by --require or --regressions",
    WRONG_USE: "wrong use or bad input, found before anything was computed",
    FAILED: "all else: a crash, a file that cannot be read, too little memory",
}

# Errors that the library raises for a wrong argument or file.
_BAD_INPUT = (
    Refused,
    ValueError,
    TypeError,
    ImportError,
    SyntaxError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
)

# Whether answers are known, in a list that functions can write to.
_answers = [False]


def answers_are_there() -> None:
    """Notes that answers are known: an error from now on is no wrong use."""
    _answers[0] = True


def status_of(error: BaseException) -> int:
    # Errors of the computing, or of the user's own code, are no wrong use.
    if isinstance(error, Refused):
        return WRONG_USE
    # A link to itself, or a name too long, has no type of its own.
    is_bad = isinstance(error, _BAD_INPUT) or (
        isinstance(error, OSError) and error.errno in (errno.ELOOP, errno.ENAMETOOLONG)
    )
    if _answers[0] or not is_bad:
        return FAILED
    for one in _chain(error):
        frames = traceback.extract_tb(one.__traceback__)
        if was_computing(one) or any(user_code.is_from(at.filename) for at in frames):
            return FAILED
    return WRONG_USE


def _chain(error: BaseException) -> Iterable[BaseException]:
    found: dict[int, BaseException] = {}
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in found:
            found[id(one)] = one
            waiting += [one.__cause__, one.__context__]
    return found.values()


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class _Stream:
    """Records the first write error, as `lost`, instead of raising it."""

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
    # Closed streams are None, and the next file opened would get their number.
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
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def say(text: str, command: str | None = None) -> None:
    who = "jaxrob" if command is None else f"jaxrob {command}"
    print(f"{who}: {plain(' '.join(text.split()))}", file=sys.stderr)


def say_traceback(error: BaseException) -> None:
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


if TYPE_CHECKING:  # It loads JAX, and the help does not need it.
    from jaxrob.reporting import File, Run

_ROLES = {
    "classifier": "network",
    "images": "pictures",
    "labels": "labels",
    "plan": "plan",
    "profile": "profile",
}

# The command line and its beginning, and its warnings, for functions to write to.
_begun: list[str] = []
_warnings: list[str] = []


def begin_record(arguments: Sequence[str]) -> None:
    """Begins the record of a command line, whose first word is the command."""
    _answers[0] = False
    now = datetime.datetime.now(datetime.UTC)
    command = shlex.join(["jaxrob", *arguments])
    _begun[:] = [command, now.isoformat(timespec="seconds")]
    _warnings.clear()


def record_warning(text: str) -> None:
    _warnings.append(text)


def recorded_run(values: Values) -> Run:
    from jaxrob.reporting import Run

    command, started = _begun
    seed = "" if values["seed"].present else f" --seed={values.seed}"
    tester, organisation, files = values.tester, values.organisation, _files(values)
    system, warned = platform.platform(), tuple(_warnings)
    return Run(command + seed, started, system, tester, organisation, files, warned)


def with_other_runs(kept: Sequence[Run], one: Run) -> tuple[Run, ...]:
    """Returns a folder's runs: a new one replaces that of the same command."""
    others = [each for each in kept if _verb(each) != _verb(one)]
    return (*others, one)


def _verb(one: Run) -> list[str]:
    return one.command.split(maxsplit=2)[1:2]


def _files(values: Values) -> tuple[File, ...]:
    from jaxrob.reporting import File

    found = []
    for flag, role in _ROLES.items():
        given = getattr(values, flag, None)
        if not given:
            continue
        # A function in a file of Python is given as file.py:name.
        path = given.rpartition(":")[0] if ".py:" in given else given
        if os.path.isfile(path):
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found.append(File(role, path, digest))
        elif os.path.exists(path):
            found.append(File(role, path, None))
    return tuple(found)
