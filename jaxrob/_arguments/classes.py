"""Classes: names given as texts, and class outputs of whatever a network returns."""

import dataclasses
import difflib
import functools
from collections.abc import Callable, Mapping
from typing import Any

from jaxrob._arguments.messages import named

# The way out where labels are numbered in another order than the network's outputs.
TO_RENUMBER = (
    "Labels that are names are numbered by class_names=classifier.class_names; numbers "
    "are translated in the source (Hugging Face: align_labels_with_mapping)"
)
# More than one class has the name.
_SEVERAL = -1


def class_number(name: str, text: str, class_names: tuple[str, ...] | None) -> int:
    """Returns the number of the class that a label names."""
    if class_names is None:
        raise TypeError(
            f"{name} must be an integer, or the name of a class where class_names= is "
            "given, in the order of the network's outputs (classifier.class_names, if "
            f"it has them); got {named(text)}"
        )
    number = _numbers(class_names).get(text)
    if number == _SEVERAL:
        raise ValueError(
            f"{name} must be the name of one class; got {named(text)}, which stands "
            "several times in class_names: number the labels"
        )
    if number is None:
        raise ValueError(
            f"{name} must be one of the {len(class_names)} class_names"
            f"{_nearest(text, class_names)}; got {named(text)}"
        )
    return number


def numbered(labels: Any, class_names: tuple[str, ...] | None) -> Any:
    """Returns labels with numbers in place of texts; if there are none, as they are."""
    is_list = isinstance(labels, list | tuple)
    if not is_list and (labels.ndim != 1 or labels.dtype.kind not in "OTU"):
        return labels
    if not any(isinstance(one, str) for one in labels):
        return labels
    return [
        class_number(f"labels[{index}]", one, class_names)
        if isinstance(one, str)
        else one
        for index, one in enumerate(labels)
    ]


@functools.lru_cache(maxsize=16)
def _numbers(class_names: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, name in enumerate(class_names):
        found[name] = _SEVERAL if name in found else number
    return found


def _nearest(text: str, class_names: tuple[str, ...]) -> str:
    """Says which name is the nearest; if none is near, which there are."""
    plain = {name.casefold(): name for name in class_names}
    near = difflib.get_close_matches(text[:80].strip().casefold(), plain, n=1)
    if near:
        return f" (did you mean {plain[near[0]]!r}?)"
    more = ", ..." if len(class_names) > 10 else ""
    return f" ({', '.join(class_names[:10])}{more})"


#: For networks whose outputs cannot be classes.
IF_NO_CLASSES = (
    "A network that returns no classes, but masks or boxes for instance, needs "
    'outputs="any", and assess a score=, see jaxrob.Score'
)


def if_no_classes(shape: Any) -> str:
    """Returns the way out of outputs of a shape that is none of classes."""
    if len(shape) == 1:
        return (
            "One number for each image is a column, [B, 1], with "
            'outputs="logits" or "sigmoid" for that of class 1 of 2'
        )
    return IF_NO_CLASSES


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
