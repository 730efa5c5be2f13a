"""A function with some of its keyword arguments fixed, comparable by value."""

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class HashablePartial:
    """A `functools.partial` that equals another one of the same parts.

    `jax.jit` compiles once for all equal static arguments. Two `functools.partial` of
    the same function are never equal, so each would be compiled anew.
    """

    function: Callable[..., Any]  # the function
    # Names and values of its fixed arguments, sorted by name
    keywords: tuple[tuple[str, Any], ...]

    def __call__(self, *args: Any) -> Any:
        return self.function(*args, **dict(self.keywords))


def hashable_partial(
    function: Callable[..., Any], /, **keywords: Any
) -> HashablePartial:
    """`function` with `keywords` (hashable values) fixed."""
    return HashablePartial(function, tuple(sorted(keywords.items())))
