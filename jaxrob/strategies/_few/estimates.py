"""The mean score at each level, of which neighbours with more images tell more."""

import bisect
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxrob.strategies._few.goal import Level, Levels

# So many neighbours on either side may help a level, and the one with most images.
_BESIDE = 2
# Smaller factors are rounding.
_ROUNDING = 1e-12


class Told(NamedTuple):
    """How the means at n levels are told: by means over the first images.

    Attributes:
      numbers: int `[k]`, the numbers of images seen, ascending.
      factors: float64 `[k, n, n]`: how the second level's image scores count in the
        first level's mean, of the images from the one of these numbers to the next.
    """

    numbers: np.ndarray
    factors: np.ndarray


class Estimates(NamedTuple):
    """What is known of the mean score of all images at n levels.

    Attributes:
      steps: int `[n]`, ascending.
      means: float64 `[n]`.
      deviations: float64 `[n]`, their standard deviations.
      changes: float64 `[n - 1]`, the mean square of the change of an image's score from
        a level to the next.
      covariances: float64 `[n - 1]`, of a mean and the next.
      told: how they are told; None if that is left out.
    """

    steps: np.ndarray
    means: np.ndarray
    deviations: np.ndarray
    changes: np.ndarray
    covariances: np.ndarray
    told: Told | None = None

    @property
    def doubts(self) -> np.ndarray:
        """The deviations without what all levels err alike, `[n]`."""
        own = np.square(self.deviations)
        return np.sqrt(own - own.min())

    def of(self, steps: np.ndarray) -> "Estimates":
        """Those of some levels, `[k]` ascending; changes are unknown then, NaN."""
        places = np.searchsorted(self.steps, steps)
        unknown = np.full(max(len(places) - 1, 0), np.nan)
        means, deviations = self.means[places], self.deviations[places]
        return Estimates(self.steps[places], means, deviations, unknown, unknown)

    def at(self, step: int) -> tuple[float, float]:
        """The mean at a level and its standard deviation."""
        place = int(np.searchsorted(self.steps, step))
        return float(self.means[place]), float(self.deviations[place])


def estimates(
    levels: Levels, least_variance: float, num_images: int | None
) -> Estimates:
    """The means of all images at the levels seen.

    The same images answer at all levels, in one order. So the difference of two levels
    scatters far less than either, and a level of few images is told by that difference
    from one with more, or from the line between two, and by what these tell.

    Args:
      levels: what was seen.
      least_variance: of a level's scores. Few images that agree would tell too much
        without it.
      num_images: how many images there are in all; None if those seen are a sample of
        endlessly many.
    """
    steps = np.array(sorted(levels))
    ordered = [levels[step] for step in steps.tolist()]
    seen = np.array([one.seen for one in ordered])
    numbers = np.unique(seen)
    size = len(steps)
    factors = np.zeros((len(numbers), size, size))
    means, variances, covariances = np.zeros(size), np.zeros(size), np.zeros(size - 1)
    fewer = np.minimum(seen[:-1], seen[1:])
    most = np.flatnonzero(seen == numbers[-1]).tolist()
    # Those of most images help those of fewer.
    for j, (own, shared) in reversed([*enumerate(_moments(ordered, seen, numbers))]):
        limits = numbers[j:], least_variance, num_images
        here = np.flatnonzero(seen == numbers[j])
        more = np.flatnonzero(seen > numbers[j]).tolist()
        ways = [_helpers(steps, i, more, most) for i in here.tolist()]
        shares, at = np.concatenate(ways), np.repeat(here, [len(way) for way in ways])
        # Its own score, and the differences of what others' means count and their own.
        found = np.eye(size)[at] - shares + shares @ factors[j:]
        spread = _variances(found, shared, *limits)
        expected = own[at] + shares @ (means - own)
        ends = np.cumsum([len(way) for way in ways])
        best = np.array(
            [
                start + int(spread[start:end].argmin())
                for start, end in zip([0, *ends.tolist()], ends.tolist())
            ]
        )
        factors[j:, here] = found[:, best]
        means[here], variances[here] = expected[best], spread[best]
        pairs = np.flatnonzero(fewer == numbers[j])
        apart = factors[j:, pairs] - factors[j:, pairs + 1]
        covariances[pairs] = _variances(apart, shared, *limits)
    covariances = (variances[:-1] + variances[1:] - covariances) / 2
    deviations = np.sqrt(variances)
    covariances = np.minimum(covariances, deviations[:-1] * deviations[1:])
    changes = np.array([_change(*pair) for pair in zip(ordered, ordered[1:])])
    told = Told(numbers, factors)
    return Estimates(steps, means, deviations, changes, covariances, told)


def correlation(
    levels: Levels,
    now: Estimates,
    pair: tuple[int, int],
    least_variance: float,
    num_images: int,
) -> float:
    """The correlation of the errors of two levels' means.

    Args:
      levels: what was seen.
      now: the means of all images there, by `estimates`.
      pair: the two levels.
      least_variance: see `estimates`.
      num_images: likewise.

    Returns:
      The correlation; 1 of a level with itself, or if one of the means has no error.
    """
    first, second = (now.at(step)[1] for step in pair)
    if pair[0] == pair[1] or first * second == 0:
        return 1.0
    weights = np.isin(now.steps, pair[:1]) * 1.0 - np.isin(now.steps, pair[1:])
    apart = variance_of_sum([(levels, now, weights)], least_variance, num_images)
    found = (first**2 + second**2 - apart) / 2 / (first * second)
    return min(max(found, -1.0), 1.0)


def variance_of_sum(
    parts: Sequence[tuple[Levels, Estimates, np.ndarray]],
    least_variance: float,
    num_images: int,
) -> float:
    """The variance of a weighted sum of means, of one search or of several.

    Args:
      parts: for each search of the same images, what was seen, what it tells, and the
        weights of its means `[n]`, about 1.
      least_variance: see `estimates`.
      num_images: likewise.
    """
    all_told = [now.told for _, now, _ in parts if now.told]
    numbers = np.unique(np.concatenate([told.numbers for told in all_told]))
    columns, scores = [], []
    for (levels, now, weights), told in zip(parts, all_told):
        factors = weights @ told.factors
        place = np.searchsorted(told.numbers, numbers, side="right") - 1
        columns.append(np.where(place[:, None] >= 0, factors[place], 0.0))
        scores += [levels[step].scores for step in now.steps.tolist()]
    found = np.concatenate(columns, axis=1)
    uses = np.abs(found) > _ROUNDING
    first = int(uses.any(axis=1).argmax())
    used = np.flatnonzero(uses.any(axis=0))
    rows = np.stack([scores[i][: numbers[first]] for i in used.tolist()])
    limits = numbers[first:], least_variance, num_images
    shared = np.atleast_2d(np.cov(rows, bias=True))
    return float(_variances(found[first:, None, used], shared, *limits)[0])


def _moments(
    ordered: Sequence[Level], seen: np.ndarray, numbers: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The means `[n]` and covariances `[n, n]` of levels' scores of the first images.

    They are told for each number of images, of levels that have as many. Others' are
    those of fewer images.
    """
    sums, products = np.zeros(len(ordered)), np.zeros((len(ordered),) * 2)
    for start, end in zip([0, *numbers.tolist()], numbers.tolist()):
        there = np.flatnonzero(seen >= end)
        scores = np.stack([ordered[i].scores[start:end] for i in there.tolist()])
        sums[there] += scores.sum(axis=1)
        products[np.ix_(there, there)] += scores @ scores.T
        means = sums / end
        yield means, products / end - np.outer(means, means)


def _change(first: Level, second: Level) -> float:
    seen = min(first.seen, second.seen)
    return float(np.square(first.scores[:seen] - second.scores[:seen]).mean())


def _helpers(
    steps: np.ndarray, place: int, more: list[int], most: list[int]
) -> np.ndarray:
    """Shares of levels with more images, of none, of one or of two, `[ways, n]`."""

    def away(other: int) -> int:
        return abs(int(steps[other] - steps[place]))

    found: list[dict[int, float]] = [{}]
    if more:
        at = bisect.bisect(more, place)
        before, after = more[max(at - _BESIDE, 0) : at][::-1], more[at : at + _BESIDE]
        at = bisect.bisect(most, place)
        nearest = min(most[max(at - 1, 0) : at + 1], key=away)
        found += [{one: 1.0} for one in sorted({*before, *after, nearest}, key=away)]
        for a in before:
            for b in after:
                share = (steps[place] - steps[a]) / (steps[b] - steps[a])
                found.append({a: 1 - share, b: share})
    shares = np.zeros((len(found), len(steps)))
    for row, one in zip(shares, found):
        row[[*one]] = [*one.values()]
    return shares


def _variances(
    factors: np.ndarray,
    shared: np.ndarray,
    numbers: np.ndarray,
    least_variance: float,
    num_images: int | None,
) -> np.ndarray:
    """The variances of sums of means over the first images, of different numbers.

    The mean over n images errs like the sum of the independent steps by which the mean
    changes from n images to the next larger number, up to all there are.

    Args:
      factors: `[k, m, n]`, of m sums; see `Told`.
      shared: `[n, n]`, the covariances of the levels' scores.
      numbers: `[k]`, of images; of the first of them the covariances are.
      least_variance: see `estimates`.
      num_images: likewise.

    Returns:
      The variances, `[m]`.
    """
    left = 0.0 if num_images is None else 1 / num_images
    inverse = np.append(1 / numbers, left)
    each = ((factors @ shared) * factors).sum(axis=-1)
    is_change = np.abs(factors.sum(axis=-1)) < 0.5
    each = np.maximum(each, np.where(is_change, 1 / numbers[0], least_variance))
    return np.maximum(-np.diff(inverse), 0) @ each
