"""Files of a folder that are written, and read, together: all of them or none.

They are first written into a new folder within the folder. Once all are on the disk it
is renamed to `unfinished.swap`: from then on they count. They are moved to their
places, and it goes. If a process is killed before, the next one goes on from there: a
writer, or a reader. Who may not write there reads what is still in it from there.

Each writer holds a lock on its new folder, under both names, which the system lets go
whenever the process ends. So what a killed one left is told from what another is at.
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
except ImportError:  # Windows has none.
    fcntl = None

T = TypeVar("T")

_SWAP, _NEW = "unfinished.swap", "unfinished.new-"
# Parts have endings.
_MANIFEST, _FORMAT = "manifest", "jaxrob swap 1"
_MOST_BYTES = 64 << 20
# So often files are read anew that were written meanwhile, which takes longer.
_TRIES = 100


def write_together(
    folder: pathlib.Path, contents: Mapping[str, bytes], gone: Collection[str]
) -> None:
    """Writes files in place of what is there, and removes others, together.

    Args:
      folder: where; it is there.
      contents: the files by name. The last one must be of every writing: it tells
        `read_together` whether there was one.
      gone: the names of files that are removed, if they are there.

    Raises:
      OSError: if one cannot be written, for instance on a full disk. Then all stays as
        it was, and the error names the file.
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
            # After all are written: the first one takes most of the time.
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
    """What a function makes of files that are written together, all of one writing.

    Args:
      folder: where they are.
      last: the name of the file that is of every writing.
      read: takes a function that tells where a file of a name is. It is called again if
        the files were written meanwhile.

    Raises:
      OSError: as `read`, or if the files are written anew all the time.
      ValueError: as `read`, or if what was left of an unfinished writing is damaged.
    """
    # Where this may not be done, what is left is read from where it is.
    with contextlib.suppress(OSError, ValueError):
        _finish_left(folder, wait=False)
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
    """Whether a folder has a file of a name, among those written together.

    Raises:
      OSError: as `read_together`.
      ValueError: likewise.
    """
    return read_together(folder, name, lambda place: os.path.lexists(place(name)))


class _Manifest(NamedTuple):
    """What a finished writing moves to its place, and what it removes."""

    moved: tuple[str, ...]
    gone: tuple[str, ...]


def _check_replaceable(path: pathlib.Path) -> None:
    if path.is_dir() and not path.is_symlink():
        raise IsADirectoryError(errno.EISDIR, "a folder is in the way", str(path))


@contextlib.contextmanager
def _new_folder(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """A new folder, locked, which goes at the end unless it has another name then."""
    while True:
        new = folder / f"{_NEW}{secrets.token_hex(8)}"
        try:
            os.mkdir(new)
        except OSError as error:
            raise not_written(folder, error) from error
        # Before it is locked another writer may take it for left, and remove it.
        with _held(new, wait=True, unless_known=True) as is_held:
            if not is_held:
                continue
            try:
                yield new
            finally:
                shutil.rmtree(new, ignore_errors=True)
            return


def _commit(new: pathlib.Path, folder: pathlib.Path) -> None:
    """Makes a new folder count, once what another writer left is finished."""
    while True:
        try:
            os.rename(new, folder / _SWAP)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        _finish_left(folder, wait=True)


def _finish_left(folder: pathlib.Path, wait: bool) -> None:
    """Finishes what a killed writer left, or another one is at if it is waited for."""
    with _held(folder / _SWAP, wait, unless_known=True) as is_held:
        if is_held:
            _finish(folder)


def _finish(folder: pathlib.Path) -> None:
    """Moves all to its place. Whatever was moved before, it goes on from there."""
    swap = folder / _SWAP
    manifest = _manifest(folder)
    # Where there are no locks another process may be at it too.
    with contextlib.suppress(FileNotFoundError):
        if manifest is None and os.listdir(swap):
            raise FileExistsError(errno.EEXIST, "it is in the way", str(swap))
        if manifest is not None:
            _move(folder, swap, manifest)
            (swap / _MANIFEST).unlink()
    # Another writer's may already be in the place of the empty folder.
    with contextlib.suppress(OSError):
        swap.rmdir()


def _move(folder: pathlib.Path, swap: pathlib.Path, manifest: _Manifest) -> None:
    for name in manifest.moved:
        try:
            os.replace(swap / name, folder / name)
        except FileNotFoundError:
            pass  # It was moved before.
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
            _held(left, wait=False, unless_known=False) as is_held,
        ):
            if is_held:
                shutil.rmtree(left, ignore_errors=True)


def _places(folder: pathlib.Path) -> Callable[[str], pathlib.Path]:
    """Where files are: those of an unfinished writing are where it left them."""
    manifest, swap = _manifest(folder), folder / _SWAP

    def place(name: str) -> pathlib.Path:
        if manifest is None:
            return folder / name
        is_left = name in manifest.gone or os.path.lexists(swap / name)
        return swap / name if is_left else folder / name

    return place


def _state(folder: pathlib.Path, last: str) -> tuple[Any, ...]:
    """What differs once files were written together."""
    found = []
    for path in (folder / _SWAP, folder / last):
        try:
            status = os.lstat(path)
            found.append((status.st_ino, status.st_ctime_ns))
        except OSError:
            found.append(None)
    return tuple(found)


def _manifest(folder: pathlib.Path) -> _Manifest | None:
    """What an unfinished writing is to do; None if there is none.

    Raises:
      ValueError: if it is none that `write_together` writes, or leads elsewhere.
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
    """Refuses what is not two lists of names of files in the folder."""
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
def _held(path: pathlib.Path, wait: bool, unless_known: bool) -> Iterator[bool]:
    """Whether a folder is there and locked for this process, while it lasts.

    Args:
      path: the folder.
      wait: whether to wait for another process that has locked it.
      unless_known: what holds where the file system knows no locks.
    """
    no_link = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, os.O_RDONLY | no_link)
    except FileNotFoundError:
        yield False
        return
    try:
        locked = _lock(descriptor, wait)
        yield (unless_known if locked is None else locked) and _is_of(descriptor, path)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, wait: bool) -> bool | None:
    """Whether an open folder is now locked; None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return True
    except BlockingIOError:
        return False
    except OSError:  # Some file systems of networks know no locks.
        return None


def _is_of(descriptor: int, path: pathlib.Path) -> bool:
    """Whether an open folder is still what goes by a name."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    return False
