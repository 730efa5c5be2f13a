"""Curves given as formulas, and test sets drawn from them.

A curve is the probability that an input is classified correctly at a level.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy import special

# The probability of a right answer at levels in [0, 1].
Shape = Callable[[np.ndarray], np.ndarray]

THRESHOLD = 0.8
# For "own": the share of an input's strength that varies with the level, and its
# frequencies per range.
_VARYING = 0.2
_FREQUENCIES = np.arange(1, 7) / 2


def joined(points: Sequence[tuple[float, float]]) -> Shape:
    levels, values = zip(*points)
    return lambda x: np.interp(x, levels, values)


# Points (level, probability), joined by straight lines.
_PIECES = {
    "plateau at 0.80": [(0, 0.98), (0.3, 0.8), (0.7, 0.8), (1, 0.2)],
    "plateau at 0.81": [(0, 0.98), (0.3, 0.81), (0.7, 0.81), (1, 0.2)],
    "plateau at 0.805": [(0, 0.98), (0.22, 0.805), (0.63, 0.805), (1, 0.1)],
    "plateau at 0.79": [(0, 0.98), (0.3, 0.79), (0.7, 0.79), (1, 0.2)],
    "plateau at the end": [(0, 0.97), (0.4, 0.8), (1, 0.8)],
    "slow decline": [(0, 0.83), (1, 0.77)],
    "never below": [(0, 0.95), (1, 0.85)],
    "tent": [(0, 0.52), (0.5, 0.97), (1, 0.52)],
}


SHAPES: dict[str, Shape] = {
    name: joined(points) for name, points in _PIECES.items()
} | {
    "parabola": lambda x: 0.98 - 0.6 * x**2,
    "logistic": lambda x: 0.1 + 0.88 / (1 + np.exp((x - 0.55) * 14)),
    "steep logistic": lambda x: 0.1 + 0.88 / (1 + np.exp((x - 0.37) * 60)),
    "jump": lambda x: np.where(x < 0.431, 0.95, 0.5),
    "small jump": lambda x: np.where(x < 0.431, 0.86, 0.74),
    "plateau, then a jump": lambda x: np.where(x < 0.57, 0.81, 0.4),
    "cusp": lambda x: 0.3 + 0.68 * np.exp(-np.abs(x - 0.5) * 6),
    "two humps": lambda x: 0.8 + 0.1 * np.cos(4 * np.pi * x) - 0.05 * x,
}


def robustness(shape: Shape) -> float:
    """Returns the share of the range where the formula is at least the threshold."""
    parts = 1_000_000
    middles = (np.arange(parts) + 0.5) / parts
    # A plateau on the threshold is accepted, despite rounding.
    return float(np.mean(shape(middles) >= THRESHOLD - 1e-12))


def test_set(
    shape: Shape, flips: str, num_inputs: int, rng: np.random.Generator
) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the accuracy of a test set, as a function of the level."""
    if flips == "ordered":
        strengths = np.sort(rng.random(num_inputs))
        return lambda levels: np.searchsorted(strengths, shape(levels)) / num_inputs
    strengths = _strengths(num_inputs, rng)
    return lambda levels: (strengths(levels) < special.ndtri(shape(levels))).mean(0)


def right_answers(
    shape: Shape, levels: np.ndarray, num_inputs: int, rng: np.random.Generator
) -> np.ndarray:
    """Returns which inputs are right, `[L, N]`, each at its own levels."""
    return (_strengths(num_inputs, rng)(levels) < special.ndtri(shape(levels))).T


def scores(
    shape: Shape, num_inputs: int, rng: np.random.Generator
) -> Callable[[np.ndarray], np.ndarray]:
    """Scores `[L, N]` as a function of levels, whose expectation is the curve."""
    # Powers of uniform numbers; an input keeps its own at all levels.
    uniform = rng.random(num_inputs)

    def at(levels: np.ndarray) -> np.ndarray:
        mean = shape(np.asarray(levels))[:, None]
        return uniform ** ((1 - mean) / mean)

    return at


def _strengths(
    num_inputs: int, rng: np.random.Generator
) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the inputs' difficulty at levels `[L]`: normal variables `[N, L]`."""
    fixed = rng.standard_normal((num_inputs, 1))
    weights = rng.standard_normal((num_inputs, 2 * len(_FREQUENCIES)))
    scale = np.sqrt(_VARYING / len(_FREQUENCIES))

    def strengths(levels: np.ndarray) -> np.ndarray:
        phases = 2 * np.pi * _FREQUENCIES[:, None] * levels
        waves = np.concatenate([np.cos(phases), np.sin(phases)])
        return np.sqrt(1 - _VARYING) * fixed + scale * (weights @ waves)

    return strengths
