"""Checks that output can be written, before anything is computed."""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Sequence

from jaxrob._command.define import Values
from jaxrob._command.refused import Refused


def check_folders(values: Values, *names: str) -> None:
    """Rejects flags' folders that cannot be made, or written to."""
    # Only the first process writes; before the processes have met, the flag identifies
    # it.
    if "process_id" in values and values.process_id:
        return
    for name in names:
        path = getattr(values, name)
        if path is not None:
            _check(f"--{name}={path}", pathlib.Path(path), None)


def check_file(flag: str, path: str | os.PathLike[str]) -> None:
    """Rejects a file that cannot be written. An existing file stays as it is."""
    path = pathlib.Path(path)
    _check(f"--{flag}={path}", path.parent, path)


def check_distinct(files: Sequence[tuple[str, str]]) -> None:
    """Rejects two flags that name one file, because one would replace the other's."""
    named: dict[str, str] = {}
    for flag, path in files:
        place = os.path.realpath(path)
        if os.path.exists(place) and not os.path.isfile(place):
            continue
        if place in named:
            raise Refused(
                f"--{named[place]} and --{flag} both name {path}; each must name "
                "another file"
            )
        named[place] = flag


def _check(what: str, folder: pathlib.Path, file: pathlib.Path | None) -> None:
    made: list[pathlib.Path] = []
    try:
        for one in (*reversed(folder.parents), folder):
            if not one.exists():
                one.mkdir(exist_ok=True)
                made.append(one)
        if file is None:
            tempfile.TemporaryFile(dir=folder).close()
            return
        is_new = not file.exists()
        open(file, "ab").close()
        if is_new:
            file.unlink()
    except OSError as error:
        where = error.filename or folder
        raise Refused(
            f"{what}: it cannot be written, {where}: {error.strerror}"
        ) from error
    finally:
        for one in reversed(made):
            with contextlib.suppress(OSError):
                one.rmdir()
