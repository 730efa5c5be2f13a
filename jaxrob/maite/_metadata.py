"""What MAITE's objects say about themselves."""

from collections.abc import Mapping
from typing import Any

from jaxrob._arguments.naming import named, wrong_type

# What an augmentation adds to the metadata of an image.
ALTERATION, LEVEL = "jaxrob_alteration", "jaxrob_level"


def checked_metadata(name: str, value: Any) -> Mapping[str, Any]:
    """Returns the metadata of one of MAITE's objects.

    Raises:
      TypeError: if it has none, or no id in it.
    """
    metadata = getattr(value, "metadata", None)
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("id"), str):
        raise wrong_type(name, "one of MAITE's, with metadata and a text as id", value)
    return metadata


def class_names_in(name: str, metadata: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Returns the names in `index2label`, in the order of the classes.

    Raises:
      ValueError: if they are not those of the classes 0, 1, 2, ...
    """
    names = metadata.get("index2label")
    if not names:
        return None
    if not isinstance(names, Mapping) or {*names} != {*range(len(names))}:
        raise ValueError(
            f"{name}: index2label must name the classes 0, 1, 2, ... without a gap; "
            f"got {named(names)}: pass class_names="
        )
    return tuple(str(names[index]) for index in range(len(names)))
