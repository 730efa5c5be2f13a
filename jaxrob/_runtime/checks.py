"""Checks of arguments, made before anything is traced or computed.

Each names the argument, what it was and what is allowed. A function that checks numbers
or arrays returns them as the rest of the library takes them.
"""

import math
import operator
from collections.abc import Collection
from typing import Any

import jax
import numpy as np

# What arrays may hold: how a message calls it, and NumPy's kinds of it. Types of JAX
# that NumPy does not know, such as bfloat16, are of the kind "V".
_KINDS = {
    "booleans": "b",
    "integers": "iu",
    "numbers": "iufV",
    "numbers or booleans": "biufV",
}


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
        raise TypeError(f"{name} must be {wanted}; got {_named(value)}")


def check_callable(name: str, value: Any, wanted: str) -> None:
    """Refuses what cannot be called.

    Raises:
      TypeError: if it cannot.
    """
    if not callable(value):
        raise TypeError(f"{name} must be {wanted}; got {_named(value)}")


def check_choice(name: str, value: Any, allowed: Collection[str]) -> None:
    """Refuses a name that is none of those allowed.

    Raises:
      TypeError: if it is no text.
      ValueError: if it is another one.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {tuple(allowed)}; got {_named(value)}")
    if value not in allowed:
        raise ValueError(f"{name} must be one of {tuple(allowed)}; got {value!r}")


def checked_flag(name: str, value: Any) -> bool:
    """True or False.

    Raises:
      TypeError: if it is neither.
    """
    check_type(name, value, bool | np.bool_, "True or False")
    return bool(value)


def checked_integer(
    name: str, value: Any, *, at_least: int | None = None, at_most: int | None = None
) -> int:
    """A whole number within its range.

    Raises:
      TypeError: if it is no whole number. True and False are none.
      ValueError: if it lies outside the range.
    """
    wanted = f"a whole number{_range_text(at_least, None, at_most, None)}"
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be {wanted}; got {_named(value)}")
    try:
        number = operator.index(value)
    except TypeError:  # An array of several numbers, or of no whole ones.
        raise TypeError(f"{name} must be {wanted}; got {_named(value)}") from None
    below = at_least is not None and number < at_least
    if below or (at_most is not None and number > at_most):
        raise ValueError(f"{name} must be {wanted}; got {number}")
    return number


def checked_number(
    name: str,
    value: Any,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> float:
    """A finite number within its range.

    Raises:
      TypeError: if it is no number. True and False are none.
      ValueError: if it is NaN, infinite or outside the range.
    """
    wanted = f"a number{_range_text(at_least, above, at_most, below)}"
    is_number = isinstance(value, int | float | np.integer | np.floating)
    if isinstance(value, np.ndarray | jax.Array) and value.shape == ():
        is_number = np.asarray(value).dtype.kind in "iufV"
    if isinstance(value, bool) or not is_number:
        raise TypeError(f"{name} must be {wanted}; got {_named(value)}")
    number = float(value)
    inside = (
        math.isfinite(number)
        and (at_least is None or number >= at_least)
        and (above is None or number > above)
        and (at_most is None or number <= at_most)
        and (below is None or number < below)
    )
    if not inside:
        raise ValueError(f"{name} must be {wanted}; got {value}")
    return number


def checked_array(
    name: str,
    value: Any,
    shape: str,
    holding: str = "numbers",
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    may_be_nan: bool = False,
) -> np.ndarray:
    """An array on the host, of a shape, a kind and a range.

    Args:
      name: the argument's name.
      value: what was given; lists will do.
      shape: the axes as docstrings write them: letters for any length, numbers for that
        length, "..." in front for any axes more. "L, K, K" wants two equal lengths.
      holding: one of "numbers", "integers", "booleans" and "numbers or booleans".
      at_least: the lowest value allowed.
      at_most: the highest.
      may_be_nan: whether NaN is allowed.

    Raises:
      TypeError: if it is no array of that kind.
      ValueError: if its shape is another one, a value is infinite or outside the range,
        or NaN where that is not allowed.
    """
    wanted = (
        f"an array [{shape}] of {holding}{_range_text(at_least, None, at_most, None)}"
    )
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):  # Lists of unequal lengths; tracers.
        raise TypeError(f"{name} must be {wanted}; got {_named(value)}") from None
    if array.dtype.kind not in _KINDS[holding]:
        raise TypeError(
            f"{name} must be {wanted}; got {_named(value)} of {array.dtype}"
        )
    if not _fits(array.shape, shape):
        raise ValueError(f"{name} must be {wanted}; got the shape {array.shape}")
    if array.dtype.kind in "fV":
        bad = np.isinf(array) if may_be_nan else ~np.isfinite(array)
        if bad.any():
            raise ValueError(f"{name} must be {wanted}, finite; got {array[bad][0]}")
    for outside in (
        None if at_least is None else array < at_least,
        None if at_most is None else array > at_most,
    ):
        if outside is not None and outside.any():
            raise ValueError(f"{name} must be {wanted}; got {array[outside][0]}")
    return array


def check_at_least_one(**numbers: Any) -> None:
    """Refuses whole numbers below 1, given by their names.

    Raises:
      TypeError: if one is no whole number.
      ValueError: if one is below 1.
    """
    for name, number in numbers.items():
        checked_integer(name, number, at_least=1)


def _fits(found: tuple[int, ...], shape: str) -> bool:
    axes = [axis.strip() for axis in shape.split(",") if axis.strip()]
    if axes[:1] == ["..."]:
        axes = axes[1:]
        found = found[max(0, len(found) - len(axes)) :]
    if len(found) != len(axes):
        return False
    lengths: dict[str, int] = {}
    for axis, length in zip(axes, found):
        wanted = int(axis) if axis.isdigit() else lengths.setdefault(axis, length)
        if length != wanted:
            return False
    return True


def _range_text(
    at_least: float | None,
    above: float | None,
    at_most: float | None,
    below: float | None,
) -> str:
    """The range in words or as an interval, such as " in [0, 1)"."""
    low = at_least if above is None else above
    high = at_most if below is None else below
    if low is not None and high is not None:
        left, right = "[" if above is None else "(", "]" if below is None else ")"
        return f" in {left}{low:g}, {high:g}{right}"
    if low is not None:
        return f" of at least {low:g}" if above is None else f" above {low:g}"
    if high is not None:
        return f" of at most {high:g}" if below is None else f" below {high:g}"
    return ""


def _named(value: Any) -> str:
    """A value of a simple type with its type; of any other the type alone."""
    kind = type(value).__name__
    if value is None:
        return "None"
    if isinstance(value, bool | int | float | str | np.number):
        text = repr(value)
        return f"{text if len(text) <= 80 else text[:77] + '...'}, of type {kind}"
    return kind
