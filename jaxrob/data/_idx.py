"""The IDX format of MNIST and its relatives."""

import gzip
import math
import os
import sys
import zlib
from io import BufferedIOBase

import numpy as np

from jaxrob._arguments.checks import checked_path
from jaxrob._files.regular import most_unpacked, open_file
from jaxrob.data._files import is_gzip

_DTYPES = {
    0x08: np.dtype(">u1"),
    0x09: np.dtype(">i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}
# NumPy's limit; the published files have at most three axes.
_MAX_RANK = 64
_CHUNK = 1 << 20


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """Reads one IDX file, the format of MNIST and its relatives, plain or gzipped.

    The header is checked against the real size of the file before an array of the
    claimed size is allocated. Compression is recognised by the first bytes, not by the
    file's name.

    Args:
      path: the file.

    Returns:
      The array, in the machine's byte order: uint8, int8, int16, int32, float32 or
      float64 of the header's shape.

    Raises:
      ValueError: if the magic number, the type or the dimensions are not IDX; if the
        file is shorter or longer than its header says; if the gzip stream is damaged;
        if the header claims more than 256 MiB and 100 times the file's size; or if the
        path is a folder, a named pipe or a device.
      FileNotFoundError: if there is no such file.

    Source: LeCun, Cortes and Burges, the MNIST database, "file formats".
    """
    path = str(checked_path("path", path))
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if not is_gzip(file):
            return _parse(file, path, size, exact=True)
        try:
            with gzip.GzipFile(fileobj=file) as stream:
                return _parse(stream, path, most_unpacked(size), exact=False)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path}: damaged gzip stream: {error}") from error


def _parse(stream: BufferedIOBase, path: str, size: int, exact: bool) -> np.ndarray:
    """Parses a stream of `size` bytes, or of at most `size` if not `exact`."""
    magic = _read_at_most(stream, 4)
    if len(magic) < 4:
        raise ValueError(
            f"{path}: {len(magic)} bytes where IDX begins with a magic number of 4"
        )
    zeros, code, rank = magic[:2], magic[2], magic[3]
    if zeros != b"\0\0" or code not in _DTYPES or not 1 <= rank <= _MAX_RANK:
        raise ValueError(
            f"{path}: magic number 0x{magic.hex()} is not IDX: expected two zero "
            f"bytes, a type among {', '.join(f'0x{c:02x}' for c in _DTYPES)} and a "
            f"rank from 1 to {_MAX_RANK}"
        )
    header = _read_at_most(stream, 4 * rank)
    if len(header) < 4 * rank:
        raise ValueError(
            f"{path}: {len(header)} bytes of dimensions, expected {4 * rank} for the "
            f"rank {rank}"
        )
    shape = tuple(int(d) for d in np.frombuffer(header, ">u4"))
    dtype = _DTYPES[code]
    expected = math.prod(shape) * dtype.itemsize
    # NumPy multiplies the other dimensions even if one is 0.
    if math.prod(max(d, 1) for d in shape) * dtype.itemsize > sys.maxsize:
        raise ValueError(f"{path}: no array can have the header's shape {shape}")
    found = size - len(magic) - len(header)
    if expected > found or (exact and expected < found):
        raise ValueError(
            f"{path}: the header says shape {shape} of {dtype.name}, that is "
            f"{expected} bytes of data, but "
            + (
                f"the file holds {found}"
                if exact
                else f"at most {found} are unpacked from a gzip file of this size; "
                "unpack it first if it is meant"
            )
        )
    data = _read_at_most(stream, expected)
    if len(data) < expected:
        raise ValueError(
            f"{path}: the header says shape {shape} of {dtype.name}, that is "
            f"{expected} bytes of data, but the file holds {len(data)}"
        )
    # Reading past the end also makes gzip verify its checksum.
    if stream.read(1):
        raise ValueError(
            f"{path}: bytes after the {expected} of data that the header's shape "
            f"{shape} of {dtype.name} needs"
        )
    array = np.frombuffer(data, dtype).reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)


def _read_at_most(stream: BufferedIOBase, size: int) -> bytearray:
    """Reads up to `size` bytes in chunks, so that memory grows with the real data."""
    data = bytearray()
    while len(data) < size:
        chunk = stream.read(min(_CHUNK, size - len(data)))
        if not chunk:
            break
        data += chunk
    return data
