"""The accepted share of the range, by bands around the curve of few images."""

from typing import NamedTuple

import numpy as np
import scipy

from jaxrob.metrics._curvature import Envelope, envelope
from jaxrob.metrics._robustness import accepted_widths
from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._few.crossing import may_cross
from jaxrob.strategies._few.estimates import Estimates
from jaxrob.strategies._few.goal import Goal

# The critical value is larger, up to the second number, at levels whose standard error
# exceeds the first number times that which crossings need.
_AS_PLANNED, _FAR = 2.0, 3.3
# Crossings are interpolated in intervals no wider than this many half widths, or than
# this share of the range: in a wider interval a curve may bend both ways unseen.
_HALF_WIDTHS_WIDE, _SHARE_WIDE = 0.75, 0.02
# A curve runs along the threshold where all images leave more than this share of an
# interval open.
_ALONG = 0.5


class Bands(NamedTuple):
    """Bands around the estimates, and what they leave open: n levels, m intervals.

    Attributes:
      estimates: the estimates at the levels.
      multiples: float64 `[n]`, the critical values: half the bands' heights in standard
        errors.
      low: float64 `[m]`, the fewest accepted steps of each interval.
      high: float64 `[m]`, the most.
      straight: float64 `[m]`, the difference of these if the curve were straight
        between the levels.
      along: bool `[m]`, whether the interval is open even with all images, because the
        curve runs along the threshold there.
      z: the critical value of levels that are known as well as planned.
      joint_error_ratio: see `clusters.joint_error_ratio`.
    """

    estimates: Estimates
    critical_values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    straight: np.ndarray
    along: np.ndarray
    z: float
    joint_error_ratio: float = 1.0

    @property
    def open(self) -> np.ndarray:
        """The number of open steps in each interval, `[m]`."""
        return self.high - self.low

    @property
    def closable(self) -> np.ndarray:
        """The number of these that more images or levels may close, `[m]`."""
        return np.where(self.along, 0.0, self.open)

    def sides(self, least: float) -> np.ndarray:
        """Returns 1, 0 or -1 for each level: accepted, open, rejected."""
        off = self.estimates.means - least
        reach = self.critical_values * self.estimates.standard_errors
        return np.where(off >= reach, 1, np.where(off < -reach, -1, 0))


def quantile(error: float) -> float:
    """Returns the two-sided critical value of a normal variable for an error."""
    return float(-scipy.special.ndtri(error / 2))


class Shape(NamedTuple):
    """Bounds on the curve in m intervals between levels.

    Attributes:
      deviations: the largest deviations from lines, on the scale from 0 to 1.
      may_cross: bool `[m]`, whether it may cross the threshold.
    """

    deviations: Envelope
    may_cross: np.ndarray


def shape(goal: Goal, strategy: ASAP, found: Estimates) -> Shape:
    """Bounds the curve between the levels."""
    low, high = goal.bounds
    steps, values = found.steps.astype(float), (found.means - low) / (high - low)
    doubts = found.doubts / (high - low)
    deviations = envelope(steps, values, goal.num_images, standard_errors=doubts)
    return Shape(deviations, may_cross(goal, strategy, found))


def bands(
    goal: Goal, found: Estimates, between: Shape, wanted: float, z: float
) -> Bands:
    """Returns the bands, and what they leave open.

    Args:
      goal: the goal.
      found: the estimates at the levels.
      between: the bounds on the curve between them.
      wanted: the standard error of a level that is known as well as planned.
      z: the critical value there.
    """
    steps, means, standard_errors, changes, *_ = found
    most = max(_AS_PLANNED * wanted, 1e-12)
    critical_values = np.clip(z * standard_errors / most, z, max(_FAR, z))
    (lowest, highest), reach = goal.bounds, critical_values * standard_errors
    scale = highest - lowest
    values, least = (means - lowest) / scale, (goal.least - lowest) / scale
    # Exact means stay exact: they may lie on the threshold.
    below = np.where(reach > 0, np.clip(values - reach / scale, 0, 1), values)
    above = np.where(reach > 0, np.clip(values + reach / scale, 0, 1), values)
    places, width = steps.astype(float), np.diff(steps)
    deviations = between.deviations
    more = _excess_height(goal, found, critical_values, deviations.share, z)
    straight = deviations._replace(above=more, below=more)
    deviations = deviations._replace(
        above=deviations.above + more, below=deviations.below + more
    )
    low, high = accepted_widths(places, below, above, least, deviations)
    shortest, longest = accepted_widths(places, below, above, least, straight)
    widest = max(_HALF_WIDTHS_WIDE * goal.half_width, _SHARE_WIDE) * goal.parts
    crosses = np.diff(means >= goal.least)
    unseen = (width > widest) & (crosses | (longest > shortest))
    unseen |= ~crosses & between.may_cross
    low, high = np.where(unseen, 0.0, low), np.where(unseen, width, high)
    exact = (standard_errors[:-1] == 0) & (standard_errors[1:] == 0)
    # If no image changes between two levels, it is assumed that none changes and
    # changes back.
    still = exact & (changes == 0)
    low, high = np.where(still, shortest, low), np.where(still, longest, high)
    along = exact & (width <= widest) & (high - low > _ALONG * width)
    return Bands(found, critical_values, low, high, longest - shortest, along, z)


def _excess_height(
    goal: Goal,
    found: Estimates,
    critical_values: np.ndarray,
    share: np.ndarray,
    z: float,
) -> np.ndarray:
    """Returns the bands' excess height between levels over a straight line, `[s, m]`.

    The error of the line between two means is below the line between their errors
    unless these are perfectly correlated. But single images change between two levels:
    the curve wanders about its line, independently of the errors at the ends.
    """

    def between(values: np.ndarray) -> np.ndarray:
        return values[:-1] * (1 - share) + values[1:] * share

    standard_errors, scale = found.standard_errors, goal.bounds[1] - goal.bounds[0]
    apart = standard_errors[:-1] * standard_errors[1:] - found.covariances
    variance = np.square(between(standard_errors)) - 2 * share * (1 - share) * apart
    own = between(critical_values) * np.sqrt(np.maximum(variance, 0))
    wander = z * np.sqrt(found.changes * share * (1 - share) / goal.num_images)
    return (np.hypot(own, wander) - between(critical_values * standard_errors)) / scale
