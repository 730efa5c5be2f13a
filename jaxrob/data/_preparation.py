"""How pictures are prepared when they are read, and what provenance says of it."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np

from jaxrob._arguments.checks import (
    check_ascending,
    check_choice,
    checked_flag,
    checked_integer,
    checked_number,
    checked_size,
)
from jaxrob._arguments.messages import named, wrong_type
from jaxrob._arguments.texts import required
from jaxrob.data._decode import Fit
from jaxrob.data._source import Shown

# Decoded pictures up to this size are kept in memory: 7,000 of 224 x 224.
MAX_BYTES = 1 << 30
_LARGEST_SIDE = 2**14


class Asked(TypedDict, total=False):
    """How pictures are read: arguments that readers share; see `image_folder`."""

    size: int | tuple[int, int] | None
    grey: bool
    resize: int | None
    crop: int | tuple[int, int] | None
    interpolation: str
    orientation: str
    dct_scaling: bool
    unreadable: str
    max_bytes: int
    background: str | None
    value_range: tuple[float, float] | None
    slice_at: tuple[int, int] | None


class Preparation(NamedTuple):
    """How pictures are read."""

    fit: Fit  # How they are turned, resized and cropped
    grey: bool  # Whether they are reduced to one channel
    leaves_out: bool  # Whether unreadable pictures are left out, not rejected
    max_bytes: int  # Decoded pictures up to this size are kept in memory


def checked_preparation(
    *,
    size: Any = None,
    grey: Any = False,
    resize: Any = None,
    crop: Any = None,
    interpolation: Any = "bicubic",
    orientation: Any = "exif",
    dct_scaling: Any = False,
    unreadable: Any = "error",
    max_bytes: Any = MAX_BYTES,
    background: Any = None,
    value_range: Any = None,
    slice_at: Any = None,
) -> Preparation:
    """Checks the arguments of readers."""
    size, crop = checked_size(size), checked_size(crop, "crop")
    check_choice("orientation", orientation, ("exif", "stored"))
    check_choice("interpolation", interpolation, ("bicubic", "bilinear"))
    check_choice("unreadable", unreadable, ("error", "leave_out"))
    if resize is not None:
        resize = checked_integer("resize", resize, at_least=1, at_most=_LARGEST_SIDE)
        if size is not None:
            raise ValueError(
                f"resize must be None beside size, which says the same; got {resize}"
            )
        if crop is None:
            raise ValueError(
                "crop must be given with resize, which leaves the longer sides as they "
                "come; got None"
            )
    checked_flag("grey", grey)
    checked_flag("dct_scaling", dct_scaling)
    if dct_scaling and (resize or size) is None:
        raise ValueError(
            "dct_scaling must be False without resize=... or size=..., which say how "
            "small a picture may be decoded; got True"
        )
    fit = Fit(
        resize=resize or size,
        crop=crop,
        interpolation=interpolation,
        orientation=orientation,
        dct_scaling=dct_scaling,
        background=_checked_colour(background),
        value_range=_checked_range(value_range),
        slice_at=_checked_slice(slice_at),
    )
    max_bytes = checked_integer("max_bytes", max_bytes, at_least=1, at_most=2**62)
    return Preparation(fit, grey, unreadable == "leave_out", max_bytes)


def _checked_colour(background: Any) -> tuple[int, int, int] | None:
    if background is None:
        return None
    if not isinstance(background, str):
        raise wrong_type("background", 'a colour such as "white" or None', background)
    try:
        found = required("PIL.ImageColor", "a background", "experiments").getrgb(
            background
        )
    except ValueError:
        found = ()
    if len(found) != 3:
        raise ValueError(
            'background must be an opaque colour such as "white" or "#ff8800"; got '
            f"{background!r}"
        )
    return found


def _checked_range(value_range: Any) -> tuple[float, float] | None:
    if value_range is None:
        return None
    if isinstance(value_range, np.ndarray) and value_range.ndim == 1:
        value_range = tuple(value_range.tolist())
    if not isinstance(value_range, tuple | list) or len(value_range) != 2:
        raise ValueError(
            "value_range must be None or (low, high), the stored values that become 0 "
            f"and 1; got {named(value_range)}"
        )
    low, high = (checked_number("value_range", one) for one in value_range)
    check_ascending("value_range[0]", low, "value_range[1]", high)
    return low, high


def _checked_slice(slice_at: Any) -> tuple[int, int] | None:
    if slice_at is None:
        return None
    if not isinstance(slice_at, tuple | list) or len(slice_at) != 2:
        raise ValueError(
            "slice_at must be None or (axis, index), the picture in a volume; got "
            f"{named(slice_at)}"
        )
    axis = checked_integer("slice_at: axis", slice_at[0], at_least=0, at_most=2)
    return axis, checked_integer("slice_at: index", slice_at[1], at_least=0)


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
