"""Shapes of accuracy curves made at random, by two generators.

The constants of `Diagnostics.signs` were chosen on the first generator's. The second
makes the same families in other ways, and shows what these constants are worth.
"""

import functools
from collections.abc import Callable

import numpy as np
from scipy import interpolate, stats

#: Where a shape is known, on a range mapped to [0, 1].
GRID = np.linspace(0, 1, 1025)
#: What shapes there are. A dip is one excursion on a smooth curve.
FAMILIES = ("smooth", "near", "jagged", "dip", "plateau", "steps")
#: Families whose curves have no feature narrower than the first levels are apart.
SMOOTH = ("smooth", "near")
#: The length scales of Gaussian processes, as families.
LENGTHS = ("0.05", "0.08", "0.12", "0.2", "0.3")

# From a random generator and a family to a shape `[1025]` in [0, 1] and a threshold.
Generator = Callable[[np.random.Generator, str], tuple[np.ndarray, float]]


def first(rng: np.random.Generator, family: str) -> tuple[np.ndarray, float]:
    """A shape and a threshold, of the generator that constants were chosen on."""
    threshold = float(rng.uniform(0.5, 0.95))
    base = _falling(rng)
    match family:
        case "smooth":
            values = base
        case "near":
            values = _near(rng, base, threshold)
        case "jagged":
            knots = int(rng.choice([21, 41, 61, 101, 161]))
            size = np.exp(rng.uniform(np.log(0.004), np.log(0.15)))
            wander = _persistent(rng, knots, rng.choice([0, 0, 0.5, 0.8]))
            if rng.random() < 0.5:
                base = (base - base.mean()) * rng.uniform(0, 0.5)
                base = base + threshold + rng.uniform(-3, 3) * size
            at = np.linspace(0, 1, knots)
            values = base + size * np.interp(GRID, at, wander)
        case "dip":
            width = np.exp(rng.uniform(np.log(0.01), np.log(0.3)))
            away = np.abs(GRID - rng.uniform(0, 1)) / (width / 2)
            dips = [away < 1, (1.3 - 0.3 * away) * (away < 1), np.exp(-(away**2))]
            above = threshold + 0.5 * (base - base.min()) + rng.uniform(0.005, 0.1)
            depth = above - threshold + rng.uniform(0.01, 0.2)
            values = above - depth * np.clip(dips[rng.integers(3)], 0, 1)
        case "plateau":
            start, end = np.sort(rng.uniform(0, 1, 2))
            on = threshold + rng.uniform(-0.02, 0.02)
            top, foot = max(base.max(), on), min(base.min(), on - 0.05)
            values = np.where(GRID < start, top, np.where(GRID < end, on, foot))
        case _:
            number = rng.integers(2, 25)
            heights = np.sort(rng.uniform(0.3, 1, number + 1))[::-1]
            if rng.random() < 0.4:
                heights = heights + rng.normal(0, rng.uniform(0, 0.1), number + 1)
            ends = np.sort(rng.uniform(0, 1, number))
            values = heights[np.searchsorted(ends, GRID)]
    return _as_accuracy(values, rng), threshold


def other(rng: np.random.Generator, family: str) -> tuple[np.ndarray, float]:
    """A shape and a threshold, of the generator that nothing was chosen on."""
    threshold = float(rng.uniform(0.45, 0.96))
    base = _spline(rng)
    match family:
        case "smooth":
            values = base
        case "near":
            values = _near(rng, base, threshold)
        case "jagged":
            rough = _coloured(rng, rng.uniform(0.2, 2.2))
            size = np.exp(rng.uniform(np.log(0.005), np.log(0.1)))
            tilt = rng.choice([0.1, 0.3, 1.0]) * (base - base.mean())
            values = threshold + rng.uniform(-2.5, 2.5) * size + tilt + size * rough
        case "dip":
            values = np.maximum(base, threshold + rng.uniform(0.01, 0.08))
            for _ in range(rng.integers(1, 3)):
                half = 0.5 * rng.beta(1, 4) * 0.6 + 0.003
                away = np.clip(np.abs(GRID - rng.uniform(0, 1)) / half, 0, 1)
                depth = values.max() - threshold + rng.uniform(0.02, 0.15)
                values = values - depth * np.cos(away * np.pi / 2) ** 2
        case "plateau":
            on = threshold + rng.normal(0, 0.01)
            start, length = rng.uniform(0, 0.6), rng.uniform(0.1, 0.6)
            rise = np.clip((start - GRID) / rng.uniform(0.03, 0.3), 0, 1)
            fall = np.clip((GRID - start - length) / rng.uniform(0.03, 0.3), 0, 1)
            values = on + (0.98 - on) * rise - 0.8 * on * fall
        case _:
            falls = rng.exponential(1, rng.poisson(8) + 1)
            falls *= rng.choice([1, -0.4], len(falls), p=[0.85, 0.15])
            ends = rng.uniform(0, 1, len(falls))
            down = (falls * (GRID[:, None] >= ends)).sum(axis=1)
            values = 0.97 - down * rng.uniform(0.3, 0.9) / np.abs(falls).sum()
    return _as_accuracy(values, rng), threshold


def gaussian(rng: np.random.Generator, family: str) -> tuple[np.ndarray, float]:
    """A Gaussian process around the threshold, of a length scale; not cut to [0, 1]."""
    return 0.8 + 0.1 * _waves(float(family)) @ rng.normal(size=len(GRID)), 0.8


def drawn_counts(
    shape: np.ndarray, num_inputs: int, rng: np.random.Generator
) -> np.ndarray:
    """How many inputs are right at each level, with the same inputs at all levels."""
    # Most turn wrong where the shape falls and right where it rises; in half of the
    # draws a few per cent more go to and fro.
    size, waves = rng.choice([0, 0, 0.01, 0.03]), rng.uniform(3, 30)
    sway = size * np.sin(waves * GRID + rng.uniform(0, 6))
    room = np.minimum(shape, 1 - shape)
    sway = np.clip(sway, -room, room)
    half = num_inputs // 2
    one, two = np.sort(rng.random(half)), np.sort(rng.random(num_inputs - half))
    return np.searchsorted(one, shape + sway) + np.searchsorted(two, shape - sway)


def _as_accuracy(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Moved below 1 rather than cut off there, where all levels would be equal."""
    most = rng.uniform(0.95, 1)
    return np.clip(values - max(values.max() - most, 0), 0, 1)


@functools.cache
def _waves(length: float) -> np.ndarray:
    """A root of the squared exponential covariance on the grid."""
    sizes, waves = np.linalg.eigh(np.exp(-0.5 * ((GRID[:, None] - GRID) / length) ** 2))
    return waves * np.sqrt(np.maximum(sizes, 0))


def _near(rng: np.random.Generator, base: np.ndarray, threshold: float) -> np.ndarray:
    share = (base - base.min()) / np.ptp(base) - rng.integers(2)
    return threshold + rng.uniform(-0.02, 0.02) + share * rng.uniform(0.02, 0.2)


def _falling(rng: np.random.Generator) -> np.ndarray:
    at, middle = rng.uniform(0.2, 0.9), rng.uniform(0.3, 0.7)
    shapes = (
        lambda: 1 / (1 + np.exp((GRID - at) / rng.uniform(0.05, 0.2))),
        lambda: np.exp(-((GRID / at) ** rng.uniform(1, 4))),
        lambda: np.exp(
            -(np.abs((GRID - middle) / rng.uniform(0.2, 0.6)) ** rng.uniform(1.6, 4))
        ),
        lambda: 1 - GRID ** rng.uniform(0.8, 3) * rng.uniform(0.3, 1),
        lambda: 0.5 + 0.5 * np.cos(
            2 * np.pi * (GRID * rng.uniform(0.5, 1.5) + rng.uniform(0, 1))
        ),
        lambda: 1 / (
            1 + np.exp(
                (np.abs(GRID - middle) - rng.uniform(0.15, 0.4))
                / rng.uniform(0.05, 0.12)
            )
        ),
    )  # fmt: skip
    share = shapes[rng.integers(len(shapes))]()
    if rng.random() < 0.3:
        share = share[::-1]
    low, high = rng.uniform(0.05, 0.78), rng.uniform(0.83, 0.995)
    return low + (high - low) * share


def _spline(rng: np.random.Generator) -> np.ndarray:
    """Falls from its best level to one side or both."""
    low, high = rng.uniform(0.1, 0.7), rng.uniform(0.8, 0.99)
    kind = rng.integers(3)
    if kind == 0:
        share = 1 - stats.beta.cdf(GRID, rng.uniform(1.5, 5), rng.uniform(1.5, 5))
    elif kind == 1:
        away = np.abs(GRID - rng.uniform(0.35, 0.65))
        share = 1 / (1 + (away / rng.uniform(0.2, 0.5)) ** rng.uniform(2, 4))
    else:
        knots = np.linspace(0, 1, 6)
        falls = np.append(0, np.cumsum(rng.dirichlet(np.full(5, 1.5))))
        share = 1 - interpolate.PchipInterpolator(knots, falls)(GRID)
    return low + (high - low) * (share[::-1] if rng.random() < 0.3 else share)


def _persistent(rng: np.random.Generator, number: int, memory: float) -> np.ndarray:
    """Numbers of variance 1, each with so much of the one before."""
    found = rng.normal(size=number)
    for i in range(1, number):
        found[i] = memory * found[i - 1] + np.sqrt(1 - memory**2) * found[i]
    return found


def _coloured(rng: np.random.Generator, exponent: float) -> np.ndarray:
    """Noise of variance 1 whose power falls with frequency: 0 is white, 2 a walk."""
    waves = np.arange(1, 200)
    angles = 2 * np.pi * waves * GRID[:, None]
    sizes = waves ** (-exponent / 2)
    parts = rng.normal(size=len(waves)) * np.cos(angles)
    parts += rng.normal(size=len(waves)) * np.sin(angles)
    return parts @ sizes / np.sqrt(np.square(sizes).sum())
