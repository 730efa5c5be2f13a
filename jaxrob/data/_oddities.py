"""What a reader of pictures does that another reader may not."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from jaxrob._arguments.warnings import warn

# The largest values of 12 and of 14 bits.
_OF_12_BITS = 2**12 - 1
_OF_14_BITS = 2**14 - 1


class Oddities(NamedTuple):
    """What a picture has that most have not.

    Attributes:
      orientation: how it is stored, 1 to 8 in EXIF's numbers; None if what says it
        cannot be read. 1, upright, also of a picture that is read as it is stored.
      is_transparent: whether it is, in places.
      brightest: the largest value of a picture of 16 bits a channel; None of others.
    """

    orientation: int | None = 1
    is_transparent: bool = False
    brightest: int | None = None


def warn_of(path: str | os.PathLike[str], odd: Sequence[Oddities], number: int) -> None:
    """Warns of pictures that a network's own loader may have read otherwise.

    Args:
      path: where the pictures are.
      odd: what they have; those that have nothing odd may be left out.
      number: how many pictures there are.
    """

    def tell(count: int, what: str) -> None:
        if count:
            warn(f"{os.fspath(path)}: {count} of {number} pictures {what}")

    tell(
        sum(one.orientation not in (1, None) for one in odd),
        "are stored turned or mirrored, as their EXIF says (an orientation other than "
        "1), and were put upright, as viewers show them. That is right for a network "
        "that learnt upright pictures. One whose loader ignored EXIF, as torchvision's "
        'does, learnt them as they are stored: orientation="stored".',
    )
    tell(
        sum(one.orientation is None for one in odd),
        "have an orientation in their EXIF that is damaged or none of 1 to 8, and were "
        "taken as they are stored. Write it anew if they are not upright; "
        'orientation="stored" does not look at it.',
    )
    tell(
        sum(one.is_transparent for one in odd),
        "are transparent in places, and were laid on white. A network whose loader "
        "drops transparency, as torchvision's does, saw the colours below it there: "
        "store them as it saw them, without transparency.",
    )
    tell(
        _too_dark([one.brightest for one in odd if one.brightest]),
        "have 16 bits a channel, of which they use 14 at most, such as those of a "
        "camera of 12, and were read as if they used all: nearly black. Multiply their "
        "values so that the brightest is about 65,535, or store 8 bits.",
    )


def _too_dark(brightest: Sequence[int]) -> int:
    """How many pictures of 16 bits use fewer, of those that are not all black.

    One that uses 12 is too dark by itself. One taken at night may use 14, but not all.
    """
    if max(brightest, default=0) <= _OF_14_BITS:
        return len(brightest)
    return sum(one <= _OF_12_BITS for one in brightest)
