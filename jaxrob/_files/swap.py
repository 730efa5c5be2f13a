"""Writes and reads several files of a folder atomically: all of them or none.

A writer first writes all files into a new subfolder. Once they are on the disk, it
renames the subfolder to `unfinished.swap`: this commits them. It then moves them to
their places and removes the subfolder. If it is killed after the commit, the next
writer or reader finishes its work. A reader without write permission reads unmoved
files from the subfolder.

Each writer locks its subfolder, under both names; the system releases the lock when the
process ends. The lock distinguishes a killed writer's subfolder from an active one.
"""

import contextlib
import errno
import json
import os
import pathlib
import secrets
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from jaxrob._files.regular import content_of
from jaxrob._files.strict_json import parsed
from jaxrob._files.writing import not_written, sync, write_new

try:
    import fcntl
except ImportError:  # Windows does not have it.
    fcntl = None

T = TypeVar("T")

_SWAP, _NEW = "unfinished.swap", "unfinished.new-"
# Other files have an ending, so none is named like the manifest.
_MANIFEST, _FORMAT = "manifest", "jaxrob swap 1"
_MOST_BYTES = 64 << 20
# Attempts to read files that are being rewritten. Writing takes longer than reading.
_TRIES = 100


def write_together(
    folder: pathlib.Path, contents: Mapping[str, bytes], gone: Collection[str]
) -> None:
    """Replaces some files and removes others, atomically.

    Args:
      folder: the folder, which exists.
      contents: the files by name. Every call must write the last one, so that
        `read_together` can detect a call by it.
      gone: the names of files to remove, if they exist.

    Raises:
      OSError: if a file cannot be written, for instance on a full disk. The folder then
        stays unchanged, and the error names the file.
    """
    for name in (*contents, *gone):
        _check_replaceable(folder / name)
    _remove_leftovers(folder)
    manifest = {"format": _FORMAT, "moved": [*contents], "gone": [*gone]}
    parts = {**contents, _MANIFEST: json.dumps(manifest).encode()}
    path = folder
    with _new_folder(folder) as new:
        try:
            for name, content in parts.items():
                path = folder / name
                write_new(new / name, content)
            # Synced after all writes, because the first sync takes most of the time.
            for name in parts:
                path = folder / name
                sync(new / name)
            path = folder
            sync(new)
            _commit(new, folder)
        except OSError as error:
            raise not_written(path, error) from error
        _finish(folder)


def read_together(
    folder: pathlib.Path, last: str, read: Callable[[Callable[[str], pathlib.Path]], T]
) -> T:
    """Calls a function that reads files, all from one `write_together`.

    Args:
      folder: the folder.
      last: the name of the file that every `write_together` writes.
      read: takes a function from a file's name to its path. It is called again if the
        files were rewritten meanwhile.

    Raises:
      OSError: as `read`, or if the files are rewritten all the time.
      ValueError: as `read`, or if an interrupted writer's subfolder is damaged.
    """
    # Without write permission, unmoved files are read where they are.
    with contextlib.suppress(OSError, ValueError):
        _finish_interrupted(folder, wait=False)
    for _ in range(_TRIES):
        before = _state(folder, last)
        try:
            found = read(_places(folder))
        except (OSError, ValueError):
            if _state(folder, last) == before:
                raise
            continue
        if _state(folder, last) == before:
            return found
    raise OSError(errno.EBUSY, "it is written anew all the time", str(folder))


def is_there(folder: pathlib.Path, name: str) -> bool:
    """Whether a folder has a file of this name, among those written together.

    Raises:
      OSError: as `read_together`.
      ValueError: as `read_together`.
    """
    return read_together(folder, name, lambda place: os.path.lexists(place(name)))


class _Manifest(NamedTuple):
    """The files that a committed writer moves to their places, and removes."""

    moved: tuple[str, ...]
    gone: tuple[str, ...]


def _check_replaceable(path: pathlib.Path) -> None:
    if path.is_dir() and not path.is_symlink():
        raise IsADirectoryError(errno.EISDIR, "a folder is in the way", str(path))


@contextlib.contextmanager
def _new_folder(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Makes a locked subfolder; removes it at the end unless it was renamed."""
    while True:
        new = folder / f"{_NEW}{secrets.token_hex(8)}"
        try:
            os.mkdir(new)
        except OSError as error:
            raise not_written(folder, error) from error
        # Until it is locked, another writer may take it for abandoned and remove it.
        with _locked(new, wait=True, without_locks=True) as is_locked:
            if not is_locked:
                continue
            try:
                yield new
            finally:
                shutil.rmtree(new, ignore_errors=True)
            return


def _commit(new: pathlib.Path, folder: pathlib.Path) -> None:
    """Renames the subfolder to the committed name, after finishing other writers'."""
    while True:
        try:
            os.rename(new, folder / _SWAP)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        _finish_interrupted(folder, wait=True)


def _finish_interrupted(folder: pathlib.Path, wait: bool) -> None:
    """Finishes a killed writer's work; with `wait`, first waits for an active one."""
    with _locked(folder / _SWAP, wait, without_locks=True) as is_locked:
        if is_locked:
            _finish(folder)


def _finish(folder: pathlib.Path) -> None:
    """Moves all files to their places; skips those moved before."""
    swap = folder / _SWAP
    manifest = _manifest(folder)
    # Without locks another process may be moving the same files.
    with contextlib.suppress(FileNotFoundError):
        if manifest is None and os.listdir(swap):
            raise FileExistsError(errno.EEXIST, "it is in the way", str(swap))
        if manifest is not None:
            _move(folder, swap, manifest)
            (swap / _MANIFEST).unlink()
    # Another writer's subfolder may already have replaced the empty one.
    with contextlib.suppress(OSError):
        swap.rmdir()


def _move(folder: pathlib.Path, swap: pathlib.Path, manifest: _Manifest) -> None:
    for name in manifest.moved:
        try:
            os.replace(swap / name, folder / name)
        except FileNotFoundError:
            pass  # Moved before.
        except OSError as error:
            raise OSError(
                error.errno,
                f"it cannot be moved there from {swap} ({error.strerror}); what is "
                "there counts, and the next writing goes on",
                str(folder / name),
            ) from error
    for name in manifest.gone:
        (folder / name).unlink(missing_ok=True)
    sync(swap)
    sync(folder)


def _remove_leftovers(folder: pathlib.Path) -> None:
    for left in folder.glob(f"{_NEW}*"):
        with (
            contextlib.suppress(OSError),
            _locked(left, wait=False, without_locks=False) as is_locked,
        ):
            if is_locked:
                shutil.rmtree(left, ignore_errors=True)


def _places(folder: pathlib.Path) -> Callable[[str], pathlib.Path]:
    """Returns a function from names to paths; unmoved files are in the subfolder."""
    manifest, swap = _manifest(folder), folder / _SWAP

    def place(name: str) -> pathlib.Path:
        if manifest is None:
            return folder / name
        is_left = name in manifest.gone or os.path.lexists(swap / name)
        return swap / name if is_left else folder / name

    return place


def _state(folder: pathlib.Path, last: str) -> tuple[Any, ...]:
    """Returns a value that changes whenever files are written together."""
    found = []
    for path in (folder / _SWAP, folder / last):
        try:
            status = os.lstat(path)
            found.append((status.st_ino, status.st_ctime_ns))
        except OSError:
            found.append(None)
    return tuple(found)


def _manifest(folder: pathlib.Path) -> _Manifest | None:
    """Reads an interrupted writer's manifest; None if there is no such writer.

    Raises:
      ValueError: if `write_together` would not write it, or it is a link.
    """
    swap = folder / _SWAP
    if not os.path.lexists(swap):
        return None
    if not stat.S_ISDIR(os.lstat(swap).st_mode):
        raise ValueError(f"{swap}: not a folder of an unfinished writing")
    path = swap / _MANIFEST
    if path.is_symlink():
        raise ValueError(f"{path}: a link, which is not followed")
    try:
        document = parsed(content_of(path, _MOST_BYTES))
        _check_manifest(document)
        found = _Manifest(tuple(document["moved"]), tuple(document["gone"]))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return found


def _check_manifest(document: Any) -> None:
    """Rejects a document without two lists of names of files in the folder."""
    form = document.get("format") if isinstance(document, dict) else None
    if form != _FORMAT or document.keys() != {"format", "moved", "gone"}:
        raise ValueError(f"it must be of the format {_FORMAT!r}, moved and gone")
    for names in (document["moved"], document["gone"]):
        if not isinstance(names, list) or not all(map(_is_name, names)):
            raise ValueError(f"{names!a:.80} are not names of files in the folder")


def _is_name(name: Any) -> bool:
    is_one = isinstance(name, str) and name.strip(".") and "\0" not in name
    return bool(is_one) and os.path.basename(name) == name


@contextlib.contextmanager
def _locked(path: pathlib.Path, wait: bool, without_locks: bool) -> Iterator[bool]:
    """Locks a folder for the context; yields whether it exists and is locked.

    Args:
      path: the folder.
      wait: whether to wait for another process's lock.
      without_locks: the result if the file system does not support locks.
    """
    no_link = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, os.O_RDONLY | no_link)
    except FileNotFoundError:
        yield False
        return
    try:
        locked = _lock(descriptor, wait)
        yield (without_locks if locked is None else locked) and _is_same_folder(
            descriptor, path
        )
    finally:
        os.close(descriptor)


def _lock(descriptor: int, wait: bool) -> bool | None:
    """Locks an open folder; returns whether it is, or None if locks are missing."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return True
    except BlockingIOError:
        return False
    except OSError:  # Some network file systems do not support locks.
        return None


def _is_same_folder(descriptor: int, path: pathlib.Path) -> bool:
    """Whether a path still leads to an open folder."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    return False
