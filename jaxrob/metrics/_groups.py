"""Intervals where images belong together: patches of a patient, frames of a scene."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import scipy

from jaxrob.metrics._counts import (
    Counts,
    Groups,
    ImageScores,
    Worth,
    count_pairs,
    counts_of,
    quotient,
)
from jaxrob.metrics._measures import MeanScore, Measure, measures

# A variance below is of rounding.
_NONE = 1e-24


def grouped_bands(
    counts: Counts | ImageScores, measure: Measure | MeanScore, confidence_level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's intervals of what the groups are worth, with Student's t for normal."""
    worth, values = worth_of(counts, measure), cast(Any, measure)(counts)
    inputs = worth.inputs / stretch(worth.freedom, confidence_level) ** 2
    inputs = np.where(np.isnan(values), 0, inputs)
    z = scipy.special.ndtri((1 + confidence_level) / 2)
    return score_interval(np.nan_to_num(values) * inputs, inputs, z)


def score_interval(
    successes: np.ndarray, totals: np.ndarray, z: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval, of numbers that need not be whole."""
    s, n = successes, totals
    some = np.where(n == 0, 1, n)
    centre = s + z**2 / 2
    half = z * np.sqrt(s * (n - s) / some + z**2 / 4)
    low, high = (centre - half) / (some + z**2), (centre + half) / (some + z**2)
    low, high = np.where(s == 0, 0, low), np.where(s == n, 1, high)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def worth_of(counts: Counts | ImageScores, measure: Measure | MeanScore) -> Worth:
    """Returns what the groups are worth, by how much they differ from one another."""
    if isinstance(counts.groups, Worth):
        # Kept for one measure; of others nothing is known.
        inputs = counts.groups.inputs * (counts.groups.measure == measure.name)
        return counts.groups._replace(inputs=inputs)
    # The error is linearized, a sum over groups. Its variance has the freedom of a chi
    # square of this fourth moment, less one, without which 95 % held 92 % (simulated).
    rows = []
    for value, errors, shares, groups in _linearized(counts, measure):
        sizes = np.bincount(groups, shares)
        squares = np.bincount(groups, errors)[sizes > 0] ** 2
        sizes, number, total = sizes[sizes > 0], len(squares), float(squares.sum())
        if total <= _NONE:
            # Whether groups fail as one is unknown: they may.
            rows.append((effective_groups(groups, shares), 0.0))
            continue
        excess = float((squares**2).sum()) - total**2 / number
        freedom = 2 * total**2 / max(excess, 1e-300) - 1
        # Few large groups may fail less by chance: half as if sizes told nothing.
        alone = float((errors**2).sum())
        variance = max(total * number / max(number - 1, 1), alone)
        alike = ((squares / sizes).sum() - number * alone) * (sizes**2).sum() + alone
        variance = max(variance, (variance + alike) / 2)
        rows.append((value * (1 - value) / variance, np.clip(freedom, 1, number - 1)))
    return Worth(measure.name, *np.array(rows).reshape(-1, 2).T)


def worth_of_some(scores: np.ndarray, groups: np.ndarray, z: float) -> float:
    """Returns what share of the first images' number they are worth in an interval."""
    measure, of_image = MeanScore("mean score"), groups[: len(scores)]
    grouped, alone = (
        worth_of(ImageScores(scores[None], one), measure)
        for one in (of_image, np.arange(len(scores)))
    )
    times = stretch(grouped.freedom, 2 * scipy.special.ndtr(z) - 1)
    return float((grouped.inputs / alone.inputs / times**2)[0])


def stretch(freedom: np.ndarray | float, confidence_level: float) -> Any:
    """Returns by how much the normal quantile is too small; 1 of no freedom."""
    tail = (1 + confidence_level) / 2
    t = scipy.special.stdtrit(np.maximum(freedom, 1.0), tail)
    return np.where(np.equal(freedom, 0), 1.0, t / scipy.special.ndtri(tail))


def effective_groups(groups: np.ndarray, shares: np.ndarray | None = None) -> float:
    """Returns 1 over the sum of the groups' squared shares of the images."""
    sizes = np.bincount(groups, shares)
    return float(sizes.sum() ** 2 / (sizes**2).sum()) if sizes.any() else 0.0


def _linearized(
    counts: Counts | ImageScores, measure: Measure | MeanScore
) -> Iterator[tuple[float, np.ndarray, np.ndarray, np.ndarray]]:
    """Yields value, images' errors, their shares and groups, at each level."""
    if isinstance(measure, MeanScore):
        assert isinstance(counts, ImageScores) and counts.groups is not None
        for row in counts.values:
            seen = ~np.isnan(row)
            scores, share = row[seen], np.full(seen.sum(), 1 / seen.sum())
            value = float(scores.mean())
            yield value, (scores - value) * share, share, counts.groups[seen]
        return
    assert isinstance(counts, Counts) and isinstance(counts.groups, Groups)
    of_image, labels, answers, rank = counts.groups
    if measure.ranks and rank is not None:
        # Within the first ranks the right class is as good as given.
        within = (rank < measure.ranks) & (answers < counts.num_classes)
        answers, measure = np.where(within, labels, answers), measures["accuracy"]
        counts = counts_of(count_pairs(answers, labels, counts.num_classes))
    for level, value in enumerate(measure(counts)):
        errors, shares = _of_answers(counts.at(level), measure, labels, answers[level])
        yield value, errors, shares, of_image


def _of_answers(
    counts: Counts, measure: Measure, labels: np.ndarray, answers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    ratio, num_classes = measure.ratio(counts), counts.num_classes
    numerators, denominators = ratio.numerator, ratio.denominator
    if not measure.of_classes:
        numerators, denominators = (
            np.full(num_classes, one.sum()) for one in (numerators, denominators)
        )
    weights = quotient(np.ones(num_classes), denominators, 0.0)
    if measure.of_classes:
        is_one = np.arange(num_classes) == 1 if num_classes == 2 else denominators > 0
        weights = weights * is_one / max(is_one.sum(), 1)
    values = quotient(numerators, denominators, 0.0)
    # The ratio is linear in the counts: what one more input adds to it.
    more = np.concatenate([np.zeros((1, 4), int), np.eye(4, dtype=int)]) + 1
    steps = measure.ratio(Counts(*more.T[..., None]))
    added, below = (np.diff(one[[0, 1, 0, 2, 0, 3, 0, 4], 0])[::2] for one in steps[:2])
    is_decided = answers < num_classes
    given = np.where(is_decided, answers, 0)

    def of_images(correct, decided, mistaken, unknown) -> np.ndarray:
        right = decided[labels] + (answers == labels) * correct[labels]
        return np.where(is_decided, right + mistaken[given], unknown[labels])

    errors = of_images(*weights * (added[:, None] - below[:, None] * values))
    return errors, of_images(*weights * below[:, None])
