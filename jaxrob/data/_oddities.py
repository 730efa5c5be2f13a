"""Oddities of images that other readers may read differently."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from jaxrob._arguments.texts import warn
from jaxrob.data._source import Shown

# The largest 12-bit and 14-bit values.
_MAX_12_BITS = 2**12 - 1
_MAX_14_BITS = 2**14 - 1
_NUM_NAMED = 3
# Right windows may cut most values off: that of soft tissue 32 to 76 % of three CTs of
# pydicom, whose mean is then 0.19 to 0.40. (0, 1) cuts off 99 %; (0, 4095) 49 to 73 %,
# with a mean of 0.014 to 0.019.
_MOST_OUTSIDE = 0.9
_NEARLY_ALIKE = 0.02


class Oddities(NamedTuple):
    """Unusual properties of an image."""

    # The EXIF orientation, 1 to 8; None if it is damaged; 1, upright, also if the
    # orientation is ignored
    orientation: int | None = 1
    # The largest value of an image of 16 bits a channel, if nothing says how many of
    # them it uses; otherwise None
    brightest: int | None = None
    is_cmyk: bool = False  # Whether its colours are those of a printer
    # Whether it has further frames or pages, which are not read
    is_animated: bool = False
    # How values of DICOM or NIfTI became [0, 1], odd only beside others
    shown: Shown | None = None


def first_names(names: Sequence[str]) -> str:
    """Returns the first three names as a text."""
    return ", ".join(names[:_NUM_NAMED]) + ", ..." * (len(names) > _NUM_NAMED)


def warn_of(
    path: str | os.PathLike[str], odd: Mapping[str, Oddities], number: int
) -> None:
    """Warns of images that a network's own loader may have read differently."""
    most = _most_if_too_dark([one.brightest for one in odd.values() if one.brightest])
    table: Sequence[tuple[Callable[[Oddities], bool], str]] = (
        (
            lambda one: one.orientation not in (1, None),
            "are stored turned or mirrored, as their EXIF says (an orientation other "
            "than 1), and were put upright, as viewers show them. That is right for a "
            "network that learnt upright pictures. One whose loader ignored EXIF, as "
            "torchvision's does, learnt them as they are stored: "
            'orientation="stored".',
        ),
        (
            lambda one: one.orientation is None,
            "have an orientation in their EXIF that is damaged or none of 1 to 8, and "
            "were taken as they are stored. Write it anew if they are not upright; "
            'orientation="stored" does not look at it.',
        ),
        (
            lambda one: 0 < (one.brightest or 0) <= most,
            "have 16 bits a channel, of which they use 14 at most, such as those of a "
            "camera of 12, and were read as if they used all: nearly black. Pass "
            "value_range=(0, 4095) for 12 bits, (0, 16383) for 14.",
        ),
        (
            lambda one: one.is_cmyk,
            "have the colours of a printer (CMYK), and were converted to RGB without "
            "their colour profile. Store them as RGB if the network learnt others.",
        ),
        (
            lambda one: one.is_animated,
            "are animations or have several pages, of which only the first was read.",
        ),
    )
    for is_one, what in table:
        if names := [name for name, one in odd.items() if is_one(one)]:
            which = f" Their names: {first_names(names)}."
            warn(f"{os.fspath(path)}: {len(names)} of {number} pictures {what}{which}")
    shown = {name: one.shown for name, one in odd.items() if one.shown is not None}
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
            f"({shown[others[0]].window}): the same value is brighter in some than in "
            "others. A range, such as value_range=(-160, 240) for a CT, takes the "
            "place of the windows in all of them."
        )


def _warn_of_rescaling(
    path: str | os.PathLike[str], shown: Mapping[str, Shown], number: int
) -> None:
    without = [name for name, one in shown.items() if not one.rescale]
    if 0 < len(without) < len(shown):
        first = next(name for name, one in shown.items() if one.rescale)
        warn(
            f"{os.fspath(path)}: {len(without)} of {number} pictures have no "
            f"RescaleSlope, such as {without[0]}, and others have one, such as {first} "
            f"({shown[first].rescale}): their values are not in the same unit. Read "
            "the two apart, each with a value_range= of its own."
        )


def _warn_of_values(path: str | os.PathLike[str], shown: Sequence[Shown]) -> None:
    """Warns of pictures in which the window or range leaves nearly nothing to see."""
    outside = sum(one.outside for one in shown) / len(shown)
    mean = sum(one.mean for one in shown) / len(shown)
    is_grey = _NEARLY_ALIKE < mean < 1 - _NEARLY_ALIKE
    if is_grey and outside <= _MOST_OUTSIDE:
        return
    look = "black and white alone" if is_grey else "black" if mean < 0.5 else "white"
    least, most = min(one.least for one in shown), max(one.most for one in shown)
    warn(
        f"{os.fspath(path)}: the pictures are nearly {look}, by {shown[0].window}: "
        f"{100 * outside:.0f} % of their values lie outside it, and the mean becomes "
        f"{mean:.3f} in [0, 1]. Values of {least:g} to {most:g} were found (after "
        "rescaling, where the file has one). Pass the range that the network saw, such "
        "as value_range=(-160, 240) for soft tissue in a CT."
    )


def _most_if_too_dark(brightest: Sequence[int]) -> int:
    """Returns the largest value of 16-bit images that count as too dark."""
    # An image of 12 bits counts by itself. A night scene may use 14 bits, so images of
    # 14 bits count only if no image uses more.
    is_any_bright = max(brightest, default=0) > _MAX_14_BITS
    return _MAX_12_BITS if is_any_bright else _MAX_14_BITS
