"""Checks of arguments, made before anything is traced or computed."""

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
        raise TypeError(f"{name} must be {wanted}; got {type(value).__name__}")
