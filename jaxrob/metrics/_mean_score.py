"""The mean of a user's scores as a quality measure."""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import checked_array

#: What the names of such measures begin with.
MEAN = "mean "


class ImageScores(NamedTuple):
    """The scores of images at each level, in place of `Counts`.

    Attributes:
      values: float64 `[L, N]` in [0, 1]; NaN for an image that was not looked at.
    """

    values: np.ndarray

    @property
    def inputs(self) -> np.ndarray:
        """int64 `[L, 1]`, the number of images looked at."""
        return np.count_nonzero(~np.isnan(self.values), axis=-1)[..., None]

    @property
    def num_classes(self) -> int:
        """0: there are no classes."""
        return 0

    def at(self, rows: Any) -> "ImageScores":
        """Returns the scores at these levels."""
        return ImageScores(np.asarray(self.values[rows]))


@dataclasses.dataclass(frozen=True)
class MeanScore:
    """The mean score of the images looked at, a `Measure` without classes.

    Attributes:
      name: its name as a measure, see `mean_named`.
    """

    name: str

    def __call__(self, scores: ImageScores) -> np.ndarray:
        """Computes the mean at each level, float64 `[L]`, rounded once."""
        values = checked_scores(scores).values
        rows = values if not np.isnan(values).any() else map(_seen, values)
        return np.array([math.fsum(row) / len(row) for row in rows])

    def per_class(self, scores: ImageScores) -> np.ndarray:
        """Returns `[L, 0]`: there are no classes."""
        return np.empty((len(checked_scores(scores).values), 0))

    def num_inputs(self, scores: ImageScores) -> np.ndarray:
        """Returns the number of images at each level, `[L]`."""
        return checked_scores(scores).inputs[:, 0]


def checked_scores(scores: Any) -> ImageScores:
    """Returns scores `[L, N]`, at least one at each level."""
    if not isinstance(scores, ImageScores):
        raise TypeError(
            "a mean score takes the counts of a curve of scores; got "
            f"{type(scores).__name__}"
        )
    checked_array(
        "scores", scores.values, "L, N", at_least=0, at_most=1, may_be_nan=True
    )
    if (scores.inputs == 0).any():
        raise ValueError("scores must hold at least one image at each level")
    return scores


def mean_named(score: str) -> str:
    """Returns the measure's name of a score: "mean " before it, but not twice."""
    # "mean " alone is no name of a measure.
    rest = score.removeprefix(MEAN)
    return score if rest != score and not rest[:1].isspace() else MEAN + score


@functools.cache
def mean_score(name: str) -> MeanScore:
    """Returns the measure of this name."""
    return MeanScore(name)


def is_mean_score(measure: Any) -> bool:
    """Whether a measure's name is that of a mean score."""
    return isinstance(measure, str) and measure.startswith(MEAN)


def _seen(row: np.ndarray) -> np.ndarray:
    return row[~np.isnan(row)]
