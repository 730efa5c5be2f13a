"""The single images' scores in a report."""

import numpy as np

from jaxrob._arguments.counted import counted
from jaxrob._assessment.assessment import Assessment
from jaxrob._score_curve import ScoreCurve
from jaxrob.reporting._report.text import percent, short, unaltered_text, with_unit
from jaxrob.reporting._results import Picture
from jaxrob.reporting._unaltered import is_at_once

_MOST_IMAGES = 10


def low_scores(one: Assessment, curve: ScoreCurve) -> str:
    """Counts the images below the threshold, and lists those with the lowest scores."""
    return f"{_below(one, curve)} {_lowest(one, curve)}"


def score_of(one: Assessment, picture: Picture) -> str | None:
    """Returns the score's name and value at a picture; None if it is of classes."""
    curve = one.curve
    if not isinstance(curve, ScoreCurve):
        return None
    at = np.flatnonzero(curve.levels == picture.level)
    # The strategy may have skipped this level, or this image there.
    value = curve.scores[at[0], picture.index] if len(at) else np.nan
    return f"{short(curve.score, 40)} {percent(float(value))}"


def _below(one: Assessment, curve: ScoreCurve) -> str:
    """Counts the images below the threshold unaltered, and at some level."""
    least = percent(one.threshold, 4).replace(".0000", "")
    if one.sampling is not None:
        return (
            "Not every image was looked at at every level, so how many are ever below "
            f"{least} is not known."
        )
    first = curve.first_level_below(one.threshold, one.identity)
    below, at_once = ~np.isnan(first), is_at_once(one, first)
    return (
        f"The threshold, of the mean, is {least}. Of {counted(len(first), 'image')}, "
        f"{at_once.sum():,} are below it {unaltered_text(one)}, "
        f"{(below & ~at_once).sum():,} others at some level, and "
        f"{(~below).sum():,} at none that was looked at."
    )


def _lowest(one: Assessment, curve: ScoreCurve) -> str:
    """Lists the images with the lowest scores, at the level nearest to the identity."""
    scores, levels = curve.lowest(one.identity)
    order = np.argsort(scores, kind="stable")  # NaN comes last.
    said = [
        f"image {place}, {percent(float(scores[place]))} at "
        f"{with_unit(float(levels[place]), one.unit)}"
        for place in order[:_MOST_IMAGES].tolist()
        if not np.isnan(scores[place])
    ]
    return f"The lowest {short(curve.score, 40)}: {'; '.join(said)}."
