"""Words of messages: values, ranges, wrong types, and what is wanted instead."""

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jax.core import Tracer


def named(value: Any) -> str:
    """Describes a simple value with its type, an array with its type and shape."""
    # It describes any other value by its type alone, since a `repr` may be long.
    kind = type(value).__name__
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, Tracer):
        return f"an array that is being traced, of type {kind}"
    if isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        text = repr(value)
        return f"{text if len(text) <= 80 else text[:77] + '...'}, of type {kind}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{kind} of {value.dtype} and the shape {value.shape}"
    if isinstance(value, list | tuple | dict):
        return f"{kind} of length {len(value)}"
    return kind


def wrong_type(name: str, wanted: str, value: Any) -> TypeError:
    """Makes the error for an argument of another type than `wanted`, in words."""
    return TypeError(f"{name} must be {wanted}; got {named(value)}")


def range_text(
    at_least: float | None,
    above: float | None,
    at_most: float | None,
    below: float | None,
) -> str:
    """Describes a range, such as "lie in [0, 1)"; "" if there are no limits."""
    low = at_least if above is None else above
    high = at_most if below is None else below
    if low is not None and low == high:
        return f"be {low:g}"
    if low is not None and high is not None:
        left, right = "[" if above is None else "(", "]" if below is None else ")"
        return f"lie in {left}{low:g}, {high:g}{right}"
    if above == 0:
        return "be positive and finite"
    if low is not None:
        return f"be at least {low:g}" if above is None else f"be above {low:g}"
    if high is not None:
        return f"be at most {high:g}" if below is None else f"be below {high:g}"
    return ""


# The packages of networks' classes, and what makes a classifier of them. Those of
# transformers and timm are torch's too: a class's own package comes before its bases'.
_CLASSIFIERS = {
    "transformers": "from_transformers(model)",
    "timm": "from_timm(model)",
    "torch": "from_torch(module)",
    "keras": "from_keras(model)",
    "flax.nnx": "from_nnx(module)",
    "flax.linen": "from_linen(module, variables)",
    "equinox": "from_equinox(module)",
}


def classifier_wanted(given: Any) -> str:
    """Returns the words for a classifier, and how to make one of what was given."""
    wanted = "a jaxrob.Classifier"
    for kind in type(given).__mro__:
        for package, call in _CLASSIFIERS.items():
            if f"{kind.__module__}.".startswith(f"{package}."):
                return f"{wanted}: say jaxrob.Classifier.{call}"
    if callable(given) and not isinstance(given, type):
        return (
            f"{wanted}: say jaxrob.Classifier(fn, variables), of fn(variables, images)"
        )
    return wanted


def dataset_wanted(given: Any) -> str:
    """Returns the words for a data set, and how to make one of what was given."""
    wanted, kind = "a jaxrob.Dataset", type(given)
    if isinstance(given, np.ndarray | jax.Array):
        return f"{wanted}: say jaxrob.Dataset(images, labels)"
    if isinstance(given, str | bytes | dict | type):
        return wanted
    package = kind.__module__.partition(".")[0]
    if kind.__name__ == "Dataset":
        wanted = f"{wanted}, not one of {package}"
    if hasattr(kind, "__getitem__") and hasattr(kind, "__len__"):
        return f"{wanted}: say jaxrob.Dataset.from_items(items)"
    if isinstance(given, Iterable):
        return (
            f"{wanted}: say jaxrob.Dataset.from_batches(batches), or from_items(items) "
            "of single images"
        )
    return wanted
