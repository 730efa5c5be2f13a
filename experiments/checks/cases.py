"""Valid calls of public functions, and values that hardly any argument allows."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


def _function() -> None:
    """Takes nothing and gives nothing."""


#: Wrong values that are cheap to reject.
VALUES: dict[str, Any] = {
    "None": None,
    "NaN": float("nan"),
    "-1": -1,
    "0": 0,
    "1.5": 1.5,
    "text": "text",
    "empty text": "",
    "empty list": [],
    "list of None": [None],
    "object": object(),
    "True": True,
    "function": _function,
    "array of NaN": np.full((2, 3), np.nan),
    "array of rank 5": np.zeros((2, 2, 2, 2, 2)),
}

# What an argument allows. A value that is allowed may also be refused, as one too many
# for the data at hand; a value that is not must be.
NOTHING = INSIDE_SHARE = COUNT = NAMES = frozenset[str]()
OR_NONE = frozenset({"None"})
SHARE = INDEX = frozenset({"0"})
POSITIVE = frozenset({"1.5"})
NUMBER = POSITIVE | {"-1", "0"}
FLAG = frozenset({"True"})
TEXT = PATH = frozenset({"text"})
ANY_TEXT = TEXT | {"empty text"}
CALLABLE = frozenset({"function"})
EMPTY = frozenset({"empty list"})
#: Arrays of any shape: of shares, of positive numbers, of any.
SHARES = SHARE | EMPTY | {"array of rank 5"}
COUNTS = SHARES | POSITIVE
NUMBERS = COUNTS | NUMBER
ANYTHING = frozenset(VALUES)


class Argument(NamedTuple):
    """An argument of a valid call, and the names of other values that it allows."""

    value: Any
    allowed: frozenset[str] = NOTHING


class Case(NamedTuple):
    """A valid call of a public function, which takes the arguments by name."""

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Argument]


def case(function: Callable[..., Any], name: str = "", /, **arguments: Any) -> Case:
    """A case; each argument is its value, or the value and what else is allowed."""
    if not name:
        # jaxrob.metrics._tolerance: metrics.beta.
        room = function.__module__.split("._")[0].removeprefix("jaxrob")
        name = f"{room}.{function.__qualname__}"[1:]
    given = {
        each: value if isinstance(value, Argument) else Argument(value)
        for each, value in arguments.items()
    }
    return Case(name, function, given)
