"""Marks errors that are raised while answers are computed: no argument is at fault."""

import contextlib
from typing import Any

_MARK = "_jaxrob_computing"


class computing(contextlib.ContextDecorator):  # noqa: N801 (called like a function)
    """Marks each error that leaves the block. Answers are computed inside.

    A class, because `contextlib.contextmanager` writes to the error, which a user's
    class may not allow.
    """

    def __enter__(self) -> None:
        """Marks nothing."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Marks an error, if its class allows it: the error counts more."""
        with contextlib.suppress(Exception):
            setattr(error, _MARK, True)


def was_computing(error: BaseException) -> bool:
    """Whether an error left a block of `computing`."""
    try:
        return getattr(error, _MARK, False) is True
    except Exception:  # A user's class may raise anything.
        return False
