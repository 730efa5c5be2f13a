"""What a case is: a valid call of a public function, and what its arguments allow."""

from collections.abc import Callable
from typing import Any, NamedTuple

from checks.hostile import NOTHING


class Argument(NamedTuple):
    """An argument of a valid call.

    Attributes:
      value: what the call gives.
      allowed: names of `hostile.VALUES` that the argument allows, too.
    """

    value: Any
    allowed: frozenset[str] = NOTHING


class Case(NamedTuple):
    """A valid call of a public function.

    Attributes:
      name: the function's name under `jaxrob`.
      function: takes the arguments by name.
      arguments: what it takes.
    """

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Argument]


def case(name: str, function: Callable[..., Any], /, **arguments: Any) -> Case:
    """A case; each argument is its value, or the value and what else is allowed."""
    return Case(
        name,
        function,
        {
            each: value if isinstance(value, Argument) else Argument(value)
            for each, value in arguments.items()
        },
    )
