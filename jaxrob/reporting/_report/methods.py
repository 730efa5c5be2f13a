"""Names the statistical methods of a report."""

import contextlib
from collections.abc import Sequence

from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.paired import most_swaps
from jaxrob._score_curve import ScoreCurve
from jaxrob.metrics._bootstrap import num_rank_resamples, num_resamples
from jaxrob.metrics._measures import MeanScore, any_measure, in_words
from jaxrob.reporting._results import Results


def methods(
    results: Sequence[Results], comparisons: int
) -> tuple[tuple[str, str], ...]:
    """The methods in a report of these results: pairs of a number and a text."""
    ones = [each for one in results for each in one.assessments]
    every = [one for one in ones if one.sampling is None]
    found = [
        (f"band of {measure} at a level", _band(one))
        for measure, one in {in_words(one.measure): one for one in every}.items()
    ]
    if every:
        found.append(
            (
                "interval of a robustness",
                "the shares of the range where the lower and the upper ends of the "
                "bands are accepted; between two levels these may lie anywhere that "
                "the levels around allow, and jump at one of them",
            )
        )
    if len(every) < len(ones):
        found.append(
            (
                "few images",
                "on which side of the threshold a level is, by test martingales for "
                "sampling without replacement (Waudby-Smith and Ramdas, 2020), which "
                "hold however often one looks",
            )
        )
    if comparisons:
        level = max(one.confidence_level for one in ones)
        swaps = most_swaps(level)
        found += [
            (
                "interval of a difference",
                f"paired percentile bootstrap over images, {num_resamples(level):,} "
                "resamples, with two images added (Agresti and Min, 2005)",
            ),
            (
                "p-value of a difference",
                "randomisation test for pairs (Fisher): the two networks' answers are "
                f"swapped image by image, at most {swaps:,} times at random, so "
                f"that the least p-value there may be is about {1 / (swaps + 1):.1g}; "
                "adjusted by Holm's method (1979)",
            ),
        ]
    if len(results) > 1 and ones:
        level = min(one.confidence_level for one in ones)
        # Beyond that there are no ranks, as the first page says.
        with contextlib.suppress(ValueError):
            number = num_rank_resamples(level)
            found.append(
                (
                    "ranks",
                    "Mogstad, Romano, Shaikh and Wilhelm (2024), by a bootstrap over "
                    f"images, {number:,} resamples",
                )
            )
    return tuple(found)


def _band(one: Assessment) -> str:
    measure = any_measure(one.measure)
    if isinstance(measure, MeanScore) or isinstance(one.curve, ScoreCurve):
        return "Gaffke's interval for the mean of bounded scores (2005)"
    if measure.is_proportion and measure.single_ratio(one.curve.counts) is not None:
        return "Wilson's score interval (1927)"
    number = num_resamples(one.confidence_level)
    return f"percentile bootstrap over images (Efron, 1979), {number:,} resamples"
