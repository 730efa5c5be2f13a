"""Wrong use of the command, and output that cannot be written: status 2."""

import contextlib
import difflib
import os
import pathlib
import tempfile
from collections.abc import Iterable, Sequence

from jaxrob._command.define import Values


class Refused(Exception):
    """Wrong use, or bad input found before anything is computed: status 2."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns a hint at the name that was probably meant, or ""."""
    # Hyphens, underscores and case do not distinguish names.
    plain = {one.lower().replace("_", ""): one for one in names}
    given = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    close = difflib.get_close_matches(given, plain, n=1)
    # One word of a longer name is often thought to suffice.
    words = {}
    for one in plain.values():
        words |= {word: one for word in one.split("_") if word not in words}
    if not close and (near := difflib.get_close_matches(given, words, n=1)):
        return f" Did you mean {words[near[0]]}?"
    return f" Did you mean {plain[close[0]]}?" if close else ""


def check_given(values: Values, words: Sequence[str], expected: str) -> None:
    """Rejects empty values, and flags that were taken as the value of another."""
    for name in values:
        if not values[name].present:
            continue
        value = values[name].value
        texts = value if isinstance(value, list) else [value]
        if not texts or any(isinstance(one, str) and not one.strip() for one in texts):
            raise Refused(f"--{name}: its value is empty; leave it out, or say one")
        for one in texts:
            if isinstance(one, str) and one.startswith("--"):
                raise Refused(f"--{name}: its value is missing; the next is {one}")
    for number, word in enumerate(words):
        if not word.strip():
            raise Refused(
                f"the argument {number + 1} is empty; expected {expected or 'flags'}"
            )


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
