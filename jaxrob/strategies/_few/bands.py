"""How much of the range is accepted, by bands around the curve of few images."""

from typing import NamedTuple

import numpy as np
import scipy

from jaxrob.metrics._envelope import Envelope, envelope
from jaxrob.metrics._interval import accepted_widths
from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._few.crossing import may_cross
from jaxrob.strategies._few.estimates import Estimates
from jaxrob.strategies._few.goal import Goal

# Levels whose deviation is more than so many times that which crossings need count only
# from more standard deviations on, up to so many.
_AS_PLANNED, _FAR = 2.0, 3.3
# A line is followed towards a crossing in intervals no wider than so many half widths,
# or than this share of the range: in a wider one a curve may bend both ways unseen.
_HALF_WIDTHS_WIDE, _SHARE_WIDE = 0.75, 0.02
# A curve runs along the threshold where all images leave more than this share of an
# interval open.
_ALONG = 0.5


class Bands(NamedTuple):
    """What bands around the estimates leave open, in m intervals of n levels.

    Attributes:
      estimates: the levels' means.
      multiples: float64 `[n]`, half the bands' heights in standard deviations.
      low: float64 `[m]`, the fewest accepted steps of each interval.
      high: float64 `[m]`, the most.
      straight: float64 `[m]`, by how much these would differ, were the curve straight
        between the levels.
      along: bool `[m]`, whether all images leave the interval open, because the curve
        runs along the threshold there.
      z: half the height of bands of levels that are known as well as planned.
      together: see `clusters.share_together`.
    """

    estimates: Estimates
    multiples: np.ndarray
    low: np.ndarray
    high: np.ndarray
    straight: np.ndarray
    along: np.ndarray
    z: float
    together: float = 1.0

    @property
    def open(self) -> np.ndarray:
        """How many steps are open in each interval, `[m]`."""
        return self.high - self.low

    @property
    def closable(self) -> np.ndarray:
        """How many of these more images or levels may close, `[m]`."""
        return np.where(self.along, 0.0, self.open)

    def sides(self, least: float) -> np.ndarray:
        """1, 0 or -1 for each level: accepted, open, rejected."""
        off = self.estimates.means - least
        reach = self.multiples * self.estimates.deviations
        return np.where(off >= reach, 1, np.where(off < -reach, -1, 0))


def quantile(error: float) -> float:
    """Half the height of a band with an error, in standard deviations."""
    return float(-scipy.special.ndtri(error / 2))


class Shape(NamedTuple):
    """What a curve may do in m intervals between levels.

    Attributes:
      strays: how far it may be from lines, on the scale from 0 to 1.
      may_cross: bool `[m]`, whether it may cross the threshold.
    """

    strays: Envelope
    may_cross: np.ndarray


def shape(goal: Goal, strategy: ASAP, found: Estimates) -> Shape:
    """What the curve may do between the levels.

    Args:
      goal: the goal.
      strategy: tells where a curve may cross between levels of one side.
      found: the levels' means.
    """
    low, high = goal.bounds
    steps, values = found.steps.astype(float), (found.means - low) / (high - low)
    doubts = found.doubts / (high - low)
    strays = envelope(steps, values, goal.num_images, standard_errors=doubts)
    return Shape(strays, may_cross(goal, strategy, found))


def bands(
    goal: Goal, found: Estimates, between: Shape, wanted: float, z: float
) -> Bands:
    """The bands, and what they leave open.

    Args:
      goal: the goal.
      found: the levels' means.
      between: what the curve may do between them.
      wanted: the deviation of a level that is known as well as planned.
      z: half the bands' heights there, in standard deviations.
    """
    steps, means, deviations, changes, *_ = found
    most = max(_AS_PLANNED * wanted, 1e-12)
    multiples = np.clip(z * deviations / most, z, max(_FAR, z))
    (lowest, highest), reach = goal.bounds, multiples * deviations
    scale = highest - lowest
    values, least = (means - lowest) / scale, (goal.least - lowest) / scale
    # What is exact stays so: it may be on the threshold.
    below = np.where(reach > 0, np.clip(values - reach / scale, 0, 1), values)
    above = np.where(reach > 0, np.clip(values + reach / scale, 0, 1), values)
    places, width = steps.astype(float), np.diff(steps)
    strays = between.strays
    more = _nearer(goal, found, multiples, strays.share, z)
    straight = strays._replace(above=more, below=more)
    strays = strays._replace(above=strays.above + more, below=strays.below + more)
    low, high = accepted_widths(places, below, above, least, strays)
    shortest, longest = accepted_widths(places, below, above, least, straight)
    widest = max(_HALF_WIDTHS_WIDE * goal.half_width, _SHARE_WIDE) * goal.parts
    crosses = np.diff(means >= goal.least)
    unseen = (width > widest) & (crosses | (longest > shortest))
    unseen |= ~crosses & between.may_cross
    low, high = np.where(unseen, 0.0, low), np.where(unseen, width, high)
    exact = (deviations[:-1] == 0) & (deviations[1:] == 0)
    # Where no image changes between two levels, none is taken to change and come back.
    still = exact & (changes == 0)
    low, high = np.where(still, shortest, low), np.where(still, longest, high)
    along = exact & (width <= widest) & (high - low > _ALONG * width)
    return Bands(found, multiples, low, high, longest - shortest, along, z)


def _nearer(
    goal: Goal, found: Estimates, multiples: np.ndarray, share: np.ndarray, z: float
) -> np.ndarray:
    """By how much bands are higher between levels than lines between them, `[s, m]`.

    A line between two means errs less than the line between their errors, unless these
    are one. But single images turn right or wrong at levels of their own between two:
    the curve wanders about its line, which does not add to what the ends may be off.
    """

    def between(values: np.ndarray) -> np.ndarray:
        return values[:-1] * (1 - share) + values[1:] * share

    deviations, scale = found.deviations, goal.bounds[1] - goal.bounds[0]
    apart = deviations[:-1] * deviations[1:] - found.covariances
    variance = np.square(between(deviations)) - 2 * share * (1 - share) * apart
    own = between(multiples) * np.sqrt(np.maximum(variance, 0))
    wander = z * np.sqrt(found.changes * share * (1 - share) / goal.num_images)
    return (np.hypot(own, wander) - between(multiples * deviations)) / scale
