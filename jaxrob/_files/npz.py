"""Reads npz files: arrays in zip archives."""

import io
import math
import os
import struct
import tokenize
import zipfile
import zlib
from typing import Any

import numpy as np

from jaxrob._files.regular import most_unpacked, open_file

# Errors that zipfile and NumPy raise for damaged npz files. A RuntimeError means
# encryption or an unknown compression method.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    KeyError,
    MemoryError,
    OSError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    tokenize.TokenError,
)
# Booleans, numbers, strings, and the bytes of types that NumPy does not know.
_KINDS = "biufcUV"


def read_npz(
    path: str | os.PathLike[str], may_be_compressed: bool = False
) -> dict[str, np.ndarray]:
    """Reads all arrays of an npz file that `numpy.savez` wrote, by name.

    It unpickles nothing, and checks each array's header before it makes the array. It
    takes no more memory than the file has bytes; for a compressed file the limit is
    the larger of 256 MiB and 100 times as many bytes.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: if the file is no npz file, is damaged or compressed, or holds objects
        or types with fields. The message says what is wrong, without the path.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            _check_directory(members, size, may_be_compressed)
            return {
                member.filename.removesuffix(".npy"): _array(archive, member)
                for member in members
            }


def npy_array(data: bytes, name: str) -> np.ndarray:
    """Returns the array of an npy file's bytes, of which it is a view.

    Args:
      data: the file's bytes.
      name: what messages call it.

    Raises:
      ValueError: if it is damaged, or holds objects or types with fields.
    """
    try:
        shape, in_fortran_order, dtype, start = _header(data)
    except DAMAGE as error:
        raise ValueError(f"{name} is no array: {error}") from error
    if dtype.kind not in _KINDS or dtype.names or dtype.subdtype or dtype.hasobject:
        raise ValueError(f"{name} holds {dtype}; only numbers are read")
    needed = math.prod(shape) * dtype.itemsize
    if len(data) - start != needed:
        raise ValueError(
            f"{name} has {len(data) - start} bytes, but an array of "
            f"{dtype} of the shape {shape} needs {needed}"
        )
    array = np.frombuffer(data, dtype, offset=start) if needed else np.empty(0, dtype)
    return array.reshape(shape, order="F" if in_fortran_order else "C")


def _check_directory(
    members: list[zipfile.ZipInfo], size: int, may_be_compressed: bool
) -> None:
    most = most_unpacked(size) if may_be_compressed else size
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED and not may_be_compressed:
            raise ValueError(f"{member.filename!r} is compressed, which is not read")
        # zipfile makes room for as much as is claimed, up to a gigabyte.
        if member.compress_size > size:
            raise ValueError(
                f"{member.filename!r} claims {member.compress_size} bytes of a file of "
                f"{size}"
            )
    if len({member.filename for member in members}) < len(members):
        raise ValueError("it holds two arrays of one name")
    total = sum(member.file_size for member in members)
    if total > most:
        what = "may unpack to" if may_be_compressed else "has"
        raise ValueError(f"its arrays claim {total} bytes, but the file {what} {most}")


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    return npy_array(archive.read(member), repr(member.filename))


def _header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Reads the shape, if the order is Fortran's, the type, and the data's start."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"its version is {version}, not (1, 0) or (2, 0)")
    shape, in_fortran_order, dtype = read(stream)
    if any(length < 0 for length in shape):
        raise ValueError(f"its shape is {shape}")
    return shape, in_fortran_order, dtype, stream.tell()
