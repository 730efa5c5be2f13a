"""Pictures embedded in the page."""

import base64
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from jaxrob._arguments.readable import readable
from jaxrob.reporting._png import png
from jaxrob.reporting._report.text import short, with_unit
from jaxrob.reporting._results import Picture

# The most base64 bytes of all pictures: every browser reads a page of 5 MB, and the
# rest takes less than 2 MB.
_MOST_BYTES = 2_500_000
# Sides in pixels, tried in turn, to which larger pictures are reduced until all fit.
_SIDES = (128, 96, 64, 48, 32, 24, 16)
_SHOWN = 72  # A picture's longer side on the page, in pixels.
_UNREDUCED = 10**9


class Shown(NamedTuple):
    """A picture with its words.

    Attributes:
      drawn: an `img` element; empty if the picture was not kept.
      level: the level with its unit.
      shown_as: why it is shown.
      words: the image's number and file, its class and the network's answer.
      wrong: whether the answer is wrong.
    """

    drawn: Markup
    level: str
    shown_as: str
    words: str
    wrong: bool


def side_of(pictures: Sequence[Picture]) -> int | None:
    """Returns the side in pixels at which all pictures fit; None if unreduced."""
    kept = {one.digest: one.image for one in pictures if one.image is not None}
    side = _SIDES[-1]
    for side in _SIDES:
        sizes = [len(png(image, side)) * 4 // 3 for image in kept.values()]
        if sum(sizes) <= _MOST_BYTES:
            break
    reduced = any(max(image.shape[:2]) > side for image in kept.values())
    return side if reduced else None


def shown(
    picture: Picture,
    names: Sequence[str],
    unit: str,
    side: int | None,
    score: str | None = None,
) -> Shown:
    """Prepares a picture for a report."""
    label = _class_of(picture.label, names)
    answer = _class_of(picture.predicted, names)
    undecided = picture.predicted == len(names)
    wrong = picture.label != picture.predicted and not undecided
    answer = "unknown" if undecided else answer
    image = f"image {picture.index}"
    if picture.file is not None:
        image += f" ({short(picture.file, 60)})"
    words = f"{image} of {label}"
    if picture.predicted is not None:
        words += f", answered {answer}"
    if score is not None:
        words = f"{image}, {score}"
    level = with_unit(picture.level, unit)
    drawn = Markup("")
    if picture.image is not None:
        drawn = _drawn(picture.image, side or _UNREDUCED, f"{words}, at {level}")
    wrong = wrong and picture.label is not None and picture.predicted is not None
    seen = picture.shown_as.replace("first failure", "first failure seen")
    return Shown(drawn, level, seen, words, wrong)


def _drawn(image: np.ndarray, side: int, words: str) -> Markup:
    data = base64.b64encode(png(image, side)).decode()
    height, width = image.shape[:2]
    scale = _SHOWN / max(height, width)
    # Small pictures show their pixels, because smoothing would look like blur.
    kind = "pixels" if max(height, width) < _SHOWN else "smooth"
    return Markup(
        '<img class="{}" width="{}" height="{}" alt="{}" '
        'src="data:image/png;base64,{}">'
    ).format(
        kind,
        max(1, round(width * scale)),
        max(1, round(height * scale)),
        readable(words),
        data,
    )


def _class_of(number: int | None, names: Sequence[str]) -> str:
    if number is None:
        return "class not known"
    return f"“{short(names[number], 40)}”" if number < len(names) else f"class {number}"
