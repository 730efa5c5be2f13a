"""Writes files whole or not at all, and locks them."""

import contextlib
import os
import secrets


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
    """Writes a new file; `sync` then flushes it to the disk."""
    _write(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), content)


def _write(file: int, content: bytes) -> None:
    """Writes all to an open file, and closes it."""
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(file, left) :]
    finally:
        os.close(file)


def not_written(path: str | os.PathLike[str], error: OSError) -> OSError:
    """Returns the error for a file that cannot be written, under its final name."""
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


try:
    import fcntl
except ImportError:  # Windows does not have it.
    fcntl = None


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
