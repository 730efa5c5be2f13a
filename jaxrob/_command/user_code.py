"""Objects in the user's own Python files. The files are run."""

import contextlib
import importlib.util
import os
import pathlib
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from jaxrob._command.files_read import noted
from jaxrob._command.refused import Refused, did_you_mean

_FORM = re.compile(r"(?P<path>.+?\.py):(?P<name>[A-Za-z_]\w*)", re.ASCII)

# The modules of the files that were run, by real path; and the folders of all files
# whose run has begun.
_modules: dict[str, ModuleType] = {}
_folders: set[str] = set()
# By real path, the digests of the files that each read.
_read: dict[str, dict[str, str]] = {}


def is_code(text: str) -> bool:
    """Returns whether a text has the form file.py:name."""
    return _FORM.fullmatch(text) is not None


def path_of(text: str) -> pathlib.Path:
    """Returns the file of a text of that form."""
    found = _FORM.fullmatch(text)
    assert found is not None
    return pathlib.Path(found["path"])


def load(text: str, flag: str) -> Any:
    """Returns the object of a name in a file. The file is run, once.

    Raises:
      Refused: if there is no such file, it is not Python, or it has no such name.
      BaseException: any exception that the file raises.
    """
    found = _FORM.fullmatch(text)
    assert found is not None
    path = os.path.realpath(found["path"])
    if not os.path.isfile(path):
        raise Refused(f"--{flag}={text}: there is no such file")
    if path not in _modules:
        try:
            with reading(text):
                _modules[path] = _run(path)
        except SyntaxError as error:
            # A syntax error in an imported file is raised as it is.
            if error.filename != path:
                raise
            raise Refused(
                f"--{flag}={text}: it is no Python, {error.msg} in line {error.lineno}"
            ) from error
    module, name = _modules[path], found["name"]
    if not hasattr(module, name):
        there = [one for one in vars(module) if not one.startswith("_")]
        hint = did_you_mean(name, there)
        raise Refused(f"--{flag}={text}: there is no {name} in it.{hint}")
    return getattr(module, name)


@contextlib.contextmanager
def reading(text: str) -> Iterator[None]:
    """Notes the files that the code of a file reads inside, for `digests`."""
    path = os.path.realpath(path_of(text))
    with noted(_read.setdefault(path, {}), os.path.dirname(path)):
        yield


def digests(text: str) -> list[str]:
    """Returns the digests of a file that was run and of those that it read, in order.

    Modules that it imported are among these.
    """
    return [*_read[os.path.realpath(path_of(text))].values()]


def is_from(file: str) -> bool:
    """Returns whether a file was run, or lies in the folder of one that was."""
    # Generated code of the library has names of nonexistent files.
    path = os.path.realpath(file)
    return os.path.isfile(path) and os.path.dirname(path) in _folders


def _run(path: str) -> ModuleType:
    # Numbered, because two files may have the same name.
    name = f"jaxrob_user_{len(_modules)}_{pathlib.Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module; files in the same folder can be imported.
    sys.modules[name] = module
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    _folders.add(folder)
    spec.loader.exec_module(module)
    return module
