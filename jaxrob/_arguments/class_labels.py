"""Labels given as texts: the names of classes."""

import difflib
import functools
from typing import Any

from jaxrob._arguments.naming import named

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
