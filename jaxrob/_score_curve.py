"""A curve of scores: a user's score of every image at every level."""

import dataclasses
from typing import Annotated

import numpy as np

from jaxrob._arguments.checks import checked_array, checked_number
from jaxrob._codec import (
    WRITTEN,
    Array,
    Integer,
    Layout,
    Text,
    document,
    from_json,
    to_json,
)
from jaxrob._score import SCORE_NAME, check_score_name
from jaxrob.metrics._measures import ImageScores, mean_named, mean_score


@document("jaxrob score curve 1")
@dataclasses.dataclass(frozen=True, eq=False)
class ScoreCurve:
    """A score of N images at L levels of an alteration, see `jaxrob.Score`.

    `jaxrob.evaluate` returns one if it is given a score, and `Assessment.curve` is one.

    Attributes:
      levels: float64 `[L]`, in the order asked for.
      scores: float64 `[L, N]` in [0, 1], 1 is best; NaN for an image that was not
        looked at.
      score: the score's name.
    """

    levels: Annotated[np.ndarray, Array("L")]
    scores: Annotated[
        np.ndarray,
        Array("L, N", at_least=0, at_most=1, may_be_nan=True, is_packed=True),
        Layout(under="scored"),
    ] = dataclasses.field(repr=False)
    score: Annotated[str, Text("the name of a score", SCORE_NAME)]

    def __post_init__(self) -> None:
        """Checks the fields."""
        check_score_name("score", self.score)
        axes: dict[str, int] = {}
        checked_array("levels", self.levels, "L", axes=axes)
        scores = checked_array(
            "scores",
            self.scores,
            "L, N",
            at_least=0,
            at_most=1,
            may_be_nan=True,
            axes=axes,
        )
        if np.isnan(scores).all(axis=1).any():
            raise ValueError("scores must hold at least one image at each level")
        object.__setattr__(self, "scores", scores.astype(np.float64, copy=False))

    @property
    def num_images(
        self,
    ) -> Annotated[
        int, Integer(1), Layout(lengths=lambda number: {"N": number}), WRITTEN
    ]:
        """N."""
        return self.scores.shape[1]

    @property
    def num_classes(self) -> int:
        """0: there are no classes."""
        return 0

    @property
    def alpha(self) -> None:
        """None: no answer is "unknown"."""
        return None

    @property
    def measure(self) -> str:
        """The name of the measure, "mean IoU" for instance."""
        return mean_named(self.score)

    @property
    def values(self) -> np.ndarray:
        """float64 `[L]`, the mean score at each level."""
        return mean_score(self.measure)(self.counts)

    @property
    def counts(self) -> ImageScores:
        """The scores as the measure takes them."""
        return ImageScores(self.scores)

    def counts_for(self, measure: str) -> ImageScores:
        """The same as `counts`."""
        del measure
        return self.counts

    def first_level_below(self, score: float, identity: float) -> np.ndarray:
        """The smallest alteration at which each image's score is below a number.

        Args:
          score: the number.
          identity: the level at which nothing is altered.

        Returns:
          float64 `[N]`: the level nearest to the identity, the lower of two equally
          near ones; NaN if there is none.
        """
        score = checked_number("score", score)
        identity = checked_number("identity", identity)
        below = self.scores < score
        order = np.lexsort((self.levels, np.abs(self.levels - identity)))
        first = below[order].argmax(axis=0)
        return np.where(below.any(axis=0), self.levels[order][first], np.nan)

    def lowest(self, identity: float) -> tuple[np.ndarray, np.ndarray]:
        """Each image's lowest score, and the smallest alteration that has it.

        Args:
          identity: the level at which nothing is altered.

        Returns:
          Two arrays float64 `[N]`: the scores, and the levels, of two equally near to
          the identity the lower; NaN for images that were not looked at.
        """
        identity = checked_number("identity", identity)
        order = np.lexsort((self.levels, np.abs(self.levels - identity)))
        scores = self.scores[order]
        first = np.where(np.isnan(scores), np.inf, scores).argmin(axis=0)
        found = scores[first, np.arange(self.num_images)]
        levels = np.where(np.isnan(found), np.nan, self.levels[order][first])
        return found, levels

    def to_json(self) -> str:
        """The curve as strict JSON text; the scores are an array in base64 of zlib."""
        return to_json(self)

    @staticmethod
    def from_json(text: str | bytes) -> "ScoreCurve":
        """A curve from the text that `to_json` gave; errors as of `Curve.from_json`."""
        return from_json(text, ScoreCurve)
