"""What tells values, functions and classes of others apart, as texts and arrays."""

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

# Objects within objects; what lies deeper is told by its class.
_DEEPEST = 4
_PLAIN = (bool, int, float, complex, str, bytes, type(None))

Parts = Iterator[str | np.ndarray]
# Yields what tells a value of a framework's own, or nothing if it knows it not.
Known = Callable[[Any], Parts | None]


def value_parts(value: Any, known: Known, within: tuple[Any, ...] = ()) -> Parts:
    """What tells a value from others, the same in every process.

    Args:
      value: anything.
      known: what tells values of a framework's own.
      within: the objects that it lies in.
    """
    found = known(value)
    if found is not None:
        yield from found
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        yield value
    elif isinstance(value, _PLAIN):
        yield repr(value)
    elif len(within) > _DEEPEST or any(value is one for one in within):
        yield _name(type(value))
    elif isinstance(value, dict):
        yield f"{_name(type(value))} {len(value)}"
        for key, part in value.items():
            yield from value_parts(key, known, (*within, value))
            yield from value_parts(part, known, (*within, value))
    elif isinstance(value, set | frozenset):
        yield f"set {sorted(map(repr, value))}"
    elif isinstance(value, list | tuple):
        yield f"{_name(type(value))} {len(value)}"
        for part in value:
            yield from value_parts(part, known, (*within, value))
    elif isinstance(value, type):
        yield _name(value)
    elif isinstance(value, functools.partial):
        for part in (value.func, value.args, value.keywords):
            yield from value_parts(part, known, (*within, value))
    elif inspect.isroutine(value):
        yield from _function_parts(value, known, within)
    else:
        yield _name(type(value))
        yield from value_parts(getattr(value, "__dict__", {}), known, (*within, value))


def class_parts(kind: type, known: Known) -> Parts:
    """What tells a class from others: its functions, and the values that it holds."""
    for name, member in sorted(vars(kind).items()):
        function = getattr(member, "__func__", getattr(member, "fget", member))
        if isinstance(function, types.FunctionType):
            yield name
            yield from _function_parts(function, known, ())
        elif not name.startswith("__") and isinstance(member, (*_PLAIN, tuple, list)):
            yield name
            yield from value_parts(member, known)


def _function_parts(function: Any, known: Known, within: tuple[Any, ...]) -> Parts:
    """Of a function: its code, defaults and what it takes from around it."""
    code = getattr(function, "__code__", None)
    if code is None:  # Of a compiled module.
        yield _name(function)
        return
    yield from _code_parts(code, known)
    within = (*within, function)
    for part in (function.__defaults__, function.__kwdefaults__):
        yield from value_parts(part, known, within)
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:  # Not filled yet.
            continue
        yield from value_parts(held, known, within)


def _code_parts(code: types.CodeType, known: Known) -> Parts:
    yield f"{code.co_code.hex()} {code.co_names}"
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_parts(constant, known)
        else:
            yield from value_parts(constant, known)


def _name(value: Any) -> str:
    # Not the module, which is another one where a script is run.
    return getattr(value, "__qualname__", type(value).__qualname__)
