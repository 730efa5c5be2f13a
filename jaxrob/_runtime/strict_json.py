"""JSON that is taken at its word: read strictly, its arrays checked one by one."""

import json
import math
from collections.abc import Collection
from typing import Any

import numpy as np

from jaxrob._runtime.checks import check_type, checked_array

_INFINITIES = {"inf": math.inf, "-inf": -math.inf}
_LARGEST_INT32 = 2**31 - 1


def parsed(text: str | bytes) -> Any:
    """The value of strict JSON: no NaN or infinity, no name twice in an object.

    Args:
      text: the text, or its bytes in UTF-8.

    Raises:
      ValueError: if it is not that.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode()
        return json.loads(
            text,
            parse_float=_finite,
            parse_constant=_finite,
            object_pairs_hook=_distinct,
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"the text is not JSON: {error}; got {short(text[:80])}"
        ) from error


def parsed_object(text: Any, form: str, names: Collection[str]) -> dict[str, Any]:
    """An object with a format and exactly these parts, from strict JSON.

    Args:
      text: the text, or its bytes.
      form: the value of the part "format".
      names: the names of the other parts.

    Raises:
      TypeError: if it is no text.
      ValueError: if it is not strict JSON, of another format, or a part is missing or
        unknown.
    """
    check_type("text", text, str | bytes, "the text that to_json gave")
    document = parsed(text)
    found = document.get("format") if isinstance(document, dict) else None
    if found != form:
        raise ValueError(f"the text's format must be {form!r}; got {short(found)}")
    return checked_parts("the text", document, {"format", *names})


def checked_parts(name: str, value: Any, parts: Collection[str]) -> dict[str, Any]:
    """An object with exactly these parts.

    Raises:
      TypeError: if it is no object.
      ValueError: if a part is missing or unknown.
    """
    check_type(name, value, dict, "an object")
    if missing := sorted(set(parts) - value.keys()):
        raise ValueError(f"{name} lacks {', '.join(map(repr, missing))}")
    if unknown := sorted(value.keys() - set(parts)):
        raise ValueError(f"{name} has unknown parts: {short(unknown)}")
    return value


def integers(
    name: str, values: Any, *, at_least: int = 0, at_most: int = _LARGEST_INT32
) -> np.ndarray:
    """A list of integers, as int64 `[N]`.

    Raises:
      TypeError: if it is none.
      ValueError: if one is outside the range.
    """
    if not isinstance(values, list) or not set(map(type, values)) <= {int}:
        raise TypeError(f"{name} must be a list of whole numbers")
    if values and not at_least <= min(values) <= max(values) <= at_most:
        raise ValueError(
            f"{name} must lie in [{at_least}, {at_most}]; got numbers from "
            f"{short(min(values))} to {short(max(values))}"
        )
    return np.array(values, np.int64)


def floats(
    name: str,
    values: Any,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    may_be_infinite: bool = False,
) -> np.ndarray:
    """A list of numbers as `jsonable` writes them, as float64 `[N]`; null is NaN.

    Raises:
      TypeError: if it is none.
      ValueError: if one is outside the range.
    """
    if not isinstance(values, list):
        raise TypeError(f"{name} must be a list of numbers")
    texts = _INFINITIES if may_be_infinite else {}
    found = []
    for value in values:
        if value is None:
            value = math.nan
        elif isinstance(value, str) and value in texts:
            value = texts[value]
        elif type(value) not in (int, float):
            raise TypeError(f"{name} must hold numbers or null; got {short(value)}")
        found.append(value)
    try:
        array = np.array(found, np.float64)
    except OverflowError:
        raise ValueError(f"{name} must hold numbers below 1e308") from None
    return checked_array(
        name,
        array,
        "N",
        at_least=at_least,
        at_most=at_most,
        may_be_nan=True,
        may_be_infinite=may_be_infinite,
        may_be_empty=True,
    )


def booleans(name: str, values: Any) -> np.ndarray:
    """A list of true and false, as bool `[N]`.

    Raises:
      TypeError: if it is none.
    """
    if not isinstance(values, list) or not set(map(type, values)) <= {bool}:
        raise TypeError(f"{name} must be a list of true and false")
    return np.array(values, bool)


def texts(name: str, values: Any) -> tuple[str, ...]:
    """A list of texts.

    Raises:
      TypeError: if it is none.
    """
    if not isinstance(values, list) or not set(map(type, values)) <= {str}:
        raise TypeError(f"{name} must be a list of texts; got {short(values)}")
    return tuple(values)


def jsonable(value: Any) -> Any:
    """A value of arrays for JSON, which knows neither NaN nor infinity.

    They become null and "inf" or "-inf".
    """
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist())
    if isinstance(value, list | tuple):
        return [jsonable(each) for each in value]
    if not isinstance(value, float) or np.isfinite(value):
        return value
    return None if np.isnan(value) else str(value)


def short(value: Any) -> str:
    """A value in a message: at most 80 characters of it."""
    value = value.item() if isinstance(value, np.generic) else value
    text = ascii(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands there twice")
    return found
