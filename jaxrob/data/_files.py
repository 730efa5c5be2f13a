"""Files as bytes."""

import errno
import os
import pathlib
from io import BufferedIOBase

from jaxrob._files.regular import open_file

# Far above any image or batch; a larger claim is a bomb or a mistake.
MAX_FILE_BYTES = 256 << 20


def read_file(path: pathlib.Path) -> bytes:
    """Reads a regular file."""
    try:
        file = open_file(path)
    except FileNotFoundError as error:
        raise ValueError(f"{path}: not a regular file, nothing is there") from error
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ValueError(
            f"{path}: not a regular file but a link that leads to itself"
        ) from error
    with file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_FILE_BYTES:
            raise ValueError(f"{path}: {size} bytes; at most {MAX_FILE_BYTES} are read")
        return file.read()


def is_gzip(file: BufferedIOBase) -> bool:
    """Returns whether a file begins like a gzip stream, and rewinds it."""
    found = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return found
