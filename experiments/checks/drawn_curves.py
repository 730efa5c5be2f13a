"""Test sets whose accuracy follows curves of many shapes, in an order of the images."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from jaxrob import metrics, strategies

# Which of N images are right at a level in [0, 1], bool `[N]`, in the order in which
# they are looked at.
Right = Callable[[float], np.ndarray]


class Found(NamedTuple):
    """What a search found."""

    low: float  # the lower end of the data set's interval
    high: float  # the upper end
    robustness: float  # the answer
    status: str  # see `jaxrob.strategies.Found`
    evaluations: int  # altered images looked at
    levels: np.ndarray  # `[n]`, those looked at
    sides: np.ndarray  # int `[n]`: 1 accepted, -1 rejected, 0 open


def search(
    right: Right, num_images: int, threshold: float, parts: int = 1024, **asked: Any
) -> Found:
    """The robustness from few images, as `jaxrob.assess` finds it."""
    task = strategies.Task(0.0, 1.0, threshold, 0.0, num_images)
    strategy = strategies.FewImages(strategies.ASAP(n=parts), **asked)
    history, found = strategies.sample(
        strategy, task, lambda levels: np.stack([right(level) for level in levels])
    )
    assert history.scores is not None and found.robustness is not None
    assert found.sides is not None
    evaluations = sum(map(len, history.scores))
    about = found.robustness, found.status, evaluations, history.levels, found.sides
    return Found(*found.interval, *about)


def truth(right: Right, threshold: float, parts: int = 1024) -> float:
    """The robustness by all images, at all levels."""
    levels = np.linspace(0, 1, parts + 1)
    values = np.array([right(level).mean() for level in levels])
    return metrics.heaviside_robustness(levels, values, threshold, "linear")


# The probability of a right answer at levels in [0, 1], of any shape.
Shape = Callable[[np.ndarray], np.ndarray]

_FREQUENCIES = np.arange(1, 7) / 2


class Near(NamedTuple):
    """A curve that runs close to the threshold, and what is asked of it."""

    slope: float  # by how much the accuracy falls over the range
    at: float  # where it crosses the threshold; beyond [0, 1] it never does
    # By how much it leaves the straight line in its middle, as a share of slope.
    bend: float
    num_images: int  # N
    half_width: float  # of the robustness
    # The share of an image's strength that varies with the level; with 0 an image that
    # fails at a level fails beyond it too.
    varying: float

    def shape(self, x: np.ndarray) -> np.ndarray:
        """The accuracy expected."""
        fallen = _bent(x, self.bend) - _bent(self.at, self.bend)
        return THRESHOLD - self.slope * fallen


def _bent(x: np.ndarray | float, bend: float) -> np.ndarray | float:
    return x + bend * 4 * x * (1 - x)


THRESHOLD = 0.8
NEAR = (
    Near(0.005, 0.5, 0.0, 10_000, 0.05, 0.0),
    Near(0.005, 0.3, 0.2, 2_000, 0.1, 0.0),
    Near(0.01, 0.5, 0.0, 1_000, 0.1, 0.001),
    Near(0.01, 0.8, 0.0, 500, 0.1, 0.0),
    Near(0.02, 0.5, 0.0, 4_000, 0.05, 0.0),
    Near(0.02, 0.7, -0.2, 10_000, 0.02, 0.0),
    Near(0.02, 0.9, 0.0, 1_000, 0.05, 0.0),
    Near(0.05, 0.4, 0.2, 4_000, 0.05, 0.0),
    Near(0.05, 0.6, 0.0, 10_000, 0.01, 0.0),
    Near(0.1, 0.15, 0.0, 2_000, 0.05, 0.01),
    Near(0.1, 0.5, -0.2, 10_000, 0.02, 0.0),
    Near(0.05, 0.5, 0.0, 500, 0.01, 0.0),
)


def answers(
    shape: Shape, num_images: int, varying: float, rng: np.random.Generator
) -> Right:
    """A test set whose accuracy at single levels is the shape's, but for rounding."""
    places = (rng.permutation(num_images) + 0.5) / num_images
    if not varying:
        return lambda level: places < shape(np.asarray(level))
    fixed = np.sqrt(1 - varying) * special.ndtri(places)
    weights = rng.standard_normal((num_images, 2 * len(_FREQUENCIES)))
    weights *= np.sqrt(varying / len(_FREQUENCIES))

    def right(level: float) -> np.ndarray:
        phases = 2 * np.pi * _FREQUENCIES * level
        waves = np.concatenate([np.cos(phases), np.sin(phases)])
        share = np.clip(shape(np.asarray(level)), 0, 1)
        return fixed + weights @ waves < special.ndtri(share)

    return right


def steep(rng: np.random.Generator) -> Shape:
    """A falling curve that bends: steep where it crosses."""
    top, drop = rng.uniform(0.85, 0.99), rng.uniform(0.3, 0.8)
    power = rng.uniform(0.6, 3)
    return lambda x: top - drop * x**power


def smooth(rng: np.random.Generator) -> Shape:
    """A sum of waves around the threshold."""
    heights = rng.normal(0, 0.1, 4) / np.arange(1, 5)
    phases = rng.uniform(0, 2 * np.pi, 4)
    middle = THRESHOLD + rng.normal(0, 0.05)
    return lambda x: (
        middle
        + sum(
            height * np.cos(np.pi * (k + 1) * x + phase)
            for k, (height, phase) in enumerate(zip(heights, phases))
        )
    )


def near(rng: np.random.Generator) -> Shape:
    """A curve that changes little, close to the threshold."""
    slope = 10 ** rng.uniform(-2.5, -1)
    at, power = rng.uniform(-0.2, 1.2), rng.uniform(0.7, 1.5)
    sign = rng.choice([-1, 1])
    return lambda x: (
        THRESHOLD + sign * slope * (np.sign(at) * abs(at) ** power - x**power)
    )


def jagged(rng: np.random.Generator) -> Shape:
    """Straight pieces between levels at random."""
    number = rng.integers(4, 12)
    levels = np.concatenate([[0], np.sort(rng.random(number)), [1]])
    values = THRESHOLD + np.cumsum(rng.normal(0, 0.06, number + 2))
    return lambda x: np.interp(x, levels, values)


def dip(rng: np.random.Generator) -> Shape:
    """Level but for a dip or a peak to the other side."""
    off, deep = rng.choice([-1, 1]) * rng.uniform(0.01, 0.1), rng.uniform(1.2, 5)
    at, wide = rng.random(), rng.uniform(0.06, 0.25)
    return lambda x: THRESHOLD + off * (1 - deep * np.exp(-(((x - at) / wide) ** 2)))


def plateau(rng: np.random.Generator) -> Shape:
    """A fall, a plateau beside the threshold, a fall."""
    off = rng.choice([-1, 1]) * 10 ** rng.uniform(-2.5, -1.3)
    start, end = np.sort(rng.uniform(0.1, 0.9, 2))
    points = [0, start, max(end, start + 0.05), 1]
    values = THRESHOLD + np.array([0.17, off, off, -rng.uniform(0.1, 0.6)])
    return lambda x: np.interp(x, points, values)


def steps(rng: np.random.Generator) -> Shape:
    """Jumps at random levels."""
    number = rng.integers(1, 5)
    levels = np.sort(rng.random(number))
    values = THRESHOLD + np.sort(rng.normal(0, 0.07, number + 1))[::-1]
    return lambda x: values[np.searchsorted(levels, x)]


def logistics(rng: np.random.Generator) -> Shape:
    """Falls and rises, as steep as they may be."""
    number = rng.integers(1, 4)
    at, steep = rng.random(number), 10 ** rng.uniform(0.5, 2, number)
    heights = rng.choice([-1, -1, 1], number) * 10 ** rng.uniform(-2, -0.5, number)
    middle = THRESHOLD + rng.uniform(0, 0.5) * np.abs(heights).sum()
    return lambda x: np.clip(
        middle
        + sum(h * special.expit(s * (x - a)) for h, s, a in zip(heights, steep, at)),
        0.01,
        0.99,
    )


def walk(rng: np.random.Generator) -> Shape:
    """A random walk of 64 steps, of any size, that begins near the threshold."""
    size = 10 ** rng.uniform(-3.5, -1.7)
    values = THRESHOLD + rng.normal(0, 4 * size) + np.cumsum(rng.normal(0, size, 65))
    return lambda x: np.interp(x, np.linspace(0, 1, 65), values)


def cusp(rng: np.random.Generator) -> Shape:
    """A sharp maximum or minimum, whose feet are close to the threshold."""
    feet, height = rng.normal(0, 0.02), rng.choice([-1, 1]) * rng.uniform(0.01, 0.18)
    at, wide = rng.random(), rng.uniform(0.05, 0.5)
    return lambda x: THRESHOLD + feet + height * np.exp(-np.abs(x - at) / wide)


def bowl(rng: np.random.Generator) -> Shape:
    """A parabola whose vertex lies just beyond the threshold."""
    bend, at = rng.choice([-1, 1]) * 10 ** rng.uniform(-0.7, 0.3), rng.uniform(0.1, 0.9)
    off = -np.sign(bend) * 10 ** rng.uniform(-2.7, -1.4)
    return lambda x: np.clip(THRESHOLD + off + bend * (x - at) ** 2, 0, 1)


def valley(rng: np.random.Generator) -> Shape:
    """Level, but for a dip or hump that reaches just beyond the threshold."""
    off, side = rng.uniform(0.05, 0.15), rng.choice([-1, 1])
    at, wide = rng.uniform(0.1, 0.9), 10 ** rng.uniform(-1, -0.3)
    deep = off + 10 ** rng.uniform(-2.7, -1.4)
    return lambda x: THRESHOLD + side * (off - deep * np.exp(-(((x - at) / wide) ** 2)))


def humps(rng: np.random.Generator) -> Shape:
    """One to three dips or humps that end on either side, close to the threshold."""
    off, slope = rng.choice([-1, 1]) * 10 ** rng.uniform(-3, -1), rng.normal(0, 0.03)
    number = rng.integers(1, 4)
    at, wide = rng.random(number), 10 ** rng.uniform(-1.5, -0.3, number)
    ends = rng.choice([-1, 1], number) * 10 ** rng.uniform(-3.5, -1.5, number)
    heights = ends - off - slope * (at - 0.5)
    return lambda x: (
        THRESHOLD
        + off
        + slope * (x - 0.5)
        + sum(
            height * np.exp(-(((x - a) / w) ** 2))
            for height, a, w in zip(heights, at, wide)
        )
    )


SHAPES = (steep, smooth, near, jagged, dip, plateau, steps)
# Not looked at while the search was made.
OTHERS = (logistics, walk, cusp)
# They turn close to the threshold, between levels or at one.
TURNING = (bowl, valley, humps, dip)
