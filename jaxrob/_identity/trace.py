"""Traces functions as they are now, and notices what has changed since."""

import dataclasses
import functools
import weakref
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr

from jaxrob._identity.hashable_partial import HashablePartial
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


def kept(function: Callable[..., Any], way: Hashable) -> Trace | None:
    """Returns the last trace of a function of a Flax module, if it captured nothing."""
    # Modules do not change, and a trace takes as long as all else in a short call.
    return _kept_at(function, way).trace if _is_fixed(function) else None


def has_changed(function: Callable[..., Any], way: Hashable, found: Trace) -> bool:
    """Whether a function's last trace in the same way showed another program."""
    place, program = _kept_at(function, way), found.fingerprint
    before, place.digest = place.digest, program.digest
    if not program.num_captured and not program.on_host:
        place.trace = found
    return before not in (None, program.digest)


@dataclasses.dataclass
class _Kept:
    digest: str | None = None
    trace: Trace | None = None


def _kept_at(function: Callable[..., Any], way: Hashable) -> _Kept:
    try:
        return _place(weakref.ref(function), way, _settings())
    except TypeError:  # A function that cannot be hashed, or referred to weakly.
        return _Kept()


@functools.lru_cache(maxsize=1024)
def _place(*of: Hashable) -> _Kept:
    del of
    return _Kept()


def _is_fixed(part: Any) -> bool:
    """Whether it is Flax's or the library's, down to what it is made of."""
    # By name, because the import of Flax takes a tenth of a second.
    kinds = {f"{one.__module__}.{one.__qualname__}" for one in type(part).__mro__}
    if "flax.linen.module.Module" in kinds or not callable(part):
        return True
    if isinstance(part, HashablePartial):
        return all(_is_fixed(one) for _, one in part.keywords)
    if type(part).__module__.startswith("jaxrob."):
        return all(map(_is_fixed, vars(part).values()))
    return False


def _settings() -> ClosedJaxpr:
    """Returns a key for the JAX settings that traces depend on, such as x64."""
    # JAX caches one trace for each combination of settings, which equals no other.
    return _nothing.trace().jaxpr


@jax.jit
def _nothing() -> None:
    pass
