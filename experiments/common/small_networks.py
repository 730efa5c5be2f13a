"""Trained networks of few inputs, around which probabilities are counted.

NumPy counts the truth among direct draws, from the weights alone.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import optax
from flax import linen as nn

import jaxrob
from common.known_modes import LOGIT, Case
from jaxrob import training

_UNITS = 16
_TRAINED_ON = 20_000
# Crude Monte Carlo draws around this many points, for each radius, choose the cases.
# The truth is counted among at most a hundred times as many others, until there are
# this many hits.
_POINTS = 12
_RADII = (0.05, 0.1, 0.2, 0.3)
_FEWEST_HITS = 4
_HITS = 3_000
_BATCH = 500_000
_MOST_PROBABLE = 1e-2


class _Network(nn.Module):
    """Two hidden layers, which have corners."""

    @nn.compact
    def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
        del train
        x = images.reshape(len(images), -1)
        for _ in range(2):
            x = nn.relu(nn.Dense(_UNITS)(x))
        return nn.Dense(2)(x)


def small_networks(dim: int, number: int, draws: int, seed: int) -> Iterator[Case]:
    """Returns points around networks trained on a corner, slab, wedge or islands."""
    for place, (region, inside) in enumerate(_REGIONS.items()):
        rng = np.random.default_rng([seed, dim, place])
        classifier = _trained(dim, inside, rng)
        weights = _weights(classifier)
        for image, epsilon in _chosen(weights, dim, -(-number // 4), draws // 100, rng):
            log_p, error = _counted(weights, image, epsilon, draws, rng)
            name = f"learnt {region}"
            yield Case(name, dim, "linf", classifier, log_p, error, image, epsilon)


def _trained(dim: int, region: Callable, rng: np.random.Generator) -> jaxrob.Classifier:
    x = rng.random((_TRAINED_ON, dim), np.float32)
    inside = region(x, rng)
    # As many of either class.
    few = min(inside.sum(), (~inside).sum())
    kept = np.concatenate(
        [rng.choice(np.flatnonzero(which), few) for which in (inside, ~inside)]
    )
    data = jaxrob.Dataset(
        x[kept][:, :, None, None], inside[kept].astype(np.int32), ("0", "1")
    )
    key = jax.random.key(int(rng.integers(2**31)))
    return training.fit(
        _Network(), data, key=key, images_seen=400_000, optimizer=optax.adam(3e-3)
    )


def _weights(classifier: jaxrob.Classifier) -> list[tuple[np.ndarray, np.ndarray]]:
    layers = classifier.variables["params"]
    return [
        (np.asarray(layers[name]["kernel"]), np.asarray(layers[name]["bias"]))
        for name in sorted(layers)
    ]


def _margin(weights: list[tuple[np.ndarray, np.ndarray]], x: np.ndarray) -> np.ndarray:
    """Returns the logit of class 1 less that of class 0, of points `[n, dim]`."""
    for kernel, bias in weights[:-1]:
        x = np.maximum(x @ kernel + bias, 0)
    kernel, bias = weights[-1]
    return x @ (kernel[:, 1] - kernel[:, 0]) + (bias[1] - bias[0])


def _hits(
    weights: Any, image: np.ndarray, epsilon: float, number: int, rng: Any
) -> int:
    """Counts distinct misclassifications among draws from the L-infinity ball."""
    sign = -1 if _margin(weights, image[None])[0] > 0 else 1
    hits = 0
    for first in range(0, number, _BATCH):
        size = (min(_BATCH, number - first), len(image))
        u = 2 * rng.random(size, np.float32) - 1
        hits += int((sign * _margin(weights, image + epsilon * u) >= LOGIT).sum())
    return hits


def _chosen(
    weights: Any, dim: int, number: int, draws: int, rng: np.random.Generator
) -> list[tuple[np.ndarray, float]]:
    """Chooses points and radii with few hits among crude draws, the rarest first."""
    found = []
    for image in rng.uniform(0.2, 0.8, (_POINTS, dim)).astype(np.float32):
        for epsilon in _RADII:
            hits = _hits(weights, image, epsilon, draws, rng)
            if _FEWEST_HITS <= hits <= _MOST_PROBABLE * draws:
                found.append((hits, len(found), image, epsilon))
    return [(image, epsilon) for _, _, image, epsilon in sorted(found)[:number]]


def _counted(
    weights: Any, image: np.ndarray, epsilon: float, most: int, rng: Any
) -> tuple[float, float]:
    hits = draws = 0
    while hits < _HITS and draws < most:
        number = min(10 * _BATCH, most - draws)
        hits += _hits(weights, image, epsilon, number, rng)
        draws += number
    if not hits:
        return -np.inf, np.inf
    return float(np.log(hits / draws)), float(hits**-0.5)


def _wedge(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Whether points lie between two nearly parallel planes, beside their line."""
    first, second = x[:, 0] - 0.5, x[:, 1] - rng.uniform(0.4, 0.6)
    return (first > 0) & (np.abs(second) < 0.25 * first)


def _slab(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    direction = rng.standard_normal(x.shape[1])
    along = (x - 0.5) @ (direction / np.linalg.norm(direction))
    return np.abs(along - np.quantile(along, 0.6)) < 0.05


def _islands(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    centres = rng.uniform(0.2, 0.8, (3, x.shape[1]))
    nearest = np.linalg.norm(x[:, None] - centres, axis=2).min(axis=1)
    return nearest < np.quantile(nearest, 0.08)


_REGIONS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "corner": lambda x, rng: x.min(axis=1) > 1 - 0.3 ** (1 / x.shape[1]),
    "slab": _slab,
    "wedge": _wedge,
    "islands": _islands,
}
