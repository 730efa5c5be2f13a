"""Classifiers whose distinct misclassifications have several parts, of known volume.

Each has the logit 0 for class 0, which is predicted at the middle of an image of 1/2,
and one or two other classes, whose logits are functions of u = (x - 1/2) / epsilon.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import integrate, optimize, special, stats

import jaxrob

EPSILON, DELTA = 0.1, 0.6
LOGIT = float(special.logit(DELTA))

# Logits per standard deviation of a linear part.
_STEEPNESS = 6.0
_THINNEST = 2e-6


class Case(NamedTuple):
    """A classifier of images `[N, dim, 1, 1]` and the probability of the event."""

    name: str
    dim: int
    norm: str
    classifier: jaxrob.Classifier
    log_probability: float
    error: float = 0.0
    image: np.ndarray | None = None  # [dim]
    epsilon: float = EPSILON


class _Mode(NamedTuple):
    """A half-space: its class, normal, log-probability and steepness."""

    cls: int
    direction: np.ndarray
    log_probability: float
    steepness: float = _STEEPNESS


def several_modes(dim: int, norm: str, probability: float, seed: int) -> Iterator[Case]:
    """Twelve families of half-spaces; "steep" ones hide behind shallow ones."""
    # Directions are opposite or share no coordinate: then events are independent in the
    # L-infinity ball, and nearly exclusive in the L2 ball.
    rng = np.random.default_rng(seed)
    whole = rng.standard_normal(dim)
    two, three = _apart(dim, 2, rng), _apart(dim, 3, rng)
    many = _apart(dim, 8 if dim >= 50 else 4, rng)
    steep = 5 * _STEEPNESS
    layouts: dict[str, list[tuple[int, np.ndarray, float, float]]] = {
        "opposite 1:1": [(1, whole, 1, 0), (1, -whole, 1, 0)],
        "opposite 10:1": [(1, whole, 10, 0), (1, -whole, 1, 0)],
        "orthogonal 1:1": [(1, two[0], 1, 0), (1, two[1], 1, 0)],
        "orthogonal 10:1": [(1, two[0], 10, 0), (1, two[1], 1, 0)],
        "orthogonal 100:1": [(1, two[0], 100, 0), (1, two[1], 1, 0)],
        "three": [(1, one, 1, 0) for one in three],
        "opposite, orthogonal": [
            (1, two[0], 2, 0), (1, -two[0], 1, 0), (1, two[1], 1, 0)
        ],
        "many": [(1, one, 1, 0) for one in many],
        "two classes": [
            (1, three[0], 1, 0), (1, -three[0], 1, 0), (2, three[1], 1, 0)
        ],
        "rarer one steeper": [(1, two[0], 10, 0), (1, two[1], 1, steep)],
        "steep, opposite": [(1, whole, 1, 0), (1, -whole, 1, steep)],
        "steep, likelier": [(1, two[0], 1, 0), (1, two[1], 10, steep)],
    }  # fmt: skip
    for name, layout in layouts.items():
        total = sum(weight for _, _, weight, _ in layout)
        modes = [
            _Mode(cls, a, float(np.log(probability * w / total)), s or _STEEPNESS)
            for cls, a, w, s in layout
        ]
        yield Case(name, dim, norm, _half_spaces(modes, norm), _union(modes, norm))


def few_dimensions(probability: float, seed: int) -> Iterator[Case]:
    """Returns corners, islands and slabs of a box of 2, 5 and 10 dimensions."""
    rng = np.random.default_rng(seed)
    for dim in (2, 5, 10):
        if (side := 2 * probability ** (1 / dim)) < 0.9:
            yield _case("corner", dim, _corners, (side, 1), probability)
        if (side := 2 * (probability / 2) ** (1 / dim)) < 0.9:
            yield _case("two corners", dim, _corners, (side, -1), probability)
        log_unit = dim / 2 * np.log(np.pi) - special.gammaln(dim / 2 + 1)
        radius = np.exp((np.log(probability) + dim * np.log(2) - log_unit) / dim)
        if radius < 0.45:
            islands = rng.uniform(-0.5, 0.5, (1, dim)), [radius], [5.0]
            yield _case("island", dim, _islands, islands, probability)
    # In a square, an inclined slab that leaves by two opposite sides has the area width
    # / cosine. Thinner slabs are thinner than pixels' float32 steps.
    for angle in (0.0, 0.3) if probability > _THINNEST else ():
        direction, half = [np.cos(angle), np.sin(angle)], probability * np.cos(angle)
        slab = direction, rng.uniform(-0.4, 0.4), half
        yield _case(f"slab {angle:g}", 2, _slab, slab, probability)
    radius = np.sqrt(probability * 4 / np.pi / 2)
    centres = [[0.5, 0.5], [-0.5, -0.4]]
    for name, steepness in (("islands", 5.0), ("islands, one steep", 25.0)):
        islands = centres, [radius] * 2, [5.0, steepness]
        yield _case(name, 2, _islands, islands, probability)


def _case(
    name: str, dim: int, logit: Callable, variables: Any, probability: float
) -> Case:
    variables = jax.tree.map(
        np.float32, variables, is_leaf=lambda v: isinstance(v, list)
    )
    classifier = jaxrob.Classifier(logit, variables)
    return Case(name, dim, "linf", classifier, float(np.log(probability)))


def _apart(dim: int, number: int, rng: np.random.Generator) -> list[np.ndarray]:
    places, directions = rng.permutation(dim), np.zeros((number, dim))
    for first, direction in enumerate(directions):
        mine = places[first::number]
        direction[mine] = rng.standard_normal(len(mine))
    return list(directions)


def _union(modes: list[_Mode], norm: str) -> float:
    log_p = np.array([mode.log_probability for mode in modes])
    if norm == "l2":
        return float(special.logsumexp(log_p))
    # Modes on one line exclude each other; lines are independent.
    lines: list[tuple[np.ndarray, float]] = []
    for mode in modes:
        for place, (direction, p) in enumerate(lines):
            if np.any(direction * mode.direction):
                lines[place] = direction, p + np.exp(mode.log_probability)
                break
        else:
            lines.append((mode.direction, np.exp(mode.log_probability)))
    return float(np.log(-np.expm1(sum(np.log1p(-p) for _, p in lines))))


def _half_spaces(modes: list[_Mode], norm: str) -> jaxrob.Classifier:
    weights, offsets = [], []
    for mode in modes:
        a = mode.direction
        highest = np.abs(a).sum() if norm == "linf" else np.linalg.norm(a)
        deviation = np.linalg.norm(a) / np.sqrt(3 if norm == "linf" else len(a) + 2)

        def log_probability(t: float, a: np.ndarray = a) -> float:
            return linear_log_probability(a, t, norm) if t else np.log(0.5)

        far = threshold(log_probability, mode.log_probability, 0.9999 * highest)
        scale = mode.steepness / deviation
        weights.append(scale * a)
        offsets.append(LOGIT - scale * far)
    classes = np.array([mode.cls for mode in modes])
    elsewhere = np.where(classes[:, None] == np.arange(1, classes.max() + 1), 0, -1e9)
    variables = np.float32(weights), np.float32(offsets), np.float32(elsewhere)
    return jaxrob.Classifier(_greatest, variables)


def _points(images: jax.Array) -> jax.Array:
    return (images.reshape(len(images), -1) - 0.5) / EPSILON


def _greatest(variables: Any, images: jax.Array) -> jax.Array:
    weights, offsets, elsewhere = variables
    logits = jnp.matmul(_points(images), weights.T, precision="highest") + offsets
    logits = (logits[:, :, None] + elsewhere).max(axis=1)
    return jnp.pad(logits, ((0, 0), (1, 0)))


def _second(margin: jax.Array) -> jax.Array:
    return jnp.stack([jnp.zeros_like(margin), margin + LOGIT], axis=1)


def _corners(variables: Any, images: jax.Array) -> jax.Array:
    """The corner of all ones, and the opposite one if the sign is -1."""
    (side, sign), u = variables, _points(images)
    inside = jnp.maximum(u.min(axis=1), (sign * u).min(axis=1))
    return _second(20 * (inside - 1 + side))


def _islands(variables: Any, images: jax.Array) -> jax.Array:
    centres, radii, steepness = variables
    difference = _points(images)[:, None] - centres
    # The root has no gradient at 0.
    distance = jnp.sqrt((difference**2).sum(axis=2) + 1e-12)
    return _second((steepness * (radii - distance)).max(axis=1))


def _slab(variables: Any, images: jax.Array) -> jax.Array:
    direction, centre, half = variables
    along = jnp.matmul(_points(images), direction, precision="highest")
    return _second(20 * (half - jnp.abs(along - centre)))


# Probabilities that a linear function exceeds a threshold in a unit ball.


def _in_box(a: np.ndarray, t: float) -> float:
    """Log P(a . u >= t) for u uniform in [-1, 1]^d, for d at least 3, within 1e-9."""
    # The inverse Laplace transform along a line through its saddle point (Lugannani and
    # Rice, 1980), where the integrand hardly cancels.
    a = np.abs(np.asarray(a, np.float64))
    a = a[a > 0]
    if t < 0:
        return np.log1p(-np.exp(_in_box(a, -t)))

    def cumulant(z: complex) -> complex:
        # log(sinh(a z) / (a z)), without overflow.
        az = a * z
        return (az + np.log(-np.expm1(-2 * az)) - np.log(2 * az)).sum()

    def slope(theta: float) -> float:
        return (a / np.tanh(a * theta) - 1 / theta).sum() - t

    deviation = np.sqrt((a**2).sum() / 3)
    # Away from the pole at 0.
    theta, high = 1 / deviation, 2 / deviation
    if slope(theta) < 0:
        while slope(high) < 0:
            high *= 2
        theta = optimize.root_scalar(slope, bracket=(theta, high)).root
    top = cumulant(theta) - theta * t

    def integrand(w: float) -> float:
        z = theta + 1j * w / deviation
        return (np.exp(cumulant(z) - z * t - top) / z).real

    area = integrate.quad(integrand, 0, np.inf, limit=1000, epsabs=0, epsrel=1e-9)[0]
    return top + np.log(area / (np.pi * deviation))


def linear_log_probability(a: np.ndarray, t: float, norm: str) -> float:
    """Log P(a . u >= t) for u uniform in the unit ball of a norm."""
    if norm == "linf":
        return _in_box(a, t)
    # For a coordinate s of u, (1 + s) / 2 ~ Beta((d + 1) / 2, the same).
    half, length = (len(a) + 1) / 2, float(np.linalg.norm(a))
    return float(stats.beta.logsf((1 + t / length) / 2, half, half))


def threshold(
    log_probability: Callable[[float], float], log_p: float, high: float
) -> float:
    """Finds t in (0, high) at which a decreasing `log_probability(t)` is `log_p`."""
    return optimize.root_scalar(
        lambda t: log_probability(t) - log_p, bracket=(0, high), xtol=1e-12
    ).root
