"""What a call with one wrong argument came to."""

import ast
import functools
import pathlib
import re
import time
import traceback
from typing import Any, NamedTuple

import jax

import jaxrob
from checks.cases import Case
from checks.hostile import VALUES

_PACKAGE = str(pathlib.Path(jaxrob.__file__).parent)
_CLASSES = (TypeError, ValueError, IndexError, OSError)

_compilations = [0]


def _count(event: str, duration_secs: float, **_: str | int) -> None:
    del duration_secs
    _compilations[0] += event == "/jax/core/compile/backend_compile_duration"


jax.monitoring.register_event_duration_secs_listener(_count)


class Outcome(NamedTuple):
    """What came of a call.

    Attributes:
      case: the function's name.
      argument: the argument that was changed.
      value: the name of the value in its place.
      kind: "ours", a refusal that says what is wrong; "theirs", one of NumPy, JAX or
        Python; "allowed", a result that may be; "wrong", a result that must not be.
      said: the error's class and message, or the result's type.
      programs: how many were compiled.
      seconds: how long it took.
    """

    case: str
    argument: str
    value: str
    kind: str
    said: str
    programs: int
    seconds: float


def outcome(case: Case, argument: str, value_name: str) -> Outcome:
    """Calls a case's function with one argument replaced."""
    value = VALUES[value_name]()
    arguments = {name: each.value for name, each in case.arguments.items()}
    programs, start = _compilations[0], time.perf_counter()
    try:
        result = case.function(**arguments | {argument: value})
    # Whatever is raised is what the script is about.
    except Exception as error:
        kind = "ours" if _is_ours(error, argument, value) else "theirs"
        said = f"{type(error).__name__}: {error}"
    else:
        may_be = value_name in case.arguments[argument].allowed
        kind, said = "allowed" if may_be else "wrong", type(result).__name__
    return Outcome(
        case.name,
        argument,
        value_name,
        kind,
        said,
        _compilations[0] - programs,
        time.perf_counter() - start,
    )


def _is_ours(error: Exception, argument: str, value: Any) -> bool:
    """Whether the package raised it itself, and it names the argument and the value."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    if not frame.filename.startswith(_PACKAGE) or not isinstance(error, _CLASSES):
        return False
    message = str(error)
    if isinstance(error, FileNotFoundError):
        return str(value) in message
    if frame.lineno not in _lines_that_raise(frame.filename):
        return False
    names_it = re.search(rf"\b{re.escape(argument)}\b", message) is not None
    return names_it and _says_what_it_was(message, value)


def _says_what_it_was(message: str, value: Any) -> bool:
    # Of an array the first bad value and its place are as good as its type and shape.
    signs = ["got ", "is empty", type(value).__name__, repr(value)[:40]]
    return any(sign in message for sign in signs)


@functools.cache
def _lines_that_raise(filename: str) -> frozenset[int]:
    tree = ast.parse(pathlib.Path(filename).read_text())
    return frozenset(
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    )
