"""Intervals of several results with simultaneous coverage."""

import math

from jaxrob import metrics
from jaxrob._assessment.assessment import Assessment
from jaxrob.metrics._measures import MeanScore, any_measure


def joint_interval(one: Assessment, number: int) -> tuple[float, float]:
    """Returns one of `number` intervals with simultaneous coverage, by Bonferroni."""
    # NaN for measures whose interval is a bootstrap's, because a thousand resamples are
    # too few for it, and from few images, whose number was chosen for one confidence
    # level.
    measure = any_measure(one.measure)
    exact = isinstance(measure, MeanScore) or (
        measure.is_proportion and measure.single_ratio(one.counts) is not None
    )
    if number == 1:
        return one.confidence_interval.low, one.confidence_interval.high
    if one.sampling is not None:
        return math.nan, math.nan
    if one.scores is not None or not exact or math.isnan(one.robustness):
        return math.nan, math.nan
    low, high = metrics.confidence_interval(
        one.levels,
        one.counts,
        one.measure,
        one.threshold,
        1 - (1 - one.confidence_level) / number,
        bounds=(one.lower, one.upper),
    )
    return min(low, one.confidence_interval[0]), max(high, one.confidence_interval[1])
