"""A report's words, methods, and what it says of many intervals at once."""

import contextlib
from collections.abc import Sequence

from jaxrob._arguments.counted import counted
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.paired import most_swaps
from jaxrob._score_curve import ScoreCurve
from jaxrob.metrics._bootstrap import num_resamples
from jaxrob.metrics._mean_score import MeanScore
from jaxrob.metrics._quality import any_measure, in_words, top_k
from jaxrob.metrics._ranks import num_rank_resamples
from jaxrob.reporting._results import Results
from jaxrob.reporting._words import level_of, percent_of

_RULES = {
    "right": "each step between two levels counts as the level at its upper end is",
    "count": "the share of levels that are accepted",
    "linear": "straight lines join the levels; what counts is where they are accepted",
    "trapezoid": "straight lines join the levels' scores",
}


def glossary(results: Sequence[Results]) -> tuple[tuple[str, str], ...]:
    ones = [each for one in results for each in one.assessments]
    words: list[tuple[str, str]] = []
    if ones:
        words += _of_curves(ones, len(results))
    if any(one.roma is not None for one in results):
        words.append(
            (
                "RoMA",
                "a method that estimates, for single images, how probable it is that a "
                "random perturbation changes the answer; its number is plr",
            )
        )
    return tuple(words)


def _of_curves(ones: Sequence[Assessment], networks: int) -> list[tuple[str, str]]:
    words = [
        ("level", "how strongly an image is altered, in the alteration's unit"),
        (
            "accepted, good enough",
            "of a level: there the measure is at least the threshold",
        ),
    ]
    if any(one.measure == "accuracy" for one in ones):
        words.append(("accuracy", "the share of images that are answered right"))
    words += [
        (
            one.measure,
            f"the mean of {one.curve.score} over the images: a number from 0 to 1, the "
            "best, that a function of the user's gives each image by the network's "
            "output and the image's label",
        )
        for one in {one.measure: one for one in ones}.values()
        if isinstance(one.curve, ScoreCurve)
    ]
    for k in sorted({top_k(one.measure) or 0 for one in ones} - {0}):
        words.append(
            (
                f"top-{k} accuracy",
                f"the share of images whose right class is among the {k} that the "
                "network holds most probable",
            )
        )
    words += [
        (
            f"{level_of(ones)} interval, {level_of(ones)} band",
            f"made so that, of many samples of images, {level_of(ones)} would give one "
            "that holds the value for all images of the kind",
        ),
        ("points", "percentage points: from 40 % to 45 % are 5 points"),
        (
            "digest",
            "a short text computed from a file, a network or all images: with any "
            "change of these it is another",
        ),
    ]
    if any("ASAP(" in one.strategy for one in ones):
        words.append(
            (
                "ASAP",
                "chooses levels in rounds: some across the range first, then more "
                "where the curve may cross the threshold; n is the number of steps "
                "into which the range is divided at the finest, concavity how far the "
                "curve may bend between levels (auto: estimated)",
            )
        )
    if networks > 1:
        words.append(
            (
                "p-value",
                "how probable at least such a difference would be if both were alike",
            )
        )
    words += [
        (f"rule “{rule}”", _RULES[rule])
        for rule in dict.fromkeys(one.rule for one in ones)
        if rule in _RULES
    ]
    words.append(
        (
            "seen by half",
            "the width, as a share of the range, of a dip or a peak beyond the "
            "threshold that is seen in half of the places where it may be. "
            "One as wide as the widest gap is always seen",
        )
    )
    words.append(
        (
            "jitter",
            "how much values of close levels jump, beside what the number of images "
            "explains (about 1). More than 12 draws a warning; not known where no "
            "three levels are close together",
        )
    )
    if any(one.curve.alpha is not None for one in ones):
        words.append(("decided", 'the share of images whose answer is not "unknown"'))
    return words


def methods(
    results: Sequence[Results], comparisons: int
) -> tuple[tuple[str, str], ...]:
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


def multiplicity(results: Sequence[Results], comparisons: int) -> list[str]:
    ones = [each for one in results for each in one.assessments]
    romas = [one.roma for one in results if one.roma is not None]
    number, level = len(ones), level_of(ones or romas)
    # The lowest of several confidence levels.
    error = 1 - min((one.confidence_level for one in ones or romas), default=0.95)
    words = [
        f"The report states {counted(number, 'interval')} of a robustness, one for "
        f"each network and alteration. Each has {level} on its own."
    ]
    if number > 1:
        words.append(
            f"Of {number} such intervals {error * number:.3g} miss on average, and the "
            "chance that at least one does is at most "
            f"{100 * min(1, error * number):.3g} %. Details therefore have a second "
            "interval, called adjusted: it is wider (a confidence of "
            f"{_complement(error / number)} % each, by Bonferroni's inequality), so "
            f"that all adjusted ones hold at once with {percent_of(1 - error)}."
        )
    of_classes = ""
    if not ones or any(one.curve.num_classes for one in ones):
        of_classes = (
            " Numbers of single classes have no interval, and the worst of many "
            "classes looks worse than it is by chance."
        )
    words.append(
        f"The bands in the figures are of {level} at each level alone; that a whole "
        f"curve lies within its band is less likely.{of_classes}"
    )
    if comparisons:
        words.append(
            f"{counted(comparisons, 'comparison')} of robustness, and of the mean over "
            f"the range: intervals of {level} each, not adjusted. P-values stand there "
            f"alone and adjusted for all {2 * comparisons} by Holm's method. What a "
            "comparison means is said by the adjusted ones: between networks that are "
            "alike, the chance that any of them is called different is at most "
            f"{percent_of(error)}."
        )
    if romas:
        inputs = sum(len(one.plr) for one in romas)
        words.append(
            f"RoMA states {counted(inputs, 'interval')} of single images, "
            f"{level_of(romas)} each, not adjusted; tests between its categories are "
            "adjusted by Holm's method."
        )
    words.append(
        f"Verdicts compare with the intervals of {level} each, as the requirements are "
        "written; whether they hold with the adjusted ones too is said beside them. "
        "That all lower ends reach what is required needs no adjustment: this is wrong "
        "only if the interval of one that falls short misses. That a certain one of "
        "several falls short does need it, because by chance the interval of one or "
        "the other lies too low. So a lower end is not met only where the adjusted "
        "interval lies too low as well; otherwise it is not shown."
    )
    return words


def _complement(error: float) -> str:
    return f"{100 - float(f'{100 * error:.3g}'):.10g}"
