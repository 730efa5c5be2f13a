"""Explains a report's technical terms."""

from collections.abc import Sequence

from jaxrob._assessment.assessment import Assessment
from jaxrob._score_curve import ScoreCurve
from jaxrob.metrics._measures import top_k
from jaxrob.reporting._level import level_of
from jaxrob.reporting._results import Results

_RULES = {
    "right": "each step between two levels counts as the level at its upper end is",
    "count": "the share of levels that are accepted",
    "linear": "straight lines join the levels; what counts is where they are accepted",
    "trapezoid": "straight lines join the levels' scores",
}


def glossary(results: Sequence[Results]) -> tuple[tuple[str, str], ...]:
    """The terms in a report of these results: pairs of a term and its meaning."""
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
        words.append(
            ("decided", 'the share of images whose answer is not "unknown"'),
        )
    return words
