"""Marks errors that are raised while answers are computed: no argument is at fault."""

import contextlib
from collections.abc import Iterator

_MARK = "_jaxrob_computing"


@contextlib.contextmanager
def computing() -> Iterator[None]:
    """Marks each error that leaves the block. Answers are computed inside."""
    try:
        yield
    except BaseException as error:
        vars(error)[_MARK] = True
        raise


def was_computing(error: BaseException) -> bool:
    """Whether an error left a block of `computing`."""
    return _MARK in vars(error)
