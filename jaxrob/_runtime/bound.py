"""A function with some of its keyword arguments fixed, comparable by value."""

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Bound:
    """What `functools.partial` is, but equal (and hashed) by its parts.

    `jax.jit` compiles once for all equal static arguments. Two partials of the same
    function are never equal, so each would be compiled anew.
    """

    function: Callable[..., Any]
    keywords: tuple[tuple[str, Any], ...]

    def __call__(self, *args):
        return self.function(*args, **dict(self.keywords))


def bind(function: Callable[..., Any], /, **keywords: Any) -> Bound:
    """`function` with `keywords` (hashable values) fixed."""
    return Bound(function, tuple(sorted(keywords.items())))
