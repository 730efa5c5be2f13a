"""Parses strict JSON, and shortens values for messages."""

import json
import math
from typing import Any

import numpy as np


def parsed(text: str | bytes) -> Any:
    """Parses strict JSON: no NaN or infinity, no name twice in an object."""
    try:
        if isinstance(text, bytes):
            text = text.decode()
        return json.loads(
            text,
            parse_float=_finite,
            parse_constant=_finite,
            object_pairs_hook=_distinct,
        )
    except RecursionError as error:
        raise ValueError("the text is nested too deep") from error
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the text is not JSON: {error}; got {short(text[:80])}"
        ) from error


def short(value: Any) -> str:
    """Shortens a value to at most 80 characters, for a message."""
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
