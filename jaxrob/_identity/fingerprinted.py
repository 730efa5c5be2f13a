"""A function as it was when it was looked at."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxrob._identity.program import with_own_arrays


@dataclasses.dataclass(frozen=True)
class Fingerprinted:
    """A function that equals another one only if both compute the same.

    `jax.jit` compiles once for equal static arguments, and a function equals itself
    even where the arrays or attributes that it takes from around it have changed. With
    the token, a program that was compiled for other values is not used again.
    """

    # First, because it is compared fast.
    token: str  # a digest of what it computes, the same in every process
    function: Callable[..., Any]  # the function
    # The functions on the host that it calls, into which no trace looks
    on_host: tuple[Any, ...] = ()
    # What else its trace found, or None
    info: Any = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def is_identifiable(self) -> bool:
        """Whether the token distinguishes it from all others."""
        return not self.on_host

    def __hash__(self) -> int:
        return hash(self.token)

    def __call__(self, *args: Any) -> Any:
        return with_own_arrays(self.function, *args)
