"""Values as the messages of errors show them."""

from typing import Any

import jax
import numpy as np


def named(value: Any) -> str:
    """A simple value with its type, an array with its type and shape.

    Of any other value it is the type alone, since a `repr` may be of any length.
    """
    kind = type(value).__name__
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, jax.core.Tracer):
        return f"an array that is being traced, of type {kind}"
    if isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        text = repr(value)
        return f"{text if len(text) <= 80 else text[:77] + '...'}, of type {kind}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{kind} of {value.dtype} and the shape {value.shape}"
    if isinstance(value, list | tuple | dict):
        return f"{kind} of length {len(value)}"
    return kind
