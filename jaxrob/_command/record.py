"""The record of this run, for the results folder: command line, date, files."""

from __future__ import annotations

import datetime
import hashlib
import os
import pathlib
import platform
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jaxrob._command.define import Values

if TYPE_CHECKING:  # It loads JAX, and the help does not need it.
    from jaxrob.reporting import File, Run

_ROLES = {
    "classifier": "network",
    "images": "pictures",
    "labels": "labels",
    "plan": "plan",
}

# The command line, its beginning and its warnings, for functions to write to.
_command: list[str] = []
_started: list[str] = []
_warnings: list[str] = []


def begin(arguments: Sequence[str]) -> None:
    """Begins the record of a command line, whose first word is the command."""
    now = datetime.datetime.now(datetime.UTC)
    _command[:] = [shlex.join(["jaxrob", *arguments])]
    _started[:] = [now.isoformat(timespec="seconds")]
    _warnings.clear()


def warned(text: str) -> None:
    """Notes a warning that is printed."""
    _warnings.append(text)


def run(values: Values) -> Run:
    """Returns the record so far."""
    from jaxrob.reporting import Run

    seed = "" if values["seed"].present else f" --seed={values.seed}"
    return Run(
        _command[0] + seed,
        _started[0],
        platform.platform(),
        values.tester,
        values.organisation,
        _files(values),
        tuple(_warnings),
    )


def with_others(kept: Sequence[Run], one: Run) -> tuple[Run, ...]:
    """Returns a folder's runs: a new one replaces that of the same command."""
    others = [each for each in kept if _verb(each) != _verb(one)]
    return (*others, one)


def _verb(one: Run) -> list[str]:
    return one.command.split(maxsplit=2)[1:2]


def _files(values: Values) -> tuple[File, ...]:
    from jaxrob.reporting import File

    found = []
    for flag, role in _ROLES.items():
        given = getattr(values, flag, None)
        if not given:
            continue
        # A function in a file of Python is given as file.py:name.
        path = given.rpartition(":")[0] if ".py:" in given else given
        if os.path.exists(path):
            found.append(File(role, path, _digest(pathlib.Path(path))))
    return tuple(found)


def _digest(path: pathlib.Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
