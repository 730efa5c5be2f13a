"""What the provenance says about how pictures were read: values that JSON can hold."""

from collections.abc import Sequence
from typing import Any

from jaxrob.data._preparation import Preparation
from jaxrob.data._source import Shown

_DIFFER = "not the same in all files"
_FIRST = "; of the first file, as the others are read when needed"


def as_prepared(preparation: Preparation) -> dict[str, Any]:
    """Returns the arguments of a reader that change pixels, by name."""
    fit = preparation.fit
    is_shorter = isinstance(fit.resize, int)
    asked = {
        "size": None if is_shorter else fit.resize,
        "resize": fit.resize if is_shorter else None,
        "crop": fit.crop,
        "interpolation": fit.interpolation if fit.resize else None,
        "orientation": None if fit.orientation == "exif" else fit.orientation,
        "grey": preparation.grey or None,
        "background": fit.background,
        "value_range": fit.value_range,
        "slice_at": fit.slice_at,
    }
    found = {
        name: [*value] if isinstance(value, tuple) else value
        for name, value in asked.items()
        if value is not None
    }
    return {"preparation": found} if found else {}


def as_found(
    preparation: Preparation, shown: Sequence[Shown | None], is_all: bool
) -> dict[str, Any]:
    """Returns how files of DICOM or NIfTI say that their values are shown."""
    known = [one for one in shown if one is not None]
    if not known:
        return {}
    said = {"rescale": {one.rescale or "none" for one in known}}
    if preparation.fit.value_range is None:
        said["window"] = {one.window for one in known}
    return {
        name: _DIFFER if len(texts) > 1 else texts.pop() + _FIRST * (not is_all)
        for name, texts in said.items()
    }
