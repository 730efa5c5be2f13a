"""How many draws a failure probability takes, of which images; it knows no network.

A draw is an image at a level from the profile. Plain draws take the images in a random
order, all of them before one comes again: their failures scatter no more than
independent ones (Hoeffding 1956). Where it pays, images are then put into groups by
their margin unaltered, and each group has as many draws as it needs; the plain draws
count in them.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._testing import clopper_pearson

# Groups are made of these quantiles of the margins: failures are where it is lowest.
_QUANTILES = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
_MOST_GROUPS = 3
# Failures from which the cost of plain draws can be foreseen.
_ENOUGH = 12
# Of that cost, what margins may take that nobody knows to help, and how much of it must
# be left over for all others to be computed.
_RISKED, _LEFT = 0.05, 0.85
_FIRST, _GROWTH = 100, 0.08


class Wanted(NamedTuple):
    """When to stop: half the interval's width is at most the larger of both."""

    relative: float  # times the estimate
    half_width: float
    budget: int  # the most evaluations
    confidence_level: float

    @property
    def z(self) -> float:
        return float(scipy.special.ndtri(1 - (1 - self.confidence_level) / 2))

    def half(self, probability: float) -> float:
        return max(self.relative * probability, self.half_width)


class Spans(NamedTuple):
    """Draws of a number, of the images from `start` to `stop` in an order."""

    draw: int  # -1 for the unaltered images
    start: int
    stop: int


# Tells of each span's images which are misclassified, and the confidences. The order is
# by margin from the first call that says so.
Look = Callable[
    [np.ndarray, Sequence[Spans], bool], Sequence[tuple[np.ndarray, np.ndarray]]
]


class Draws(NamedTuple):
    """What was drawn: images are numbered as in the data."""

    order: np.ndarray  # int `[N]`, group after group, random within each
    starts: np.ndarray  # int `[K]`, where groups start in it
    drawn: np.ndarray  # int `[N]`, each image's draws
    failed: np.ndarray  # int `[N]`, those that failed
    margins: np.ndarray  # float64 `[M]`, of the first images, unaltered; M <= N

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.starts, append=len(self.order))

    @property
    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Failures and draws by group, `[K]`."""
        rows = self.failed[self.order], self.drawn[self.order]
        failed, drawn = (np.add.reduceat(one, self.starts) for one in rows)
        return failed, drawn

    @property
    def evaluations(self) -> int:
        return int(self.drawn.sum()) + len(self.margins)

    def interval(self, confidence_level: float) -> tuple[float, ConfidenceInterval]:
        weights = self.sizes / len(self.order)
        return _stratified_interval(weights, *self.counts, confidence_level)

    def values(self) -> np.ndarray:
        """Each image's share of failures; of others of its group where it has none."""
        found = np.empty(len(self.order))
        for group in np.split(self.order, self.starts[1:]):
            seen = group[self.drawn[group] > 0]
            shares = self.failed[seen] / self.drawn[seen]
            rest = group[self.drawn[group] == 0]
            found[seen], found[rest] = shares, np.resize(shares, len(rest))
        return found


def _stratified_interval(
    weights: np.ndarray, failed: np.ndarray, drawn: np.ndarray, confidence_level: float
) -> tuple[float, ConfidenceInterval]:
    """Limits of groups together, by MOVER (Zou and Donner 2008)."""
    shares = (failed + (drawn == 0) / 2) / np.maximum(drawn, 1)
    share = float(weights @ shares)
    below, above = (
        float(np.sqrt(np.square(weights * (shares - end)).sum()))
        for end in clopper_pearson(failed, drawn, confidence_level)
    )
    return share, ConfidenceInterval(max(share - below, 0.0), min(share + above, 1.0))


def search(wanted: Wanted, order: np.ndarray, look: Look) -> tuple[Draws, str]:
    """Draws until the interval is as narrow as wanted; the order is random."""
    none = np.zeros(len(order), int)
    now = Draws(order, np.array([0]), none, none, np.array([]))
    while not (status := _status(wanted, now)):
        weights, (failed, drawn) = now.sizes / len(order), now.counts
        more = max(int(_GROWTH * drawn.sum()), 1)
        if len(now.starts) > 1:
            now = _raised(wanted, now, _neediest(wanted, now, more), more, look)
            continue
        most = 2 * int(drawn[0])
        if failed[0] >= _ENOUGH:
            half = wanted.half(failed[0] / drawn[0]) / wanted.z
            cost = _cost(half, weights, failed, drawn)
            now = _grouped(now, look, half, cost, wanted.budget)
            most = min(most, int(drawn[0] + cost) // 2)
        if len(now.starts) == 1:
            now = _raised(wanted, now, 0, max(most - int(drawn[0]), more, _FIRST), look)
    return now, status


def _status(wanted: Wanted, now: Draws) -> str:
    if not now.drawn.any():
        return ""
    share, (low, high) = now.interval(wanted.confidence_level)
    if (high - low) / 2 <= wanted.half(share):
        return "precise"
    return "budget" if now.evaluations >= wanted.budget else ""


def _cost(
    half: float, weights: np.ndarray, failed: np.ndarray, drawn: np.ndarray
) -> float:
    """Foresees the draws in all, shared out as Neyman (1934) does."""
    shares = (failed + 1) / (drawn + 2)
    return float((weights @ np.sqrt(shares * (1 - shares)) / half) ** 2)


def _grouped(now: Draws, look: Look, half: float, cost: float, budget: int) -> Draws:
    """Puts the images into groups by margin where that seems to save draws."""
    number, left = len(now.order), min(cost, budget) - now.evaluations
    if len(now.margins) < number and number > _RISKED * cost:
        # A random part of the margins tells whether all are worth it.
        if number > left:
            return now
        now = _with_margins(now, int(_RISKED * cost), look)
        if number - len(now.margins) + _cuts(half, now)[0] > _LEFT * left:
            return now
    now = _with_margins(now, number, look)
    foreseen, cuts = _cuts(half, now)
    if foreseen > _LEFT * left:
        return now
    ranks = np.empty(number, int)
    ranks[np.argsort(now.margins, kind="stable")] = np.arange(number)
    by_group = np.argsort(np.searchsorted(cuts, ranks, "right"), kind="stable")
    return now._replace(order=now.order[by_group], starts=np.array([0, *cuts]))


def _with_margins(now: Draws, number: int, look: Look) -> Draws:
    if len(now.margins) >= number:
        return now
    spans = [Spans(-1, len(now.margins), number)]
    ((wrong, confidence),) = look(now.order, spans, False)
    more = np.where(wrong, -confidence, confidence)
    return now._replace(margins=np.concatenate([now.margins, more]))


def _cuts(half: float, now: Draws) -> tuple[float, tuple[int, ...]]:
    """Returns the draws foreseen, and where to cut the images sorted by margin."""
    number = len(now.margins)
    images = now.order[:number][np.argsort(now.margins, kind="stable")]
    failed, drawn = (
        np.cumsum(np.r_[0, one[images]]) for one in (now.failed, now.drawn)
    )
    inside = sorted({int(number * share) for share in _QUANTILES} - {0})
    found = []
    for some in range(_MOST_GROUPS):
        for cuts in itertools.combinations(inside, some):
            ends = np.array([0, *cuts, number])
            parts = (np.diff(one[ends]) for one in (failed, drawn))
            found.append((_cost(half, np.diff(ends) / number, *parts), cuts))
    return min(found)


def _raised(wanted: Wanted, now: Draws, group: int, more: int, look: Look) -> Draws:
    """Draws from a group: from its first images if all have as many draws."""
    more = min(more, wanted.budget - now.evaluations)
    start, size = int(now.starts[group]), int(now.sizes[group])
    before = int(now.drawn[now.order[start : start + size]].sum())
    spans, at = [], before
    while at < before + more:
        draw, place = divmod(at, size)
        stop = min(size, place + before + more - at)
        spans.append(Spans(draw, start + place, start + stop))
        at += stop - place
    failed, drawn = now.failed.copy(), now.drawn.copy()
    found = look(now.order, spans, len(now.starts) > 1)
    for span, (some, _) in zip(spans, found):
        images = now.order[span.start : span.stop]
        failed[images] += some
        drawn[images] += 1
    return now._replace(failed=failed, drawn=drawn)


def _neediest(wanted: Wanted, now: Draws, more: int) -> int:
    """Returns the group whose draws narrow the interval most, if shares stay."""
    weights, (failed, drawn) = now.sizes / len(now.order), now.counts

    def width(group: int) -> float:
        factor = np.ones(len(weights))
        factor[group] += more / max(drawn[group], 1)
        _, (low, high) = _stratified_interval(
            weights, failed * factor, drawn * factor, wanted.confidence_level
        )
        return high - low

    return min(range(len(weights)), key=width)
