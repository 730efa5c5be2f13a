"""Marks errors that are raised while answers are computed: no argument is at fault."""

import contextlib
from typing import Any

_MARK = "_jaxrob_computing"


def computing() -> "_Computing":
    """Marks each error that leaves the block. Answers are computed inside."""
    return _Computing()


def was_computing(error: BaseException) -> bool:
    """Whether an error left a block of `computing`."""
    try:
        return getattr(error, _MARK, False) is True
    except Exception:  # A user's class may raise anything.
        return False


class _Computing(contextlib.ContextDecorator):
    """Not made by `contextlib.contextmanager`, which writes to the error.

    A user's class of errors may not allow that.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        # The error counts more than the mark.
        with contextlib.suppress(Exception):
            if error is not None:
                setattr(error, _MARK, True)
