"""Checks of arguments, made before anything is traced or computed."""

import operator
from typing import Any


def check_type(name: str, value: Any, kind: Any, wanted: str) -> None:
    """Refuses a value of another type.

    Args:
      name: the argument's name.
      value: what was given.
      kind: the type, or a union of types.
      wanted: the type in words, such as "a jaxrob.Classifier".

    Raises:
      TypeError: if the value is not of the type.
    """
    if not isinstance(value, kind):
        got = type(value).__name__
        if isinstance(value, bool | int | float | str):
            got = f"{value!r}, of type {got}"
        raise TypeError(f"{name} must be {wanted}; got {got}")


def check_at_least_one(**numbers: int) -> None:
    """Refuses whole numbers below 1, given by their names.

    Raises:
      TypeError: if one is no whole number.
      ValueError: if one is below 1.
    """
    for name, number in numbers.items():
        if operator.index(number) < 1:
            raise ValueError(f"{name} must be at least 1; got {number}")
