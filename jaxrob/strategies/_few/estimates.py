"""The goal of a search by few images, its levels, and the estimates of their means.

Positions are steps of a grid of levels, integers in 0 ... parts.
"""

import bisect
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._curvature import envelope
from jaxrob.metrics._groups import score_interval, worth_of_some
from jaxrob.metrics._robustness import accepted_widths
from jaxrob.strategies._strategy import History, Task

ACCEPTED, OPEN, REJECTED = 1, 0, -1

# Mean evidence beyond the threshold: the prior does not know how far the mean is.
_PRIOR = 2.0


class Goal(NamedTuple):
    parts: int  # the number of parts of the grid
    least: float  # the lowest mean score of all images that is accepted
    bounds: tuple[float, float]  # the lowest and the highest score of an image
    num_images: int  # N, the size of the data set
    block: int  # images are looked at in multiples of this many
    error: float  # the probability of a wrong answer, in all
    # Of the range, half of what may stay open; 0: every level and crossing is decided.
    half_width: float
    curtail: bool = False

    @property
    def by_bands(self) -> bool:
        """Whether bands around the curve, not decided levels, bound the answer."""
        return self.half_width > 0 and not self.curtail

    @property
    def spread(self) -> "Spread":
        low, high = self.bounds
        least_variance = max((high - self.least) * (self.least - low), 1e-3)
        return Spread(least_variance, self.num_images)

    @property
    def deviation(self) -> float:
        """The approximate standard deviation of an image's score near the threshold."""
        low, high = self.bounds
        return math.sqrt(max((high - self.least) * (self.least - low), 0.05))

    def blocks(self, images: float) -> int:
        return min(math.ceil(images / self.block) * self.block, self.num_images)

    def request(self, step: int, images: float) -> "Wanted":
        return Wanted(step, self.blocks(images))

    def to_decide(self, distance: np.ndarray, needed_evidence: float) -> np.ndarray:
        """Returns about how many images decide levels this far from the threshold."""
        if self.curtail:
            low, high = self.bounds
            margin = np.maximum(np.abs(distance), 0) / (high - low)
            return self.num_images * np.clip(1 - margin, 0, 1)
        distance = np.maximum(np.abs(distance), 1e-9)
        plain = 2 * self.deviation**2 * (needed_evidence + _PRIOR) / np.square(distance)
        return self.of_finite(plain)

    def of_finite(self, plain: Any) -> Any:
        """Converts a sample size for an infinite population to one for the data set."""
        return plain / (1 + plain / self.num_images)


class Spread(NamedTuple):
    """How far means of the first images spread about the mean of all."""

    # The lower bound of the variance of an image's score at a level; None for none.
    least_variance: float | None = None
    num_images: int | None = None  # None for the population

    def variances(
        self, factors: np.ndarray, shared: np.ndarray, numbers: np.ndarray
    ) -> np.ndarray:
        """Returns the variances of linear combinations of means of first images."""
        # The error is a sum of independent increments, from each number of images on.
        left = 0.0 if self.num_images is None else 1 / self.num_images
        inverse = np.append(1 / numbers, left)
        each = ((factors @ shared) * factors).sum(axis=-1)
        is_change = np.abs(factors.sum(axis=-1)) < 0.5
        least = 1 / numbers[0]
        own = least if self.least_variance is None else self.least_variance
        each = np.maximum(each, np.where(is_change, least, own))
        return np.maximum(-np.diff(inverse), 0) @ each


class Level(NamedTuple):
    scores: np.ndarray  # float64 `[n]`, of the images seen, in their order
    side: int  # `ACCEPTED`, `OPEN` or `REJECTED`, by all images
    needed_evidence: float  # the evidence at which the level counts as decided

    @property
    def seen(self) -> int:
        return len(self.scores)

    @property
    def mean(self) -> float:
        return float(self.scores.mean())


Levels = dict[int, Level]


class Wanted(NamedTuple):
    """A step of the grid, and the total number of images that must be seen there."""

    step: int
    seen: int


class Gap(NamedTuple):
    start: int  # the decided level at its start
    end: int  # the decided level at its end
    crosses: bool  # whether these two are on different sides
    # An open level inside: of most images between two sides, else the cheapest.
    middle: int | None

    @property
    def width(self) -> int:
        return self.end - self.start


class Accepted(NamedTuple):
    low: float  # the lower bound
    high: float  # the upper bound
    guess: float  # the estimate

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


# Control variates: neighbours on either side, and the nearest with most images.
_BESIDE = 2
# Smaller factors are rounding errors.
_ROUNDING = 1e-12


class Estimates(NamedTuple):
    steps: np.ndarray  # int `[n]`, ascending
    means: np.ndarray  # float64 `[n]`
    standard_errors: np.ndarray  # float64 `[n]`
    # Float64 `[n - 1]`, mean squared change of a score to the next level.
    changes: np.ndarray
    covariances: np.ndarray  # float64 `[n - 1]`, of the errors of neighbouring means
    # Means as combinations of means of images: `[k]` distinct numbers seen, `[k, n, n]`
    # the factor `[j, a, b]` of b's scores in a's mean, from `numbers[j]` on.
    numbers: np.ndarray
    factors: np.ndarray

    @property
    def doubts(self) -> np.ndarray:
        """The standard errors without the part common to all levels, `[n]`."""
        own = np.square(self.standard_errors)
        return np.sqrt(own - own.min())

    def at(self, step: int) -> tuple[float, float]:
        place = int(np.searchsorted(self.steps, step))
        return float(self.means[place]), float(self.standard_errors[place])


def estimates(levels: Levels, spread: Spread) -> Estimates:
    # The same images in order: differences vary far less than means. A level of few
    # is estimated by its difference from one of more, or a line: control variates.
    steps = np.array(sorted(levels))
    ordered = [levels[step] for step in steps.tolist()]
    seen = np.array([one.seen for one in ordered])
    numbers = np.unique(seen)
    size = len(steps)
    factors = np.zeros((len(numbers), size, size))
    means, variances, covariances = np.zeros(size), np.zeros(size), np.zeros(size - 1)
    fewer = np.minimum(seen[:-1], seen[1:])
    most = np.flatnonzero(seen == numbers[-1]).tolist()
    # Levels with more images come first: they are control variates of the others.
    for j, (own, shared) in reversed([*enumerate(_moments(ordered, seen, numbers))]):
        here = np.flatnonzero(seen == numbers[j])
        more = np.flatnonzero(seen > numbers[j]).tolist()
        ways = [_control_variates(steps, i, more, most) for i in here.tolist()]
        shares, at = np.concatenate(ways), np.repeat(here, [len(way) for way in ways])
        # Own scores, less the variates' on these images, plus their estimates.
        found = np.eye(size)[at] - shares + shares @ factors[j:]
        errors = spread.variances(found, shared, numbers[j:])
        expected = own[at] + shares @ (means - own)
        ends = np.cumsum([len(way) for way in ways])
        pairs = zip([0, *ends.tolist()], ends.tolist())
        best = np.array([start + errors[start:end].argmin() for start, end in pairs])
        factors[j:, here] = found[:, best]
        means[here], variances[here] = expected[best], errors[best]
        pairs = np.flatnonzero(fewer == numbers[j])
        apart = factors[j:, pairs] - factors[j:, pairs + 1]
        covariances[pairs] = spread.variances(apart, shared, numbers[j:])
    covariances = (variances[:-1] + variances[1:] - covariances) / 2
    standard_errors = np.sqrt(variances)
    covariances = np.minimum(covariances, standard_errors[:-1] * standard_errors[1:])
    changes = [
        float(np.square(first.scores[:number] - second.scores[:number]).mean())
        for first, second, number in zip(ordered, ordered[1:], fewer.tolist())
    ]
    return Estimates(
        steps, means, standard_errors, np.array(changes), covariances, numbers, factors
    )


def correlation(
    levels: Levels, now: Estimates, pair: tuple[int, int], spread: Spread
) -> float:
    first, second = (now.at(step)[1] for step in pair)
    if pair[0] == pair[1] or first * second == 0:
        return 1.0
    weights = np.isin(now.steps, pair[:1]) * 1.0 - np.isin(now.steps, pair[1:])
    apart = variance_of_sum([(levels, now, weights)], spread)
    found = (first**2 + second**2 - apart) / 2 / (first * second)
    return min(max(found, -1.0), 1.0)


def variance_of_sum(
    parts: Sequence[tuple[Levels, Estimates, np.ndarray]], spread: Spread
) -> float:
    numbers = np.unique(np.concatenate([now.numbers for _, now, _ in parts]))
    columns, scores = [], []
    for levels, now, weights in parts:
        factors = weights @ now.factors
        place = np.searchsorted(now.numbers, numbers, side="right") - 1
        columns.append(np.where(place[:, None] >= 0, factors[place], 0.0))
        scores += [levels[step].scores for step in now.steps.tolist()]
    found = np.concatenate(columns, axis=1)
    uses = np.abs(found) > _ROUNDING
    first = int(uses.any(axis=1).argmax())
    used = np.flatnonzero(uses.any(axis=0))
    rows = np.stack([scores[i][: numbers[first]] for i in used.tolist()])
    shared = np.atleast_2d(np.cov(rows, bias=True))
    used_factors = found[first:, None, used]
    return float(spread.variances(used_factors, shared, numbers[first:])[0])


def _moments(
    ordered: Sequence[Level], seen: np.ndarray, numbers: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    # For each number of images, right for levels with as many.
    sums, products = np.zeros(len(ordered)), np.zeros((len(ordered),) * 2)
    for start, end in zip([0, *numbers.tolist()], numbers.tolist()):
        there = np.flatnonzero(seen >= end)
        scores = np.stack([ordered[i].scores[start:end] for i in there.tolist()])
        sums[there] += scores.sum(axis=1)
        products[np.ix_(there, there)] += scores @ scores.T
        means = sums / end
        yield means, products / end - np.outer(means, means)


def _control_variates(
    steps: np.ndarray, place: int, more: list[int], most: list[int]
) -> np.ndarray:
    """Returns candidate weights of control variates, `[candidates, n]`."""

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


# The grid of a search without one.
_FINE = 2**20
# Aims at this share of the stated error, because the same images decided when to stop.
_OF_ERROR = 0.5
# Levels within this many standard errors of the threshold may be on it.
_NEAR = 3.3
# How far the curve may leave chords, in standard deviations of single images' flips.
_DEVIATIONS = 1.5


def population_interval(goal: Goal, levels: Levels, task: Task) -> ConfidenceInterval:
    # Both ends must be seen. As in `metrics.confidence_interval`, bands at levels
    # are joined; data and images seen are both samples.
    low, high = goal.bounds
    error = _OF_ERROR * (1 - task.confidence_level)
    # Wilson's needs no variance as at the threshold, too large where nearly all pass.
    found = estimates(levels, Spread())
    steps, means, standard_errors, *_ = found
    critical_values = _critical_values(goal, found, error)
    variances = np.square(standard_errors)
    # Rescaled to [0, 1], the range of shares of right images.
    means = np.clip((means - low) / (high - low), 0, 1)
    variances = variances / (high - low) ** 2
    seen = np.array([levels[step].seen for step in steps.tolist()])
    spread = np.maximum(means * (1 - means), 1 / seen)
    inputs = np.clip(spread / variances, 1, goal.num_images)
    if task.groups is not None:
        parts = zip([levels[step].scores for step in steps.tolist()], critical_values)
        inputs = inputs * [
            worth_of_some((scores - low) / (high - low), task.groups, z)
            for scores, z in parts
        ]
    below, above = score_interval(means * inputs, inputs, critical_values)
    positions = steps / goal.parts
    typical = max(int(np.median(inputs)), 1)
    deviations = envelope(positions, means, typical, _DEVIATIONS)
    least = (goal.least - low) / (high - low)
    shortest, longest = accepted_widths(positions, below, above, least, deviations)
    start, end = float(shortest.sum()), float(longest.sum())
    return ConfidenceInterval(min(max(start, 0.0), 1.0), min(max(start, end), 1.0))


def population_of(task: Task, history: History) -> ConfidenceInterval:
    """Returns the interval of a search that may lack the ends of the range."""
    # The parts of the range beyond its levels are open.
    assert history.scores is not None and task.num_images is not None
    steps = np.rint(task.positions_of(history.levels) * _FINE).astype(int).tolist()
    levels = {step: Level(one, OPEN, 0.0) for step, one in zip(steps, history.scores)}
    goal = Goal(
        _FINE, task.threshold, task.bounds, task.num_images, task.block, 0.0, 0.0
    )
    start, end = population_interval(goal, levels, task)
    unseen = 1 - (steps[-1] - steps[0]) / _FINE
    return ConfidenceInterval(start, min(end + unseen, 1.0))


def _critical_values(goal: Goal, found: Estimates, error: float) -> np.ndarray:
    # Of neighbouring levels at the threshold the largest error counts: as many as 1
    # plus the expected sign changes of the error (Rice 1945).
    standard_errors = found.standard_errors
    near = np.abs(found.means - goal.least) <= _NEAR * standard_errors
    most = standard_errors[:-1] * standard_errors[1:]
    alike = np.clip(found.covariances / np.maximum(most, 1e-300), -1, 1)
    turns = np.where(near[:-1] & near[1:], 2 * np.arccos(alike) / np.pi, 0.0)
    run = np.concatenate([[0], np.cumsum(near[1:] != near[:-1])])
    number = 1 + np.bincount(run[1:], turns, run[-1] + 1)[run]
    return -scipy.special.ndtri(error / 2 / np.where(near, number, 1.0))
