"""The files that a user's code reads, noted while it is loaded."""

import contextlib
import functools
import hashlib
import importlib.util
import os
import pathlib
import sys
import sysconfig
from collections.abc import Iterator
from typing import Any

import jaxrob

# Where versions of packages and the system's state are, not the user's network.
_LIBRARIES = {"site-packages", "dist-packages"}
_ROOTS = tuple(
    os.path.join(os.path.realpath(root), "")
    for root in (
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib")),
        *jaxrob.__path__,
        *("/proc", "/sys", "/dev", "/etc"),
    )
)
_noting: list[dict[str, None]] = []


@contextlib.contextmanager
def noted(digests: dict[str, str], folder: str) -> Iterator[None]:
    """Adds the SHA-256 of each file that is opened for reading inside, in that order.

    Not of those of Python, installed packages, jaxrob and the system, nor in hidden
    folders, which hold caches. Of a compiled module it takes the source. Files that
    other languages open are not noticed.
    """
    _listen()
    opened: dict[str, None] = {}
    _noting.append(opened)
    try:
        yield
    finally:
        _noting.remove(opened)
    shown = {*pathlib.Path(folder).parts}
    for path in opened:
        parts = {*pathlib.Path(path).parts}
        is_hidden = any(part.startswith(".") for part in parts - shown)
        if is_hidden or parts & _LIBRARIES or path.startswith(_ROOTS):
            continue
        # Neither a pipe nor what is gone already.
        if path not in digests and os.path.isfile(path):
            with open(path, "rb") as file:
                digests[path] = hashlib.file_digest(file, "sha256").hexdigest()


@functools.cache
def _listen() -> None:
    """Hears of opened files from now on: Python has no way to end that."""
    sys.addaudithook(_heard)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not _noting:
        return
    path, _, flags = arguments
    if isinstance(path, int) or flags & (os.O_WRONLY | os.O_RDWR):
        return
    # An error here would be one of the user's code.
    with contextlib.suppress(OSError, TypeError, ValueError):
        path = os.path.realpath(os.fsdecode(path))
        with contextlib.suppress(ValueError):
            path = importlib.util.source_from_cache(path)
        for opened in _noting:
            opened[path] = None
