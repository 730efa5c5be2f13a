"""Runs cases, each in a folder of its own, and keeps their results and warnings."""

import contextlib
import fnmatch
import importlib
import inspect
import os
import pathlib
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from pinned.kept import kept

#: The modules whose public functions are the cases.
ROOMS = (
    "altering",
    "evaluating",
    "assessing",
    "few_images",
    "interrupted",
    "comparing",
    "probable",
    "attacking",
    "bayesian",
    "training",
    "measuring",
    "reporting",
    "refusing",
    "commanding",
    "on_devices",
)
#: The key of the error of a case that fails.
RAISED = "raised"
_FOLDER = str(pathlib.Path(__file__).parent)


def cases(only: str = "*") -> dict[str, Callable[[], Any]]:
    """Returns the cases whose names match a pattern, by `room.function`."""
    found = {}
    for room in ROOMS:
        if not fnmatch.fnmatch(room, only.partition(".")[0]):
            continue
        module = importlib.import_module(f"pinned.{room}")
        for name, value in vars(module).items():
            is_own = getattr(value, "__module__", None) == module.__name__
            if inspect.isfunction(value) and is_own and name[0] != "_":
                found[f"{room}.{name}"] = value
    return {
        name: case for name, case in found.items() if fnmatch.fnmatchcase(name, only)
    }


def result(case: Callable[[], Any]) -> dict[str, Any]:
    """Returns a case's result and warnings, in order, or its error."""
    with _in_new_folder() as folder, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = {"value": kept(case())}
        # Code under comparison may fail in any way.
        except Exception as error:
            traceback.print_exc()
            found = {RAISED: f"{type(error).__name__}: {error}"}
    found["warnings"] = [_in_words(one) for one in said if _counts(one)]
    return _without_folder(found, folder)


@contextlib.contextmanager
def _in_new_folder() -> Iterator[str]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield os.getcwd()
        finally:
            os.chdir(before)


def _counts(warning: warnings.WarningMessage) -> bool:
    """Whether a warning is for users: JAX's deprecations appear once a process."""
    passing = DeprecationWarning | PendingDeprecationWarning | ResourceWarning
    return not issubclass(warning.category, passing)


def _in_words(warning: warnings.WarningMessage) -> str:
    """Returns the class, whether it points to the line of the call, and the text."""
    is_here = warning.filename.startswith(_FOLDER)
    where = "the call" if is_here else pathlib.Path(warning.filename).name
    return f"{warning.category.__name__} at {where}: {warning.message}"


def _without_folder(value: Any, folder: str) -> Any:
    if isinstance(value, dict):
        return {name: _without_folder(one, folder) for name, one in value.items()}
    if isinstance(value, list):
        return [_without_folder(one, folder) for one in value]
    return value.replace(folder, "FOLDER") if isinstance(value, str) else value
