"""How pictures are prepared, and what is odd about them."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxrob._arguments.checks import (
    check_choice,
    checked_bounds,
    checked_flag,
    checked_integer,
    checked_integers,
    checked_size,
)
from jaxrob._arguments.messages import wrong_type
from jaxrob._arguments.texts import required, warn
from jaxrob.data._source import Shown

# Decoded pictures up to this size are kept in memory: 7,000 of 224 x 224.
MAX_BYTES = 1 << 30
_LARGEST_SIDE = 2**14


class Fit(NamedTuple):
    """Turning, resizing and cropping of every image when it is read."""

    resize: tuple[int, int] | int | None = None  # One number for the shorter side
    crop: tuple[int, int] | None = None
    interpolation: str = "bicubic"
    orientation: str = "exif"
    dct_scaling: bool = False
    background: tuple[int, int, int] | None = None
    value_range: tuple[float, float] | None = None
    slice_at: tuple[int, int] | None = None


class Preparation(NamedTuple):
    fit: Fit  # How they are turned, resized and cropped
    grey: bool  # Whether they are reduced to one channel
    leaves_out: bool  # Whether unreadable pictures are left out, not rejected
    max_bytes: int  # Decoded pictures up to this size are kept in memory


class Oddities(NamedTuple):
    orientation: int | None = 1  # As EXIF says, 1 to 8; None if it is damaged
    brightest: int | None = None  # See `Samples`
    is_cmyk: bool = False
    is_animated: bool = False  # Whether it has further frames or pages
    is_enlarged: bool = False  # Whether resizing made it larger
    shown: Shown | None = None  # Odd only beside others


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
    size, crop = checked_size(size), checked_size(crop, "crop")
    check_choice("orientation", orientation, ("exif", "stored"))
    check_choice("interpolation", interpolation, ("bicubic", "bilinear"))
    check_choice("unreadable", unreadable, ("error", "leave_out"))
    if resize is not None:
        resize = checked_integer("resize", resize, at_least=1, at_most=_LARGEST_SIDE)
        if size is not None:
            raise ValueError(f"resize must be None beside size; got {resize}")
        if crop is None:
            raise ValueError("crop must be given with resize; got None")
    checked_flag("grey", grey)
    checked_flag("dct_scaling", dct_scaling)
    if dct_scaling and (resize or size) is None:
        raise ValueError("dct_scaling needs resize=, or size=; got neither")
    if value_range is not None:
        value_range = checked_bounds("value_range", value_range)
    if slice_at is not None:
        slice_at = checked_integers("slice_at", slice_at, at_least=0)
        if len(slice_at) != 2 or slice_at[0] > 2:
            raise ValueError(f"slice_at must be (axis below 3, index); got {slice_at}")
    fit = Fit(
        resize=resize or size,
        crop=crop,
        interpolation=interpolation,
        orientation=orientation,
        dct_scaling=dct_scaling,
        background=_checked_colour(background),
        value_range=value_range,
        slice_at=slice_at,
    )
    max_bytes = checked_integer("max_bytes", max_bytes, at_least=1, at_most=2**62)
    return Preparation(fit, grey, unreadable == "leave_out", max_bytes)


def _checked_colour(background: Any) -> tuple[int, int, int] | None:
    if background is None:
        return None
    if not isinstance(background, str):
        raise wrong_type("background", 'a colour such as "white" or None', background)
    try:
        colour = required("PIL.ImageColor", "a background", "experiments").getrgb(
            background
        )
    except ValueError:
        colour = ()
    if len(colour) != 3:
        raise ValueError(
            f'background must be an opaque colour such as "#ff8800"; got {background!r}'
        )
    return colour


_DIFFER = "not the same in all files"
_FIRST = "; of the first file, as the others are read when needed"


def as_read(
    preparation: Preparation, odd: Iterable[Oddities], is_all: bool
) -> dict[str, Any]:
    """Returns the arguments that change pixels, and how files say values are shown."""
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
    changing = {
        name: [*value] if isinstance(value, tuple) else value
        for name, value in asked.items()
        if value is not None
    }
    reading: dict[str, Any] = {"preparation": changing} if changing else {}
    shown = [image.shown for image in odd if image.shown is not None]
    said = {"rescale": {view.rescale or "none" for view in shown}}
    if fit.value_range is None:
        said["window"] = {view.window for view in shown}
    for name, texts in said.items():
        if texts:
            is_one = len(texts) == 1
            reading[name] = texts.pop() + _FIRST * (not is_all) if is_one else _DIFFER
    return reading


_MAX_12_BITS = 2**12 - 1
_MAX_14_BITS = 2**14 - 1
_NUM_NAMED = 3
# Of three CTs of pydicom soft tissue cuts 32 to 76 % off, with a mean of 0.19 to 0.40,
# (0, 1) 99 %, and (0, 4095) 49 to 73 %, with a mean of 0.014 to 0.019.
_MOST_OUTSIDE = 0.9
_NEARLY_ALIKE = 0.02


def first_names(names: Sequence[str]) -> str:
    return ", ".join(names[:_NUM_NAMED]) + ", ..." * (len(names) > _NUM_NAMED)


def warn_of(
    path: str | os.PathLike[str], odd: Mapping[str, Oddities], number: int
) -> None:
    """Warns of images that a network's own loader may have read differently."""
    # Images of 14 bits, as a night scene may be, are too dark only if none uses more.
    brightest = max((image.brightest or 0 for image in odd.values()), default=0)
    most = _MAX_12_BITS if brightest > _MAX_14_BITS else _MAX_14_BITS
    table: Sequence[tuple[Callable[[Oddities], bool], str]] = (
        (
            lambda image: image.orientation not in (1, None),
            "are stored turned or mirrored, as their EXIF says (an orientation other "
            "than 1), and were put upright. A network whose loader ignored EXIF, as "
            'torchvision\'s does, learnt them as stored: orientation="stored".',
        ),
        (
            lambda image: image.orientation is None,
            "have a damaged orientation in their EXIF, and were taken as stored. Mend "
            'it if they are not upright; orientation="stored" does not look at it.',
        ),
        (
            lambda image: 0 < (image.brightest or 0) <= most,
            "have 16 bits a channel, of which they use 14 at most: nearly black. Pass "
            "value_range=(0, 4095) for 12 bits, (0, 16383) for 14.",
        ),
        (
            lambda image: image.is_cmyk,
            "are CMYK, and were converted to RGB without their colour profile. Store "
            "them as RGB if the network learnt others.",
        ),
        (
            lambda image: image.is_animated,
            "are animations or have several pages, of which only the first was read.",
        ),
        (
            lambda image: image.is_enlarged,
            "have fewer pixels than size= or resize= asks for, and were enlarged, "
            "which blurs them. Leave them out if the network learnt sharp ones.",
        ),
    )
    for is_odd, what in table:
        if names := [name for name, image in odd.items() if is_odd(image)]:
            which = f"{what} Their names: {first_names(names)}."
            warn(f"{os.fspath(path)}: {len(names)} of {number} pictures {which}")
    shown = {name: image.shown for name, image in odd.items() if image.shown}
    if shown:
        _warn_of_windows(path, shown, number)
        _warn_of_rescaling(path, shown, number)
        _warn_of_values(path, list(shown.values()))


def _warn_of_windows(
    path: str | os.PathLike[str], shown: Mapping[str, Shown], number: int
) -> None:
    first = next(iter(shown))
    others = [name for name in shown if shown[name].window != shown[first].window]
    if others:
        warn(
            f"{os.fspath(path)}: {len(others)} of {number} pictures are shown by "
            f"another window than {first} ({shown[first].window}), such as {others[0]} "
            f"({shown[others[0]].window}). A range, such as value_range=(-160, 240), "
            "takes the place of the windows."
        )


def _warn_of_rescaling(
    path: str | os.PathLike[str], shown: Mapping[str, Shown], number: int
) -> None:
    without = [name for name, view in shown.items() if not view.rescale]
    if 0 < len(without) < len(shown):
        first = next(name for name, view in shown.items() if view.rescale)
        warn(
            f"{os.fspath(path)}: {len(without)} of {number} pictures have no "
            f"RescaleSlope, such as {without[0]}, and others have one, such as {first} "
            f"({shown[first].rescale}). Read the two apart, each with its value_range=."
        )


def _warn_of_values(path: str | os.PathLike[str], shown: Sequence[Shown]) -> None:
    """Warns of pictures in which the window or range leaves nearly nothing to see."""
    outside = sum(view.outside for view in shown) / len(shown)
    mean = sum(view.mean for view in shown) / len(shown)
    is_grey = _NEARLY_ALIKE < mean < 1 - _NEARLY_ALIKE
    if is_grey and outside <= _MOST_OUTSIDE:
        return
    look = "black and white alone" if is_grey else "black" if mean < 0.5 else "white"
    least, most = min(view.least for view in shown), max(view.most for view in shown)
    warn(
        f"{os.fspath(path)}: the pictures are nearly {look}, by {shown[0].window}: "
        f"{100 * outside:.0f} % of their values, {least:g} to {most:g} after any "
        f"rescaling, lie outside it, and the mean becomes {mean:.3f}. Pass the range "
        "that the network saw, such as value_range=(-160, 240) for a CT."
    )
