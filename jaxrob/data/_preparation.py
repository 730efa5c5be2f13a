"""How pictures are prepared when they are read: the arguments that readers share."""

from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import check_choice, checked_flag, checked_integer
from jaxrob._arguments.naming import named
from jaxrob.data._decode import Fit

# Decoded pictures up to this size are kept in memory: 7,000 of 224 x 224.
MAX_BYTES = 1 << 30
_LARGEST_SIDE = 2**14


class Preparation(NamedTuple):
    """How pictures are read.

    Attributes:
      fit: how they are turned, resized and cropped.
      grey: whether they are reduced to one channel.
      leaves_out: whether unreadable pictures are left out, not rejected.
      max_bytes: decoded pictures up to this size are kept in memory.
    """

    fit: Fit
    grey: bool
    leaves_out: bool
    max_bytes: int


def checked_preparation(
    size: Any,
    grey: Any,
    resize: Any,
    crop: Any,
    interpolation: Any,
    orientation: Any,
    dct_scaling: Any,
    unreadable: Any,
    max_bytes: Any,
) -> Preparation:
    """Checks the arguments of `image_folder` of the same names.

    Raises:
      TypeError: if a flag is not a bool.
      ValueError: if a value is not allowed, or two do not go together.
    """
    size = _checked_size(size, "size")
    check_choice("orientation", orientation, ("exif", "stored"))
    check_choice("interpolation", interpolation, ("bicubic", "bilinear"))
    check_choice("unreadable", unreadable, ("error", "leave_out"))
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
    checked_flag("grey", grey)
    checked_flag("dct_scaling", dct_scaling)
    if dct_scaling and (resize or size) is None:
        raise ValueError(
            "dct_scaling must be False without resize=... or size=..., which say how "
            "small a picture may be decoded; got True"
        )
    max_bytes = checked_integer("max_bytes", max_bytes, at_least=1, at_most=2**62)
    fit = Fit(resize or size, crop, interpolation, orientation, dct_scaling)
    return Preparation(fit, grey, unreadable == "leave_out", max_bytes)


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
