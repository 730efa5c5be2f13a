"""Oddities of images that other readers may read differently."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from jaxrob._arguments.warnings import warn

# The largest 12-bit and 14-bit values.
_MAX_12_BITS = 2**12 - 1
_MAX_14_BITS = 2**14 - 1


class Oddities(NamedTuple):
    """Unusual properties of an image.

    Attributes:
      orientation: the EXIF orientation, 1 to 8; None if it is damaged; 1, upright, also
        if the orientation is ignored.
      is_transparent: whether any pixel is transparent.
      brightest: the largest value of an image of 16 bits a channel; otherwise None.
    """

    orientation: int | None = 1
    is_transparent: bool = False
    brightest: int | None = None


def warn_of(path: str | os.PathLike[str], odd: Sequence[Oddities], number: int) -> None:
    """Warns of images that a network's own loader may have read differently.

    Args:
      path: the images' path.
      odd: the images' oddities; images without any may be left out.
      number: the number of all images.
    """

    def warn_if_any(count: int, what: str) -> None:
        if count:
            warn(f"{os.fspath(path)}: {count} of {number} pictures {what}")

    warn_if_any(
        sum(one.orientation not in (1, None) for one in odd),
        "are stored turned or mirrored, as their EXIF says (an orientation other than "
        "1), and were put upright, as viewers show them. That is right for a network "
        "that learnt upright pictures. One whose loader ignored EXIF, as torchvision's "
        'does, learnt them as they are stored: orientation="stored".',
    )
    warn_if_any(
        sum(one.orientation is None for one in odd),
        "have an orientation in their EXIF that is damaged or none of 1 to 8, and were "
        "taken as they are stored. Write it anew if they are not upright; "
        'orientation="stored" does not look at it.',
    )
    warn_if_any(
        sum(one.is_transparent for one in odd),
        "are transparent in places, and were laid on white. A network whose loader "
        "drops transparency, as torchvision's does, saw the colours below it there: "
        "store them as it saw them, without transparency.",
    )
    warn_if_any(
        _num_too_dark([one.brightest for one in odd if one.brightest]),
        "have 16 bits a channel, of which they use 14 at most, such as those of a "
        "camera of 12, and were read as if they used all: nearly black. Multiply their "
        "values so that the brightest is about 65,535, or store 8 bits.",
    )


def _num_too_dark(brightest: Sequence[int]) -> int:
    """Counts 16-bit images that use fewer bits.

    An image of 12 bits counts by itself. A night scene may use 14 bits, so images of 14
    bits count only if no image uses more.

    Args:
      brightest: the images' largest values, without images that are all black.
    """
    if max(brightest, default=0) <= _MAX_14_BITS:
        return len(brightest)
    return sum(one <= _MAX_12_BITS for one in brightest)
