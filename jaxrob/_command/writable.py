"""Where something will be written, tried before anything is computed."""

import contextlib
import os
import pathlib
import tempfile

from jaxrob._command.define import Values
from jaxrob._command.refused import Refused


def check_folders(values: Values, *names: str) -> None:
    """Refuses flags' folders that cannot be made, or written to.

    Raises:
      Refused: if one is such.
    """
    # The first process alone writes; before they have met, its number tells it.
    if "process_id" in values and values.process_id:
        return
    for name in names:
        path = getattr(values, name)
        if path is not None:
            _check(f"--{name}={path}", pathlib.Path(path), None)


def check_file(flag: str, path: str | os.PathLike[str]) -> None:
    """Refuses a file that cannot be written. One that is there stays as it is.

    Args:
      flag: its name.
      path: the file.

    Raises:
      Refused: if it cannot.
    """
    path = pathlib.Path(path)
    _check(f"--{flag}={path}", path.parent, path)


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
