"""Describes a function's program as JAX traces it: operations and constants."""

import collections
import dataclasses
import functools
import math
import re
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jax.sharding import AbstractMesh, Mesh, Sharding

from jaxrob._devices.host_function import HostCall
from jaxrob._identity.identity import (
    ARRAYS,
    Fingerprinted,
    T,
    array_text,
    digest,
    host_array,
    is_identifiable,
    programs_within,
)

# Types of parameters, asked for in this order because most are of the first.
_PLAIN = (bool, int, float, str, type(None))
_SEQUENCES = (tuple, list)
_DEVICES = (Sharding, Mesh, AbstractMesh, jax.Device)

# Ends of primitives that call Python on the host; for debugging they change nothing.
_ON_HOST = ("callback", "call_tf")
_FOR_DEBUGGING = ("debug", "inspect")
# Operations that a trace cannot count: on the host, foreign, or as the data say.
_OF_UNKNOWN_COST = (*_ON_HOST, "ffi_call", "pallas_call", "while")


class ProgramFingerprint(NamedTuple):
    digest: str  # of all operations and constants
    num_captured: int  # numbers in arrays that the function took from around it
    # Host functions without name and version: equal digests may then differ.
    on_host: tuple[Any, ...]


def fingerprint_of(program: ClosedJaxpr) -> ProgramFingerprint:
    found = _Found({}, {}, {}, [])
    token = digest([_closed_text(program, found)])
    return ProgramFingerprint(token, sum(found.captured.values()), tuple(found.on_host))


def largest_array(jaxpr: Any) -> int:
    sizes = [0]
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            if hasattr(variable.aval, "size"):
                sizes.append(variable.aval.size * variable.aval.dtype.itemsize)
        sizes += map(largest_array, programs_within(equation.params))
    return max(sizes)


def operations(jaxpr: Any) -> float:
    """Counts multiplications and additions in matrix products and convolutions."""
    # Infinite if a trace does not show them. XLA's analysis counts a loop's body once.
    number = 0.0
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        if name.endswith(_OF_UNKNOWN_COST):
            return math.inf
        if name == "dot_general":
            (contracted, _), _ = params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            terms = math.prod(shape[axis] for axis in contracted)
            number += 2 * terms * equation.outvars[0].aval.size
        elif name == "conv_general_dilated":
            kernel = equation.invars[1].aval
            terms = kernel.size / kernel.shape[params["dimension_numbers"].rhs_spec[0]]
            number += 2 * terms * equation.outvars[0].aval.size
        repeats = params["length"] if name == "scan" else 1
        number += repeats * sum(map(operations, programs_within(params)))
    return number


class _Found(NamedTuple):
    # All by identity.
    arrays: dict[int, tuple[Any, str]]  # captured arrays with their texts
    programs: dict[int, str]  # the texts of the programs within
    captured: dict[int, int]  # the sizes of arrays taken from around the function
    on_host: list[Any]  # the host functions that are not identifiable


def _closed_text(program: ClosedJaxpr, found: _Found) -> str:
    found.captured.update((id(one), np.size(one)) for one in program.consts)
    constants = [_constant_text(constant, found) for constant in program.consts]
    return f"{_jaxpr_text(program.jaxpr, found)} of {constants}"


def _jaxpr_text(jaxpr: Jaxpr, found: _Found) -> str:
    """Prints all equations. JAX's own print shortens arrays and holds addresses."""
    if id(jaxpr) in found.programs:
        return found.programs[id(jaxpr)]
    numbers: dict[Any, str] = {}

    def one(atom: Any) -> str:
        if isinstance(atom, Literal):
            return _constant_text(atom.val, found, atom.aval)
        return numbers[atom]

    def new(variable: Any) -> str:
        numbers[variable] = f"v{len(numbers)}"
        return f"{numbers[variable]}:{_type_text(variable.aval)}"

    lines = [" ".join(map(new, (*jaxpr.constvars, *jaxpr.invars)))]
    for equation in jaxpr.eqns:
        inputs = " ".join(map(one, equation.invars))
        params = _params_text(equation.primitive.name, equation.params, found)
        outputs = " ".join(map(new, equation.outvars))
        lines.append(f"{outputs} = {equation.primitive.name}[{params}] {inputs}")
    lines.append(" ".join(map(one, jaxpr.outvars)))
    found.programs[id(jaxpr)] = "{" + "\n".join(lines) + "}"
    return found.programs[id(jaxpr)]


def _params_text(name: str, params: dict[str, Any], found: _Found) -> str:
    if name.startswith(_FOR_DEBUGGING):
        return ""
    if name.endswith(_ON_HOST):
        function = getattr(params.get("callback"), "callback_func", None)
        if isinstance(function, HostCall) and function.function.is_identifiable:
            host = function.function
            return f"{host.name!r} {host.version!r} {function.is_gradient}"
        found.on_host.append(function)
    return ", ".join(
        f"{key}={_param_text(value, found)}" for key, value in sorted(params.items())
    )


def _param_text(value: Any, found: _Found) -> str:
    one = functools.partial(_param_text, found=found)
    if type(value) in _PLAIN:
        return _without_addresses(repr(value))
    if isinstance(value, _SEQUENCES):
        return type(value).__name__ + _joined(map(one, value))
    if isinstance(value, ClosedJaxpr):
        return _closed_text(value, found)
    if isinstance(value, Jaxpr):
        return _jaxpr_text(value, found)
    if isinstance(value, ARRAYS):
        if np.shape(value):
            found.captured[id(value)] = np.size(value)
        return _constant_text(value, found)
    if isinstance(value, _DEVICES):
        return "devices"
    if isinstance(value, dict):
        return _joined(f"{one(key)}: {one(part)}" for key, part in value.items())
    if isinstance(value, set | frozenset):
        return _joined(sorted(map(one, value)))
    if isinstance(value, type) or callable(value) or hasattr(value, "call_wrapped"):
        # The rules of derivatives, for instance: what they are for is in the program.
        return getattr(value, "__qualname__", type(value).__qualname__)
    if dataclasses.is_dataclass(value):
        fields = (getattr(value, field.name) for field in dataclasses.fields(value))
        return type(value).__qualname__ + _joined(map(one, fields))
    return _without_addresses(repr(value))


def _without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-fA-F]+", "", text) if "0x" in text else text


# Types of arrays are few, and slow to print.
_dtype_text = functools.lru_cache(maxsize=256)(str)


def _joined(parts: Iterable[str]) -> str:
    return "(" + ", ".join(parts) + ")"


def _constant_text(value: Any, found: _Found, kind: Any = None) -> str:
    known = found.arrays.get(id(value))
    if known is not None:
        return known[1]
    array = value if np.shape(value) else host_array(value)
    if array.shape:
        text = array_text(value)
        # Stored with the array, so that no other array can get its id meanwhile.
        found.arrays[id(value)] = (value, text)
    else:
        array = array if kind is None else array.astype(kind.dtype)
        text = f"{_dtype_text(array.dtype)} {array.tobytes().hex()}"
    return text


def _type_text(kind: Any) -> str:
    if not hasattr(kind, "dtype"):
        return type(kind).__name__
    weak = "w" if getattr(kind, "weak_type", False) else ""
    return f"{_dtype_text(kind.dtype)}{kind.shape}{weak}"


class Trace(NamedTuple):
    fingerprint: ProgramFingerprint  # what identifies the program
    outputs: Any  # the shapes of what it returns
    largest_array: int  # the bytes of the largest array that it computes
    operations: float  # multiplications and additions, see `program.operations`


def trace_of(program: ClosedJaxpr, outputs: Any) -> Trace:
    largest, number = largest_array(program.jaxpr), operations(program.jaxpr)
    return Trace(fingerprint_of(program), outputs, largest, number)


def has_changed(function: Callable[..., Any], way: Hashable, found: Trace) -> bool:
    """Whether a function's last trace in the same way showed another program."""
    try:
        # One trace, which equals no other, for each combination of JAX's settings.
        last = _last(weakref.ref(function), way, _nothing.trace().jaxpr)
    except TypeError:  # A function that cannot be hashed, or referred to weakly.
        return False
    last.append(found.fingerprint.digest)
    return len({*last}) > 1


@functools.lru_cache(maxsize=1024)
def _last(*of: Hashable) -> collections.deque[str]:
    del of
    return collections.deque(maxlen=2)


@jax.jit
def _nothing() -> None:
    pass


def fingerprinted_parts(
    value: T, names: Sequence[str], program: ClosedJaxpr, again: ClosedJaxpr
) -> T:
    """Gives functions of a dataclass, unless identifiable, their fingerprint."""
    functions = {name: getattr(value, name) for name in names}
    found = fingerprint_of(program)
    if found.digest != fingerprint_of(again).digest:
        raise ValueError(
            f"{cast(Any, value).name} computes something else each time JAX traces it, "
            "and one of these for all images: does it draw from NumPy or read a clock? "
            "Draw by jax.random from the key that it is given"
        )
    pins = {
        name: Fingerprinted(found.digest, function, found.on_host)
        for name, function in functions.items()
        if not is_identifiable(function)
    }
    return dataclasses.replace(cast(Any, value), **pins)
