"""Made-up domains, of accepted volumes known in closed form, and their images."""

import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from jaxrob import strategies
from jaxrob._assessment.explore import block_of, own_blocks
from jaxrob.strategies._drive import Span

THRESHOLD = 0.8
_PATCHES = 10  # along each of the first two axes


class Shape(NamedTuple):
    """A made-up domain."""

    accuracy: Callable[[np.ndarray], np.ndarray]  # levels [m, d] to [m]
    volume: float  # where it reaches the threshold
    # Of a network: whether answers at levels [m, d] are right, [m, N], and N.
    answers: Callable[[np.ndarray], np.ndarray] | None = None
    num_images: int | None = None


class Link(NamedTuple):
    """How the accuracy falls with the distance from the accepted region."""

    slope: float
    is_logistic: bool

    def __call__(self, inside: np.ndarray) -> np.ndarray:
        """The accuracy at distances from the boundary, negative outside."""
        if self.is_logistic:
            at = special.logit(THRESHOLD) + self.slope / 0.16 * inside
            found = special.expit(np.clip(at, -30, 30))
        else:
            found = np.clip(THRESHOLD + self.slope * inside, 0.1, 0.99)
        # Not below by rounding where the distance is 0.
        return np.where(inside >= 0, np.maximum(found, THRESHOLD), found)


def _below(direction: np.ndarray, offset: float) -> float:
    """The share of the cube where `direction @ x <= offset`, of positive numbers."""
    total = 0.0
    for corner in itertools.product((0, 1), repeat=len(direction)):
        left = max(offset - float(direction @ np.array(corner)), 0.0)
        total += (-1) ** sum(corner) * left ** len(direction)
    return total / math.factorial(len(direction)) / float(np.prod(direction))


def _ball(radius: float, dimension: int) -> float:
    return (
        math.pi ** (dimension / 2) / math.gamma(dimension / 2 + 1) * radius**dimension
    )


def _half_space(d: int, rng: np.random.Generator, link: Link) -> Shape:
    direction = rng.uniform(0.2, 1.0, d)
    direction /= np.linalg.norm(direction)
    offset = rng.uniform(0.35, 0.65) * direction.sum()
    return Shape(lambda x: link(offset - x @ direction), _below(direction, offset))


def _in_ball(
    d: int, rng: np.random.Generator, link: Link, radii: Sequence[float] = (0.32, 0.48)
) -> Shape:
    radius = rng.uniform(*radii)
    centre = rng.uniform(radius, 1 - radius, d)
    return Shape(
        lambda x: link(radius - np.linalg.norm(x - centre, axis=1)), _ball(radius, d)
    )


def _l(d: int, rng: np.random.Generator, link: Link) -> Shape:
    a, b = rng.uniform(0.15, 0.4, 2)
    return Shape(
        lambda x: link(np.maximum(a - x[:, 0], b - x[:, 1])), float(a + b - a * b)
    )


def _ridge(d: int, rng: np.random.Generator, link: Link) -> Shape:
    direction = rng.uniform(0.3, 1.0, d)
    direction /= np.linalg.norm(direction)
    middle, half = rng.uniform(0.4, 0.6) * direction.sum(), rng.uniform(0.06, 0.15)
    volume = _below(direction, middle + half) - _below(direction, middle - half)
    return Shape(lambda x: link(half - np.abs(x @ direction - middle)), volume)


def _plateau(d: int, rng: np.random.Generator, link: Link, below: float = 0) -> Shape:
    start, end = rng.uniform(0.15, 0.35), rng.uniform(0.55, 0.8)

    def accuracy(x: np.ndarray) -> np.ndarray:
        at = x[:, -1]
        found = np.where(at <= start, link(start - at), link(end - at))
        return np.where((at > start) & (at <= end), THRESHOLD - below, found)

    return Shape(accuracy, start if below > 0 else end)


def _near_plateau(d: int, rng: np.random.Generator, link: Link) -> Shape:
    return _plateau(d, rng, link, rng.choice([-1, 1]) * rng.uniform(0.004, 0.012))


def _island(d: int, rng: np.random.Generator, link: Link) -> Shape:
    return _in_ball(d, rng, link, (0.12, 0.2) if d == 2 else (0.2, 0.3))


def _checkerboard(d: int, rng: np.random.Generator, link: Link) -> Shape:
    each = int(rng.choice([8, 10, 12]))
    high, low = rng.uniform(0.9, 0.97), rng.uniform(0.5, 0.7)
    return Shape(
        lambda x: np.where((x * each).astype(int).sum(axis=1) % 2, low, high), 0.5
    )


def _two_islands(d: int, rng: np.random.Generator, link: Link) -> Shape:
    radii = rng.uniform(0.12, 0.22, 2)
    first = rng.uniform(radii[0], 0.5 - radii[0], d)
    second = rng.uniform(0.5 + radii[1], 1 - radii[1], d)

    def accuracy(x: np.ndarray) -> np.ndarray:
        inside = [
            radius - np.linalg.norm(x - centre, axis=1)
            for radius, centre in zip(radii, (first, second))
        ]
        return link(np.maximum(*inside))

    return Shape(accuracy, sum(_ball(radius, d) for radius in radii.tolist()))


def _shell(d: int, rng: np.random.Generator, link: Link) -> Shape:
    outer, thickness = rng.uniform(0.35, 0.48), rng.uniform(0.03, 0.08)
    centre = rng.uniform(outer, 1 - outer, d)

    def accuracy(x: np.ndarray) -> np.ndarray:
        away = np.linalg.norm(x - centre, axis=1)
        return link(thickness / 2 - np.abs(away - outer + thickness / 2))

    return Shape(accuracy, _ball(outer, d) - _ball(outer - thickness, d))


SHAPES = {
    "half-space": _half_space,
    "ball": _in_ball,
    "L": _l,
    "ridge": _ridge,
    "plateau": _plateau,
    "near-plateau": _near_plateau,
    "island": _island,
    "checkerboard": _checkerboard,
    "two islands": _two_islands,
    "thin shell": _shell,
}


def shape(name: str, dimension: int, generator: str, seed: int) -> Shape:
    """Makes up a domain; the two generators share no parameters."""
    showing = generator == "showing"
    rng = np.random.default_rng([showing, seed, [*SHAPES].index(name), dimension])
    link = Link(rng.uniform(0.3, 0.8) if showing else rng.uniform(0.6, 1.5), showing)
    found = SHAPES[name](dimension, rng, link)
    if not showing:
        return found
    # Other faces of the cube, and axes in another order.
    flip, order = rng.random(dimension) < 0.5, rng.permutation(dimension)
    return found._replace(
        accuracy=lambda x: found.accuracy(np.where(flip, 1 - x, x)[:, order])
    )


def measured(right: np.ndarray, each: Sequence[int], threshold: float) -> Shape:
    """A domain of cells, in each of which a network answers `[N]` as in its middle."""

    def cell(levels: np.ndarray) -> np.ndarray:
        place = np.minimum((levels * each).astype(int), np.array(each) - 1)
        return np.asarray(np.ravel_multi_index(tuple(place.T), tuple(each)))

    accuracy = right.mean(axis=1)
    return Shape(
        lambda x: accuracy[cell(x)],
        float((accuracy >= threshold).mean()),
        lambda x: right[cell(x)],
        right.shape[1],
    )


@dataclasses.dataclass(frozen=True)
class Uniform(strategies.Volume):
    """The same search without a model."""

    _has_model = False


class Run(NamedTuple):
    """What a search found, and its cost."""

    found: strategies.Found
    num_images: int
    evaluations: int
    levels: int
    seconds: float


def own_order(level: tuple[float, ...], task: strategies.Task) -> np.ndarray:
    """The order in which a level sees the images, `[N]`."""
    images = np.arange(task.num_images or 0)
    blocks = own_blocks(Span(0, level, 0, len(images)), task)
    return np.concatenate([images[block] for block in blocks])


def run(
    one: Shape, strategy: strategies.Volume, task: strategies.Task, kind: str, seed: int
) -> Run:
    """Runs a search on images of one order ("one"), of 100, or of a population."""
    number, d = one.num_images or task.num_images or 0, len(np.ravel(task.lower))
    rng = np.random.default_rng([7, seed])
    patches = 1 if kind == "one" else _PATCHES**2
    if kind == "population":
        numbers = rng.random((patches, number))
    else:
        numbers = np.tile(np.arange(1, number + 1) / number * (1 - 1e-12), (patches, 1))
        numbers = rng.permuted(numbers, axis=1)

    order = rng.permutation(number)
    task = task._replace(lower=(0.0,) * d, upper=(1.0,) * d)
    task = task._replace(num_images=number, block=block_of(number))
    own = functools.cache(lambda level: own_order(level, task))

    def answers(levels: np.ndarray) -> np.ndarray:
        if one.answers is not None:
            right = one.answers(levels)[:, order]
        else:
            place = np.minimum((levels[:, :2] * _PATCHES).astype(int), _PATCHES - 1)
            row = place[:, 0] * _PATCHES + place[:, -1]
            right = numbers[row % patches] <= one.accuracy(levels)[:, None]
        orders = map(own, map(tuple, levels.tolist()))
        return np.array([some[order] for some, order in zip(right, orders)])

    start = time.perf_counter()
    history, found = strategies.sample(strategy, task, answers)
    seen = sum(len(some) for some in history.scores or ())
    seconds = time.perf_counter() - start
    return Run(found, number, seen, len(history.levels), seconds)
