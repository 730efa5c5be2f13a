"""Files: opened only if regular, read within limits, written whole or not at all."""

import contextlib
import io
import json
import math
import os
import secrets
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from io import BufferedReader
from typing import Any

import numpy as np

try:
    import fcntl
except ImportError:  # Windows does not have it.
    fcntl = None

# Any file may unpack to this size, which is far above any image or weights.
_ALWAYS_UNPACKED = 256 << 20
# Real data shrink to a half or a tenth when they are compressed, zeros to a thousandth.
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
    without_waiting = getattr(os, "O_NONBLOCK", 0)
    file = open(path, "rb", opener=lambda *at: os.open(at[0], at[1] | without_waiting))
    try:
        _check_mode(path, os.fstat(file.fileno()).st_mode)
    except ValueError:
        file.close()
        raise
    return file


def content_of(path: str | os.PathLike[str], most: int) -> bytes:
    with open_file(path) as file:
        # Asked first: to read `most` bytes takes as much memory, however few there are.
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise ValueError(f"{path}: it has {size} bytes; at most {most} are read")
        return file.read(size)


def check_regular(path: str | os.PathLike[str]) -> None:
    _check_mode(path, os.stat(path).st_mode)


def most_unpacked(size: int) -> int:
    """Returns how many bytes a compressed file of `size` bytes may unpack to."""
    return max(_ALWAYS_UNPACKED, _MOST_UNPACKED_RATIO * size)


def _check_mode(path: str | os.PathLike[str], mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((name for fits, name in _KINDS if fits(mode)), "another thing")
        raise ValueError(f"{os.fspath(path)}: not a regular file but {kind}")


def parsed(text: str | bytes) -> Any:
    """Parses strict JSON: no NaN or infinity, no name twice in an object."""
    try:
        if isinstance(text, bytes):
            text = text.decode()
        return json.loads(
            text,
            parse_float=_finite,
            parse_constant=_finite,
            object_pairs_hook=_distinct,
        )
    except RecursionError as error:
        raise ValueError("the text is nested too deep") from error
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the text is not JSON: {error}; got {short(text[:80])}"
        ) from error


def short(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    text = ascii(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for name, value in pairs:
        if name in entries:
            raise ValueError(f"{name!r} stands there twice")
        entries[name] = value
    return entries


# What zipfile and NumPy raise for damaged npz files; RuntimeError if encrypted.
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, SyntaxError),
    *(EOFError, KeyError, MemoryError, OSError, OverflowError, RuntimeError),
    *(TypeError, ValueError),
)


@contextlib.contextmanager
def damage_of(place: object) -> Iterator[None]:
    """Puts a place, such as a file's path, before what damaged files raise."""
    try:
        yield
    except FileNotFoundError:  # It was replaced.
        raise
    except DAMAGE as error:
        raise ValueError(f"{place}: {error}") from error


# Booleans, numbers, strings, and the bytes of types that NumPy does not know.
_TYPES = "biufcUV"


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
                f"its arrays claim {total} bytes, one {packed} of {size} in the file, "
                f"which may unpack to {most}"
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
    stream, form = io.BytesIO(data), np.lib.format
    with damage_of(f"{name} is no array"):
        is_first = form.read_magic(stream) == (1, 0)
        read = form.read_array_header_1_0 if is_first else form.read_array_header_2_0
        shape, is_fortran, dtype = read(stream)
        needed, size = math.prod(shape) * dtype.itemsize, len(data) - stream.tell()
        if dtype.kind not in _TYPES or dtype.names or dtype.subdtype or dtype.hasobject:
            raise ValueError(f"it holds {dtype}; only numbers are read")
        if needed != size or min(shape, default=0) < 0:
            raise ValueError(
                f"it has {size} bytes, but {dtype} of the shape {shape} needs {needed}"
            )
        order = "F" if is_fortran else "C"
        return np.ndarray(shape, dtype, data, stream.tell(), order=order)


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Replaces a file atomically; the old one stays until the new one is complete."""
    # Of a link it replaces the file that is linked to. A device or a pipe, such as
    # /dev/stdout, is written to as it is.
    if os.path.exists(path) and not os.path.isfile(path):
        try:
            _write(os.open(path, os.O_WRONLY), content)
        except OSError as error:
            raise not_written(path, error) from error
        return
    path = os.path.realpath(path)
    unfinished = f"{path}.{secrets.token_hex(4)}.part"
    try:
        write_new(unfinished, content)
        sync(unfinished)
        os.replace(unfinished, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        if isinstance(error, OSError):
            raise not_written(path, error) from error
        raise
    sync(os.path.dirname(path) or os.curdir)


def write_new(path: str | os.PathLike[str], content: bytes) -> None:
    _write(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), content)


def _write(file: int, content: bytes) -> None:
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(file, left) :]
    finally:
        os.close(file)


def not_written(path: str | os.PathLike[str], error: OSError) -> OSError:
    return OSError(
        error.errno,
        f"it cannot be written ({error.strerror}); what was there stays",
        os.fspath(path),
    )


def sync(path: str | os.PathLike[str]) -> None:
    """Waits until a file, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(descriptor: int, wait: bool = False) -> bool | None:
    """Locks an open file or folder for its opener alone."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return True
    except BlockingIOError:
        return False
    except OSError:  # Some network file systems do not support locks.
        return None
