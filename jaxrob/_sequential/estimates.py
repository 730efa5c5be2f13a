"""The mean score at each level, of which neighbours with more images tell more."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from jaxrob._sequential.task import Level, Levels

# So many neighbours on either side may help a level, and the one with most images.
_BESIDE = 2


class Estimates(NamedTuple):
    """What is known of the mean score of all images at n levels.

    Attributes:
      steps: int `[n]`, ascending.
      means: float64 `[n]`.
      deviations: float64 `[n]`, their standard deviations.
      changes: float64 `[n - 1]`, the mean square of the change of an image's score from
        a level to the next.
      covariances: float64 `[n - 1]`, of a mean and the next.
      told: how each is told, by step.
    """

    steps: np.ndarray
    means: np.ndarray
    deviations: np.ndarray
    changes: np.ndarray
    covariances: np.ndarray
    told: Mapping[int, "Told"] = MappingProxyType({})

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


class Told(NamedTuple):
    """How a level's mean is told.

    Attributes:
      mean: the estimate.
      variance: of the estimate.
      terms: what it is a sum of: for numbers of images, in which levels' scores, with
        which factors, the mean over so many images is taken.
    """

    mean: float
    variance: float
    terms: dict[int, dict[int, float]]


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
    left = 0.0 if num_images is None else 1 / num_images
    found: dict[int, Told] = {}
    for step in sorted(levels, key=lambda step: -levels[step].seen):
        here = levels[step]
        alone = {here.seen: {step: 1.0}}
        best = Told(here.mean, _variance(levels, alone, least_variance, left), alone)
        more = [s for s in found if levels[s].seen > here.seen]
        for shares in _helpers(step, more, levels):
            told = _by_help(step, shares, levels, found, (least_variance, left))
            best = min(best, told, key=lambda one: one.variance)
        found[step] = best
    steps = np.array(sorted(found))
    both = np.array([found[step][:2] for step in steps.tolist()])
    pairs = list(zip(steps[:-1].tolist(), steps[1:].tolist()))
    changes = [_change(levels[first], levels[second]) for first, second in pairs]
    limits = least_variance, left
    covariances = [_covariance(levels, found[a], found[b], limits) for a, b in pairs]
    means, deviations = both[:, 0], np.sqrt(both[:, 1])
    between = np.array(changes), np.array(covariances)
    return Estimates(steps, means, deviations, *between, found)


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
      The correlation; 1 if one of the means has no error.
    """
    first, second = (now.told[step] for step in pair)
    deviation = math.sqrt(first.variance * second.variance)
    if deviation == 0:
        return 1.0
    found = _covariance(levels, first, second, (least_variance, 1 / num_images))
    return max(found / deviation, -1.0)


def variance_of_sum(
    levels: Levels,
    parts: Sequence[tuple[Told, float]],
    least_variance: float,
    num_images: int,
) -> float:
    """The variance of a sum of means, each with its factor.

    Args:
      levels: what was seen.
      parts: how the means are told, see `Estimates`, and their factors, about 1.
      least_variance: see `estimates`.
      num_images: likewise.
    """
    return _variance(levels, _sum(parts), least_variance, 1 / num_images)


def _covariance(
    levels: Levels, first: Told, second: Told, limits: tuple[float, float]
) -> float:
    """The covariance of two means, by the variance of their difference."""
    apart = _variance(levels, _sum([(first, 1.0), (second, -1.0)]), *limits)
    most = math.sqrt(first.variance * second.variance)
    return min((first.variance + second.variance - apart) / 2, most)


def _sum(parts: Sequence[tuple[Told, float]]) -> dict[int, dict[int, float]]:
    """The terms of a sum of means; see `Told`."""
    terms: dict[int, dict[int, float]] = {}
    for one, share in parts:
        for images, factors in one.terms.items():
            for level, factor in factors.items():
                _add(terms.setdefault(images, {}), level, share * factor)
    return terms


def _change(first: Level, second: Level) -> float:
    seen = min(first.seen, second.seen)
    return float(np.square(first.scores[:seen] - second.scores[:seen]).mean())


def _helpers(step: int, more: list[int], levels: Levels) -> list[dict[int, float]]:
    """Levels with more images, alone or in pairs, with their shares."""
    if not more:
        return []
    before = sorted((s for s in more if s < step), reverse=True)[:_BESIDE]
    after = sorted(s for s in more if s > step)[:_BESIDE]
    most = max(more, key=lambda s: (levels[s].seen, -abs(s - step)))
    found = [{s: 1.0} for s in {*before, *after, most}]
    for a in before:
        for b in after:
            share = (step - a) / (b - a)
            found.append({a: 1 - share, b: share})
    return found


def _by_help(
    step: int,
    shares: dict[int, float],
    levels: Levels,
    found: dict[int, Told],
    limits: tuple[float, float],
) -> Told:
    """A level's mean by its difference from others, and by what is known of these."""
    seen = levels[step].seen
    mean = levels[step].mean
    terms: dict[int, dict[int, float]] = {seen: {step: 1.0}}
    for other, share in shares.items():
        mean += share * (found[other].mean - float(levels[other].scores[:seen].mean()))
        _add(terms.setdefault(seen, {}), other, -share)
        for images, factors in found[other].terms.items():
            for level, factor in factors.items():
                _add(terms.setdefault(images, {}), level, share * factor)
    return Told(mean, _variance(levels, terms, *limits), terms)


def _add(factors: dict[int, float], level: int, factor: float) -> None:
    factors[level] = factors.get(level, 0.0) + factor


def _variance(
    levels: Levels,
    terms: dict[int, dict[int, float]],
    least_variance: float,
    left: float,
) -> float:
    """The variance of a sum of means over the first images, of different numbers.

    The mean over n images errs like the sum of the independent steps by which the mean
    changes from n images to the next larger number, up to all there are.

    Args:
      levels: what was seen.
      terms: the sum; see `Told`.
      least_variance: see `estimates`.
      left: one over the number of all images.
    """
    numbers = sorted(terms)
    fewest = numbers[0]
    factors: dict[int, float] = {}
    total = 0.0
    for number, following in zip(numbers, [*numbers[1:], None]):
        for level, factor in terms[number].items():
            _add(factors, level, factor)
        step = 1 / number - (1 / following if following else left)
        if step <= 0:
            continue
        used = {level: one for level, one in factors.items() if abs(one) > 1e-12}
        scores = sum(one * levels[level].scores[:fewest] for level, one in used.items())
        is_change = abs(sum(used.values())) < 0.5
        least = 1 / fewest if is_change else least_variance
        total += max(float(np.var(scores)), least) * step
    return total
