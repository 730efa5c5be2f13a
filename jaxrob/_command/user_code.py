"""What the user's own files of Python hold. They are run."""

import importlib.util
import os
import pathlib
import re
import sys
from types import ModuleType
from typing import Any

from jaxrob._command.refused import Refused, did_you_mean

_FORM = re.compile(r"(?P<path>.+?\.py):(?P<name>[A-Za-z_]\w*)", re.ASCII)

# What the files that were run hold, by their real paths; and the folders of all that
# were begun.
_modules: dict[str, ModuleType] = {}
_folders: set[str] = set()


def is_code(text: str) -> bool:
    """Whether a text is of the form file.py:name."""
    return _FORM.fullmatch(text) is not None


def path_of(text: str) -> pathlib.Path:
    """The file of a text of that form."""
    found = _FORM.fullmatch(text)
    assert found is not None
    return pathlib.Path(found["path"])


def load(text: str, flag: str) -> Any:
    """What a file holds under a name. The file is run, once.

    Args:
      text: of the form file.py:name.
      flag: the flag that says so, for messages.

    Raises:
      Refused: if there is no such file, it is no Python, or holds nothing of that name.
      BaseException: whatever the file raises.
    """
    found = _FORM.fullmatch(text)
    assert found is not None
    path = os.path.realpath(found["path"])
    if not os.path.isfile(path):
        raise Refused(f"--{flag}={text}: there is no such file")
    if path not in _modules:
        try:
            _modules[path] = _run(path)
        except SyntaxError as error:
            # That of a file which it imports is a mistake of its own.
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


def is_from(file: str) -> bool:
    """Whether a file is one that was run, or lies in the folder of one."""
    # Code made by the library has names of files that there are not.
    path = os.path.realpath(file)
    return os.path.isfile(path) and os.path.dirname(path) in _folders


def _run(path: str) -> ModuleType:
    # With a number, because two of them may have one name.
    name = f"jaxrob_user_{len(_modules)}_{pathlib.Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up; what lies beside the file can be imported.
    sys.modules[name] = module
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    _folders.add(folder)
    spec.loader.exec_module(module)
    return module
