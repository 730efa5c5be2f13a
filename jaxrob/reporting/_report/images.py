"""Pictures as data that stand in the page."""

import base64
import io
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from jaxrob._arguments.readable import readable
from jaxrob.reporting._report.text import short, with_unit
from jaxrob.reporting._results import Picture

# So much may all pictures of a report take, as base64: a page of 5 MB is still read by
# everything, and the rest of it takes less than 2 MB.
_MOST_BYTES = 2_500_000
# Sides in pixels to which larger pictures are reduced, until all take less.
_SIDES = (128, 96, 64, 48, 32, 24, 16)
_SHOWN = 72  # Pixels that a picture takes on the page.
_UNREDUCED = 10**9


class Shown(NamedTuple):
    """A picture with its words.

    Attributes:
      drawn: an `img` element; empty where the picture was not kept.
      level: the level with its unit.
      shown_as: why it is shown.
      words: the image's number, its class and what the network answered.
      wrong: whether the answer is wrong.
    """

    drawn: Markup
    level: str
    shown_as: str
    words: str
    wrong: bool


def side_of(pictures: Sequence[Picture]) -> int | None:
    """To how many pixels a side pictures are reduced, so that all fit; None if not."""
    kept = {one.digest: one.image for one in pictures if one.image is not None}
    side = _SIDES[-1]
    for side in _SIDES:
        sizes = [len(_png(image, side)) * 4 // 3 for image in kept.values()]
        if sum(sizes) <= _MOST_BYTES:
            break
    reduced = any(max(image.shape[:2]) > side for image in kept.values())
    return side if reduced else None


def shown(picture: Picture, names: Sequence[str], unit: str, side: int | None) -> Shown:
    """A picture as a report shows it.

    Args:
      picture: the picture.
      names: the classes' names.
      unit: the unit of its level.
      side: what `side_of` gave.
    """
    label = _class_of(picture.label, names)
    answer = _class_of(picture.predicted, names)
    undecided = picture.predicted == len(names)
    wrong = picture.label != picture.predicted and not undecided
    answer = "unknown" if undecided else answer
    words = f"image {picture.index} of {label}"
    if picture.predicted is not None:
        words += f", answered {answer}"
    level = with_unit(picture.level, unit)
    drawn = Markup("")
    if picture.image is not None:
        drawn = _drawn(picture.image, side or _UNREDUCED, f"{words}, at {level}")
    wrong = wrong and picture.label is not None and picture.predicted is not None
    seen = picture.shown_as.replace("first failure", "first failure seen")
    return Shown(drawn, level, seen, words, wrong)


def _drawn(image: np.ndarray, side: int, words: str) -> Markup:
    data = base64.b64encode(_png(image, side)).decode()
    height, width = image.shape[:2]
    scale = _SHOWN / max(height, width)
    # Small pictures show their pixels; smoothed they would look as if blurred.
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


def _png(image: np.ndarray, side: int) -> bytes:
    """The image as a PNG, reduced to so many pixels a side if it is larger."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            'pictures need Pillow: pip install "jaxrob[command]"'
        ) from error
    picture = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
    if max(picture.size) > side:
        picture.thumbnail((side, side), Image.Resampling.BOX)
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def _class_of(number: int | None, names: Sequence[str]) -> str:
    if number is None:
        return "class not known"
    return f"“{short(names[number], 40)}”" if number < len(names) else f"class {number}"
