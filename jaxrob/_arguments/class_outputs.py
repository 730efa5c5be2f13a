"""The class outputs among whatever a network returns."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jaxrob._arguments.naming import named

#: For networks whose outputs cannot be classes.
IF_NO_CLASSES = (
    "A network that returns no classes, but masks or boxes for instance, needs "
    'outputs="any", and assess a score=, see jaxrob.Score'
)
# The most arrays that an error lists.
_MOST_LISTED = 10


def class_outputs(what: str, returned: Any, number: int) -> Any:
    """Returns the class outputs among what a network returned, in any framework."""
    # That is an array itself; of a tuple, a list, a mapping or another object its array
    # called `logits`, or else its only array `[B, K]`.
    if _is_array(returned):
        return returned
    arrays = {at: one for at, one in _members(returned).items() if _is_array(one)}
    for at in ("['logits']", ".logits"):
        if at in arrays:
            return arrays[at]
    fitting = {at: one for at, one in arrays.items() if _fits(one, number)}
    if len(fitting) == 1:
        return next(iter(fitting.values()))
    shown = [f"{at} of the shape {tuple(one.shape)}" for at, one in arrays.items()]
    listed = ": ".join(["", ", ".join(shown[:_MOST_LISTED])]) if shown else ""
    example = f", for instance outputs{next(iter(fitting))}" if fitting else ""
    raise TypeError(
        f"{what} must return one array [B, K]; got {named(returned)}{listed}. "
        f"{len(fitting) or 'None'} of its arrays can be [B, K] of B = {number} images, "
        f"and none is called logits. Return the class outputs alone{example}; samples, "
        f"[S, B, K], as one array by jnp.stack(outputs). {IF_NO_CLASSES}"
    )


def with_arrays(returned: Any, array: Callable[[Any], Any]) -> Any:
    """Returns what a network returned as tuples, lists and dicts of NumPy arrays."""
    if _is_array(returned):
        return array(returned)
    if isinstance(returned, Mapping):
        return {key: with_arrays(one, array) for key, one in returned.items()}
    if isinstance(returned, tuple | list):
        parts = [with_arrays(one, array) for one in returned]
        return parts if isinstance(returned, list) else tuple(parts)
    return returned


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and not isinstance(value, type)


def _fits(array: Any, number: int) -> bool:
    return len(array.shape) == 2 and array.shape[0] == number


def _members(returned: Any) -> dict[str, Any]:
    """Returns the parts of an object by the code that reaches them."""
    if isinstance(returned, Mapping):
        return {f"[{key!r}]": one for key, one in returned.items()}
    if isinstance(returned, tuple | list):
        names = getattr(returned, "_fields", None)
        if names is not None:
            return {f".{name}": one for name, one in zip(names, returned)}
        return {f"[{place}]": one for place, one in enumerate(returned)}
    if dataclasses.is_dataclass(returned):
        fields = [field.name for field in dataclasses.fields(returned)]
        return {f".{name}": getattr(returned, name, None) for name in fields}
    return {f".{name}": one for name, one in getattr(returned, "__dict__", {}).items()}
