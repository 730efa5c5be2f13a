"""Traces functions, and caches what their traces show."""

import functools
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr

from jaxrob._identity.program import (
    ProgramFingerprint,
    fingerprint_of,
    largest_array,
    operations,
)


class Trace(NamedTuple):
    """What a trace shows.

    Attributes:
      fingerprint: what identifies the program.
      outputs: the shapes of what it returns.
      largest_array: the bytes of the largest array that it computes.
      operations: multiplications and additions, see `program.operations`.
    """

    fingerprint: ProgramFingerprint
    outputs: Any
    largest_array: int
    operations: float


def seen(
    functions: Sequence[Callable[..., Any]],
    way: Hashable,
    trace: Callable[[], tuple[ClosedJaxpr, Any]],
) -> tuple[Trace, bool]:
    """Returns what a trace of functions shows, as they are now.

    A function must be pure in its arguments, as for `jax.jit`, and is traced once for
    each way in which it is called. It is retraced only if it captures arrays, which
    may have changed. The cache lives as long as the functions, or the programs
    compiled for them, and holds no array.

    Args:
      functions: the functions in the program. Equal ones are the same.
      way: what else makes the program: settings, and the types of the arguments.
      trace: makes the trace.

    Returns:
      The trace, and whether the constants differ from those of the last call.
    """
    try:
        place = _place(tuple(map(weakref.ref, functions)), way, _settings())
    except TypeError:  # A function that cannot be hashed, or referred to weakly.
        place = []
    known = place[0] if place else None
    if known is not None and not known.fingerprint.num_captured:
        return known, False
    program, outputs = trace()
    found = fingerprint_of(program)
    if known is not None and known.fingerprint == found:
        return known, False
    jaxpr = program.jaxpr
    new = Trace(found, outputs, largest_array(jaxpr), operations(jaxpr))
    place[:] = [new]
    return new, known is not None and known.fingerprint.constants != found.constants


@functools.lru_cache(maxsize=1024)
def _place(*of: Hashable) -> list[Trace]:
    """Returns the cache entry of functions called in one way."""
    del of
    return []


def _settings() -> ClosedJaxpr:
    """Returns a key for the JAX settings that traces depend on, such as x64.

    JAX caches one trace for each combination of settings, which equals no other.
    """
    return _nothing.trace().jaxpr


@jax.jit
def _nothing() -> None:
    pass
