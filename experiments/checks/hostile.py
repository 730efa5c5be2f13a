"""Values that hardly any argument allows, and which of them each kind does allow."""

import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def _function() -> None:
    """Takes nothing and gives nothing."""


def _leaked_tracer() -> Any:
    """An array of a trace that has ended."""
    kept = []
    jax.eval_shape(kept.append, jax.ShapeDtypeStruct((2,), np.float32))
    return kept[0]


#: How to make each value. It is made anew for each call, since some are used up.
VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "-infinity": lambda: float("-inf"),
    "-1": lambda: -1,
    "0": lambda: 0,
    "-0.5": lambda: -0.5,
    "1.5": lambda: 1.5,
    "2**70": lambda: 2**70,
    "1e300": lambda: 1e300,
    "text": lambda: "text",
    "empty text": lambda: "",
    "number as text": lambda: "0.5",
    "bytes": lambda: b"text",
    "empty bytes": lambda: b"",
    "empty list": lambda: [],
    "list of None": lambda: [None],
    "list of text": lambda: ["text"],
    "ragged list": lambda: [[1, 2], [3]],
    "empty dict": lambda: {},
    "empty set": lambda: set(),
    "object": lambda: object(),
    "True": lambda: True,
    "complex": lambda: 1j,
    "generator": lambda: (value for value in (1, 2)),
    "missing path": lambda: pathlib.Path("no", "such", "file"),
    "function": lambda: _function,
    "class": lambda: dict,
    "module": lambda: np,
    "tracer": _leaked_tracer,
    "empty array": lambda: np.zeros(0),
    "array of NaN": lambda: np.full((2, 3), np.nan),
    "array of rank 5": lambda: np.zeros((2, 2, 2, 2, 2)),
    "array of -1": lambda: np.full(3, -1),
    "array of 300": lambda: np.full((2, 4, 4, 1), 300.0),
    "complex array": lambda: np.zeros(3, complex),
    "array of text": lambda: np.array(["text"]),
    "array of objects": lambda: np.array([None, {}]),
    "array 7": lambda: np.array(7),
    "array 0.5": lambda: np.array(0.5),
}


def _named(*names: str) -> frozenset[str]:
    assert not set(names) - VALUES.keys(), names
    return frozenset(names)


#: What an argument allows. A value that is allowed may also be refused, as one too many
#: for the data at hand; a value that is not must be.
NOTHING = _named()
OR_NONE = _named("None")
SHARE = _named("0", "array 0.5")
INSIDE_SHARE = _named("array 0.5")
POSITIVE = _named("1.5", "2**70", "1e300", "array 7", "array 0.5")
NUMBER = POSITIVE | _named("-1", "0", "-0.5")
COUNT = _named("array 7")
INDEX = COUNT | _named("0")
FLAG = _named("True")
TEXT = _named("text", "number as text")
ANY_TEXT = TEXT | _named("empty text")
PATH = TEXT | _named("missing path")
CALLABLE = _named("function", "class")
EMPTY = _named("empty list")
NAMES = _named("list of text", "array of text")
#: Arrays of any shape: of shares, of positive numbers, of any.
SHARES = SHARE | _named("0", "empty array", "empty list", "array of rank 5")
COUNTS = SHARES | POSITIVE
NUMBERS = COUNTS | NUMBER | _named("array of -1", "array of 300")
ANYTHING = frozenset(VALUES)
