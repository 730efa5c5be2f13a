"""The statuses with which the command ends."""

import errno
import traceback
from collections.abc import Iterable

from jaxrob._arguments.computing import was_computing
from jaxrob._command import user_code
from jaxrob._command.refused import Refused

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


def begin() -> None:
    """Begins a command: nothing is computed yet."""
    _answers[0] = False


def answers_are_there() -> None:
    """Notes that answers are known: an error from now on is no wrong use."""
    _answers[0] = True


def of_error(error: BaseException) -> int:
    """Returns the status for an error: wrong use, or a failure."""
    # What is raised while answers are computed, or by the user's own code, is no wrong
    # use of the command, whatever its type.
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
    """Returns an error and those that it came from."""
    found: dict[int, BaseException] = {}
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in found:
            found[id(one)] = one
            waiting += [one.__cause__, one.__context__]
    return found.values()
