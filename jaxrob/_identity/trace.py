"""Traces functions as they are now, and notices what has changed since."""

import functools
import weakref
from collections.abc import Callable, Hashable
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


def trace_of(program: ClosedJaxpr, outputs: Any) -> Trace:
    """Returns what a program that was `traced` shows."""
    jaxpr = program.jaxpr
    fingerprint = fingerprint_of(program)
    return Trace(fingerprint, outputs, largest_array(jaxpr), operations(jaxpr))


def has_changed(function: Callable[..., Any], way: Hashable, found: Trace) -> bool:
    """Whether a function's last trace in the same way showed another program."""
    try:
        place = _place(weakref.ref(function), way, _settings())
    except TypeError:  # A function that cannot be hashed, or referred to weakly.
        return False
    known, place[:] = place[:], [found.fingerprint.digest]
    return known not in ([], place)


@functools.lru_cache(maxsize=1024)
def _place(*of: Hashable) -> list[str]:
    """Returns the cache entry of a function called in one way: its program's digest."""
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
