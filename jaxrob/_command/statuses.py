"""The statuses with which the command ends."""

import errno
import sys
import types
from collections.abc import Iterator

from jaxrob._command import user_code
from jaxrob._command.refused import Refused

GOOD, NOT_GOOD_ENOUGH, WRONG_USE, FAILED = range(4)
MEANING = {
    GOOD: "all is good",
    NOT_GOOD_ENOUGH: "not good enough, by --require or --regressions",
    WRONG_USE: "wrong use or bad input, found before anything was computed",
    FAILED: "all else: a crash, a file that cannot be read, too little memory",
}

# What the library raises where an argument or a file is not what it should be.
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
# Functions below which answers are computed, by their modules.
_COMPUTING = (
    ("_engine.parts", "answer_parts"),
    ("_engine.queue", "evaluate_queue"),
    ("_run.pseudo_labels", "labelled"),
    ("roma._journal", "answers_in"),
    ("strategies._drive", "_check_defined"),
    ("strategies._drive", "concluded"),
    ("training._fit", "fit"),
)


# Whether answers are there: what fails from then on is no bad input.
_answers = [False]


def begin() -> None:
    """A command begins: nothing is computed yet."""
    _answers[0] = False


def answers_are_there() -> None:
    """All that could be checked before was checked."""
    _answers[0] = True


def of_error(error: BaseException) -> int:
    """The status for an error: of wrong use, or of all else.

    What is raised while answers are computed, or by the user's own code, is no wrong
    use of the command, whatever its type.
    """
    if isinstance(error, Refused):
        return WRONG_USE
    # A link to itself, or a name too long, has no type of its own.
    is_bad = isinstance(error, _BAD_INPUT) or (
        isinstance(error, OSError) and error.errno in (errno.ELOOP, errno.ENAMETOOLONG)
    )
    if _answers[0] or not is_bad:
        return FAILED
    computing = _computing()
    for code in _codes(error):
        if code in computing or user_code.is_from(code.co_filename):
            return FAILED
    return WRONG_USE


def _computing() -> set[types.CodeType]:
    """The functions below which answers are computed, of the modules loaded."""
    found = set()
    for place, name in _COMPUTING:
        module = sys.modules.get(f"jaxrob.{place}")
        if module is not None:
            found.add(getattr(module, name).__code__)
    return found


def _codes(error: BaseException) -> Iterator[types.CodeType]:
    """What was running when an error was raised, or one that it came from."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        waiting += [one.__cause__, one.__context__]
        trace = one.__traceback__
        while trace is not None:
            yield trace.tb_frame.f_code
            trace = trace.tb_next
