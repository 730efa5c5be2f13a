"""Pictures embedded in the page."""

from collections.abc import Sequence

import numpy as np

from jaxrob.reporting._png import png
from jaxrob.reporting._report.parts import Shown
from jaxrob.reporting._report.text import short, with_unit
from jaxrob.reporting._results import Picture

# The most base64 bytes of all pictures: every browser reads a page of 5 MB, and the
# rest takes less than 2 MB.
_MOST_BYTES = 2_500_000
# Sides in pixels, tried in turn, to which larger pictures are reduced until all fit.
_SIDES = (128, 96, 64, 48, 32, 24, 16)
_SHOWN = 72  # A picture's longer side on the page, in pixels.


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
    drawn = None if picture.image is None else _drawn(picture.image, side)
    wrong = wrong and picture.label is not None and picture.predicted is not None
    seen = picture.shown_as.replace("first failure", "first failure seen")
    return Shown(drawn, level, seen, words, wrong)


def _drawn(image: np.ndarray, side: int | None) -> tuple[bytes, int, int, str]:
    height, width = image.shape[:2]
    scale = _SHOWN / max(height, width)
    # Small pictures show their pixels, because smoothing would look like blur.
    kind = "pixels" if scale > 1 else "smooth"
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return png(image, side), *size, kind


def _class_of(number: int | None, names: Sequence[str]) -> str:
    if number is None:
        return "class not known"
    return f"“{short(names[number], 40)}”" if number < len(names) else f"class {number}"
