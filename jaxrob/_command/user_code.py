"""Objects in the user's own Python files, which are run, and what these read."""

import contextlib
import functools
import hashlib
import importlib.util
import inspect
import os
import pathlib
import re
import sys
import sysconfig
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import jaxrob
from jaxrob._command.define import Refused, did_you_mean

_FORM = re.compile(r".+?\.py:[A-Za-z_]\w*", re.ASCII)

# Modules of files that were run, by real path; folders of all files begun.
_modules: dict[str, ModuleType] = {}
_folders: set[str] = set()
_read: dict[str, dict[str, str]] = {}

# Where versions of packages and the system's state are, not the user's network.
_LIBRARIES = {"site-packages", "dist-packages"}
_ROOTS = tuple(
    os.path.join(os.path.realpath(root), "")
    for root in (
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib")),
        *jaxrob.__path__,
        *("/proc", "/sys", "/dev", "/etc"),
    )
)
_noting: list[dict[str, None]] = []


def is_code(text: str) -> bool:
    return _FORM.fullmatch(text) is not None


def path_of(text: str) -> pathlib.Path:
    return pathlib.Path(text.rpartition(":")[0])


def parameters(function: Any) -> list[str]:
    try:
        known = inspect.signature(function).parameters.values()
    except ValueError:  # Some built-in functions, of one value.
        return ["images"]
    return [
        one.name
        for one in known
        if one.default is one.empty
        and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]


def load(text: str, flag: str) -> Any:
    """Returns the object of a name in a file. The file is run, once."""
    path, name = os.path.realpath(path_of(text)), text.rpartition(":")[2]
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
    module = _modules[path]
    if not hasattr(module, name):
        there = [one for one in vars(module) if not one.startswith("_")]
        hint = did_you_mean(name, there)
        raise Refused(f"--{flag}={text}: there is no {name} in it.{hint}")
    return getattr(module, name)


@contextlib.contextmanager
def reading(text: str) -> Iterator[None]:
    """Notes the files that the code of a file reads inside, for `digests`.

    Not Python's, packages', jaxrob's or the system's, nor those of hidden folders.
    """
    path = os.path.realpath(path_of(text))
    read, shown = _read.setdefault(path, {}), {*pathlib.Path(path).parent.parts}
    opened: dict[str, None] = {}
    _listen()
    _noting.append(opened)
    try:
        yield
    finally:
        _noting.remove(opened)
    for path in opened:
        parts = {*pathlib.Path(path).parts}
        is_hidden = any(part.startswith(".") for part in parts - shown)
        if is_hidden or parts & _LIBRARIES or path.startswith(_ROOTS):
            continue
        # Neither a pipe nor what is gone already.
        if path not in read and os.path.isfile(path):
            with open(path, "rb") as file:
                read[path] = hashlib.file_digest(file, "sha256").hexdigest()


def digests(text: str) -> list[str]:
    """The digests of a file that was run and of all that it read, in order."""
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


@functools.cache
def _listen() -> None:
    """Hears of opened files from now on: Python has no way to end that."""
    sys.addaudithook(_heard)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not _noting:
        return
    path, _, flags = arguments
    if isinstance(path, int) or flags & (os.O_WRONLY | os.O_RDWR):
        return
    # An error here would be one of the user's code.
    with contextlib.suppress(OSError, TypeError, ValueError):
        path = os.path.realpath(os.fsdecode(path))
        with contextlib.suppress(ValueError):
            path = importlib.util.source_from_cache(path)
        for opened in _noting:
            opened[path] = None
