"""Reads npz files: arrays in zip archives."""

import io
import math
import os
import struct
import tokenize
import zipfile
import zlib

import numpy as np

from jaxrob._files.regular import most_unpacked, open_file

# Errors that zipfile and NumPy raise for damaged npz files. A RuntimeError means
# encryption or an unknown compression method.
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, SyntaxError),
    *(EOFError, KeyError, MemoryError, OSError, OverflowError, RuntimeError),
    *(TypeError, ValueError),
)
# Booleans, numbers, strings, and the bytes of types that NumPy does not know.
_KINDS = "biufcUV"


def read_npz(
    path: str | os.PathLike[str], may_be_compressed: bool = False
) -> dict[str, np.ndarray]:
    """Reads all arrays of an npz file that `numpy.savez` wrote, by name."""
    # It unpickles nothing, and takes no more memory than the file has bytes, or than
    # `most_unpacked` allows a compressed one.
    with open_file(path) as file, zipfile.ZipFile(file) as archive:
        size, members = os.fstat(file.fileno()).st_size, archive.infolist()
        total = sum(member.file_size for member in members)
        most = most_unpacked(size) if may_be_compressed else size
        # zipfile makes room for what one claims, up to a gigabyte.
        packed = max((member.compress_size for member in members), default=0)
        if total > most or packed > size:
            raise ValueError(
                f"its arrays claim {total} bytes, one of them {packed} of the file's "
                f"{size}, which may unpack to {most}"
            )
        if not may_be_compressed and any(one.compress_type for one in members):
            raise ValueError("it is compressed, which is not read")
        if len({member.filename for member in members}) < len(members):
            raise ValueError("it holds two arrays of one name")
        return {
            one.filename.removesuffix(".npy"): npy_array(
                archive.read(one), repr(one.filename)
            )
            for one in members
        }


def npy_array(data: bytes, name: str) -> np.ndarray:
    """Returns the array of an npy file's bytes, a view; ValueErrors have the name."""
    # `numpy.load` would make room for what a header claims.
    stream = io.BytesIO(data)
    try:
        is_first = np.lib.format.read_magic(stream) == (1, 0)
        read = np.lib.format.read_array_header_1_0
        shape, is_fortran, dtype = (
            read if is_first else np.lib.format.read_array_header_2_0
        )(stream)
        needed, found = math.prod(shape) * dtype.itemsize, len(data) - stream.tell()
        if dtype.kind not in _KINDS or dtype.names or dtype.subdtype or dtype.hasobject:
            raise ValueError(f"it holds {dtype}; only numbers are read")
        if needed != found or min(shape, default=0) < 0:
            raise ValueError(
                f"it has {found} bytes, but an array of {dtype} of the shape {shape} "
                f"needs {needed}"
            )
        order = "F" if is_fortran else "C"
        return np.ndarray(shape, dtype, data, stream.tell(), order=order)
    except DAMAGE as error:
        raise ValueError(f"{name} is no array: {error}") from error
