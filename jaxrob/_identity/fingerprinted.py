"""A function as it was when it was looked at."""

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Fingerprinted:
    """A function that equals another one only if both compute the same.

    `jax.jit` compiles once for equal static arguments, and a function equals itself
    even where the arrays or attributes that it takes from around it have changed. With
    the token, a program that was compiled for other values is not used again.

    Attributes:
      token: a digest of what it computes, the same in every process.
      function: the function.
      is_identifiable: whether the token distinguishes it from all others.
      info: what else its trace found, or None.
    """

    # First, because it is compared fast.
    token: str
    function: Callable[..., Any]
    is_identifiable: bool
    info: Any = dataclasses.field(default=None, compare=False, repr=False)

    def __hash__(self) -> int:
        return hash(self.token)

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)
