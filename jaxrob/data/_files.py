"""Files as bytes."""

import errno
import os
import pathlib
from io import BufferedIOBase

from jaxrob._files.regular import open_file

# Far above any image or batch; what claims more is a bomb or a mistake.
MAX_FILE_BYTES = 256 << 20


def read_file(path: pathlib.Path) -> bytes:
    """The bytes of a regular file.

    Raises:
      ValueError: if it is no regular file, a link that leads to itself, or larger than
        256 MiB.
    """
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
    """Whether a file just opened begins as gzip streams do; reading starts anew."""
    found = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return found
