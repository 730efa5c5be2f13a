"""How pictures are prepared when they are read: the arguments that readers share."""

from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import (
    check_ascending,
    check_choice,
    checked_flag,
    checked_integer,
    checked_number,
)
from jaxrob._arguments.extra import required
from jaxrob._arguments.naming import named, wrong_type
from jaxrob.data._decode import Fit

# Decoded pictures up to this size are kept in memory: 7,000 of 224 x 224.
MAX_BYTES = 1 << 30
_LARGEST_SIDE = 2**14


class Asked(NamedTuple):
    """The arguments of `image_folder` and `tar_shards` of these names, unchecked."""

    size: Any = None
    grey: Any = False
    resize: Any = None
    crop: Any = None
    interpolation: Any = "bicubic"
    orientation: Any = "exif"
    dct_scaling: Any = False
    unreadable: Any = "error"
    max_bytes: Any = MAX_BYTES
    background: Any = None
    value_range: Any = None
    slice_at: Any = None


class Preparation(NamedTuple):
    """How pictures are read."""

    fit: Fit  # How they are turned, resized and cropped
    grey: bool  # Whether they are reduced to one channel
    leaves_out: bool  # Whether unreadable pictures are left out, not rejected
    max_bytes: int  # Decoded pictures up to this size are kept in memory


def checked_preparation(asked: Asked) -> Preparation:
    """Checks the arguments of readers."""
    size, crop, resize = _checked_size(asked.size, "size"), asked.crop, asked.resize
    check_choice("orientation", asked.orientation, ("exif", "stored"))
    check_choice("interpolation", asked.interpolation, ("bicubic", "bilinear"))
    check_choice("unreadable", asked.unreadable, ("error", "leave_out"))
    if isinstance(crop, int | np.integer) and not isinstance(crop, bool):
        crop = (crop, crop)
    crop = _checked_size(crop, "crop")
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
    checked_flag("grey", asked.grey)
    checked_flag("dct_scaling", asked.dct_scaling)
    if asked.dct_scaling and (resize or size) is None:
        raise ValueError(
            "dct_scaling must be False without resize=... or size=..., which say how "
            "small a picture may be decoded; got True"
        )
    max_bytes = checked_integer("max_bytes", asked.max_bytes, at_least=1, at_most=2**62)
    fit = Fit(
        *(resize or size, crop, asked.interpolation),
        *(asked.orientation, asked.dct_scaling),
        _checked_colour(asked.background),
        _checked_range(asked.value_range),
        _checked_slice(asked.slice_at),
    )
    return Preparation(fit, asked.grey, asked.unreadable == "leave_out", max_bytes)


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


def _checked_size(size: Any, argument: str) -> tuple[int, int] | None:
    if size is None:
        return None
    if isinstance(size, np.ndarray) and size.ndim == 1:
        size = tuple(size.tolist())
    wanted = "None or (height, width) in pixels, each an integer of at least 1"
    is_pair = isinstance(size, tuple | list) and len(size) == 2
    if not is_pair or not all(isinstance(side, int | np.integer) for side in size):
        raise ValueError(f"{argument} must be {wanted}; got {named(size)}")
    height, width = (checked_integer(argument, side, at_least=1) for side in size)
    return height, width
