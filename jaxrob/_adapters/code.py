"""Texts and arrays that identify foreign values, functions and classes in digests."""

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

# Levels of nested objects; deeper ones are identified by their class.
_MAX_DEPTH = 4
_PLAIN = (bool, int, float, complex, str, bytes, type(None))

Parts = Iterator[str | np.ndarray]
# Yields the identifying parts of a framework's own value; None for other values.
Describe = Callable[[Any], Parts | None]


def value_parts(value: Any, describe: Describe, within: tuple[Any, ...] = ()) -> Parts:
    """Yields the parts that identify a value, the same in every process."""
    found = describe(value)
    if found is not None:
        yield from found
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        yield value
    elif isinstance(value, _PLAIN):
        yield repr(value)
    elif len(within) > _MAX_DEPTH or any(value is one for one in within):
        yield _name(type(value))
    elif isinstance(value, dict):
        yield f"{_name(type(value))} {len(value)}"
        for key, part in value.items():
            yield from value_parts(key, describe, (*within, value))
            yield from value_parts(part, describe, (*within, value))
    elif isinstance(value, set | frozenset):
        yield f"set {sorted(map(repr, value))}"
    elif isinstance(value, list | tuple):
        yield f"{_name(type(value))} {len(value)}"
        for part in value:
            yield from value_parts(part, describe, (*within, value))
    elif isinstance(value, type):
        yield _name(value)
    elif isinstance(value, functools.partial):
        for part in (value.func, value.args, value.keywords):
            yield from value_parts(part, describe, (*within, value))
    elif inspect.isroutine(value):
        yield from _function_parts(value, describe, within)
    else:
        yield _name(type(value))
        yield from value_parts(
            getattr(value, "__dict__", {}), describe, (*within, value)
        )


def class_parts(kind: type, describe: Describe) -> Parts:
    """Yields the parts that identify a class: its functions and the values it holds."""
    for name, member in sorted(vars(kind).items()):
        function = getattr(member, "__func__", getattr(member, "fget", member))
        if isinstance(function, types.FunctionType):
            yield name
            yield from _function_parts(function, describe, ())
        elif not name.startswith("__") and isinstance(member, (*_PLAIN, tuple, list)):
            yield name
            yield from value_parts(member, describe)


def _function_parts(
    function: Any, describe: Describe, within: tuple[Any, ...]
) -> Parts:
    """Yields a function's code, defaults and captured values."""
    code = getattr(function, "__code__", None)
    if code is None:  # From a compiled module.
        yield _name(function)
        return
    yield from _code_parts(code, describe)
    within = (*within, function)
    for part in (function.__defaults__, function.__kwdefaults__):
        yield from value_parts(part, describe, within)
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:  # Not assigned yet.
            continue
        yield from value_parts(held, describe, within)


def _code_parts(code: types.CodeType, describe: Describe) -> Parts:
    yield f"{code.co_code.hex()} {code.co_names}"
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_parts(constant, describe)
        else:
            yield from value_parts(constant, describe)


def _name(value: Any) -> str:
    # Without the module, whose name differs when a script is run.
    return getattr(value, "__qualname__", type(value).__qualname__)
