"""The IDX format of MNIST and its relatives."""

import gzip
import math
import os
import sys
import zlib
from typing import Any

import numpy as np

from jaxrob._arguments.checks import checked_path
from jaxrob._files.regular import most_unpacked, open_file
from jaxrob.data._files import is_gzip

_DTYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """Reads one IDX file, the format of MNIST and its relatives, plain or gzipped."""
    # Compression is recognised by the first bytes, not by the file's name.
    path = str(checked_path("path", path))
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            if is_gzip(file):
                return _parsed(gzip.GzipFile(fileobj=file), most_unpacked(size))
            return _parsed(file, size)
        except (EOFError, ValueError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path}: not a readable IDX file: {error}") from error


def _parsed(stream: Any, most: int) -> np.ndarray:
    """Reads a stream of at most `most` bytes, as many as its header says."""
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _DTYPES:
        raise ValueError(f"its magic number 0x{magic.hex()} is not that of IDX")
    dtype, rank = np.dtype(_DTYPES[magic[2]]), magic[3]
    header = stream.read(4 * rank)
    shape = tuple(np.frombuffer(header, ">u4").tolist())
    # NumPy multiplies the other dimensions even if one is 0, of which it has 64.
    room = math.prod(max(side, 1) for side in shape) * dtype.itemsize
    needed = math.prod(shape) * dtype.itemsize
    if not 1 <= len(shape) == rank <= 64 or needed > most or room > sys.maxsize:
        raise ValueError(
            f"its header says the shape {shape} of {dtype.name}, {needed} bytes; at "
            f"most {most} may be there: unpack it first if that is meant"
        )
    data = stream.read(needed)
    # Reading past the end also makes gzip verify its checksum.
    if len(data) < needed or stream.read(1):
        raise ValueError(f"it has other than the {needed} bytes of its shape {shape}")
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))
