"""Texts that people read: names, counts, extras to install, and warnings."""

import contextlib
import contextvars
import importlib
import os
import pathlib
import re
import sys
import types
import unicodedata
import warnings
from collections.abc import Iterator
from typing import Any

# Joiners, which some scripts need. All other invisible characters are spelt out.
_SEEN = "\u200c\u200d"
_SPACE = re.compile(r"[\s\x1c-\x1f\x85]+")


def readable(text: str) -> str:
    """Returns a text on one line, with invisible characters spelt out."""
    # A name could reverse the direction of writing, or hold half a surrogate pair.
    text = _SPACE.sub(" ", text)
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"(U+{ord(one):04X})"
        if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")
        and one not in _SEEN
        else one
        for one in text
    )


def error_text(error: BaseException) -> str:
    """Returns an error's text. A user's class may raise another error instead."""
    try:
        return str(error)
    except Exception:
        return "its text cannot be read"


def counted(number: int, one: str, more: str | None = None) -> str:
    """Formats a count, such as "1 image" or "2 images"."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def install(extra: str) -> str:
    # The package is on no registry, so "pip install jaxrob" would install a stranger's.
    return f'pip install -e ".[{extra}]" in a clone of jaxrob'


def required(module: str, purpose: str, extra: str) -> types.ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = module.partition(".")[0]
        if error.name != missing:  # It is installed, but another import in it fails.
            raise
        raise ImportError(
            f"{purpose} needs {missing}, which is not installed: {install(extra)}"
        ) from error


_OF = re.compile(r"[^.:\n]{1,80}: ")
_NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?")
_PACKAGE = str(pathlib.Path(__file__).parents[1]) + os.sep

_collector: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar(
    "jaxrob_warnings", default=None
)


class RobustnessWarning(UserWarning):
    """Something looks like a mistake, and the numbers may not mean what they seem to.

    The message says what was seen and what to do. Results keep the messages, such as
    `jaxrob.Assessment` in ``warnings``. To stop at the first one instead::

        warnings.simplefilter("error", jaxrob.RobustnessWarning)
    """


def warn(message: str) -> None:
    """Warns, as from the line that called the library, and keeps the message."""
    # Within `collected` each message is raised once.
    kept = _collector.get()
    if kept is not None:
        if message in kept:
            return
        kept.append(message)
    warnings.warn(message, RobustnessWarning, stacklevel=_levels_to_caller())


@contextlib.contextmanager
def collected() -> Iterator[list[str]]:
    # The innermost collects: a warning about one of several alterations stays with it.
    messages: list[str] = []
    token = _collector.set(messages)
    try:
        yield messages
    finally:
        _collector.reset(token)


def cause_of(message: str) -> str:
    """Returns what warnings of one cause share: words without numbers and subjects."""
    return _NUMBER.sub("#", _OF.sub("", message, count=1))


def _levels_to_caller() -> int:
    frame, level, last_inside = sys._getframe(1), 1, 1
    while frame is not None:
        file = frame.f_code.co_filename
        # A public function may be decorated by a context manager.
        is_decorator = file == contextlib.__file__ and last_inside == level - 1
        if file.startswith(_PACKAGE) or is_decorator:
            last_inside = level
        frame, level = frame.f_back, level + 1
    return last_inside + 1


_MARK = "_jaxrob_computing"


def was_computing(error: BaseException) -> bool:
    try:
        return getattr(error, _MARK, False) is True
    except Exception:  # A user's class may raise anything.
        return False


class computing(contextlib.ContextDecorator):
    """Marks each error that leaves the block. Answers are computed inside."""

    # `contextlib.contextmanager` writes to errors, which a user's may forbid.
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            # The error counts more than the mark.
            with contextlib.suppress(Exception):
                setattr(error, _MARK, True)
