"""Opens regular files only, and limits what a file may unpack to."""

import os
import stat
from io import BufferedReader

# Any file may unpack to this size, which is far above any image or weights.
_ALWAYS_UNPACKED = 256 << 20
# Pictures, weights and answers shrink to a half or a tenth when they are compressed;
# zeros to a thousandth.
_MOST_UNPACKED_RATIO = 100

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_file(path: str | os.PathLike[str]) -> BufferedReader:
    """Opens a regular file for reading. It never waits for a writer."""
    check_regular(path)
    # Checked again, because something else may have taken its place.
    file = open(path, "rb", opener=_open_without_waiting)
    try:
        _check_mode(path, os.fstat(file.fileno()).st_mode)
    except ValueError:
        file.close()
        raise
    return file


def content_of(path: str | os.PathLike[str], most: int) -> bytes:
    """Reads a regular file of at most `most` bytes."""
    with open_file(path) as file:
        # Asked first: to read `most` bytes takes as much memory, however few there are.
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise ValueError(
                f"{os.fspath(path)}: it has {size} bytes; at most {most} are read"
            )
        return file.read(size)


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raises an error unless a path is a regular file, without opening it."""
    _check_mode(path, os.stat(path).st_mode)


def most_unpacked(size: int) -> int:
    """Returns how many bytes a compressed file of `size` bytes may unpack to."""
    # The limit is generous for real data; a file that claims more is a zip bomb or a
    # mistake.
    return max(_ALWAYS_UNPACKED, _MOST_UNPACKED_RATIO * size)


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_mode(path: str | os.PathLike[str], mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
    raise ValueError(f"{os.fspath(path)}: not a regular file but {kind}")
