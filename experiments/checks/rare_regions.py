"""Regions of a box that few of many directions make, of exactly known volume.

Each is where a classifier's second logit exceeds a bound: a function of a few of the
coordinates u = (x - 1/2) / epsilon, at random places and with random signs. Networks
look like this where an object's few pixels decide.

`FOUND_WITH` served to find what was wrong; `LEFT_ASIDE` was looked at once, afterwards.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from common.known_modes import EPSILON, LOGIT, Case
from scipy import optimize, special

import jaxrob

# Coordinates that any region depends on, at most.
_MOST = 8
_STEEPNESS = 20.0
# Thin ones are so many times more probable, or they would be thinner than the steps of
# pixels in float32.
_OF_THIN = 50.0


class Region(NamedTuple):
    """A region, defined by a function of some coordinates."""

    name: str  # what it is called, for the most part after the function
    kind: str  # the function, of `_KINDS`
    size: int  # how many coordinates it depends on, k
    steepness: float = _STEEPNESS  # logits that a unit of the function is
    saturated: bool = False  # whether the outputs are one-hot


FOUND_WITH = (
    Region("product of 2", "product", 2),
    Region("product of 4", "product", 4),
    Region("product of 2, steep", "product", 2, 160.0),
    Region("ring", "ring", 2),
    Region("corner", "corner", 3),
    Region("all corners", "corners", 4),
    Region("simplex", "simplex", 5),
    Region("saddle", "saddle", 2),
    Region("outside a circle", "circle", 2),
    Region("any of 5", "any", 5),
    Region("island", "island", 3),
    Region("one, steep", "any", 1, 160.0),
    Region("product of 2, one-hot", "product", 2, saturated=True),
)
LEFT_ASIDE = (
    Region("product of 3", "product", 3),
    Region("product of 6", "product", 6),
    Region("shell", "shell", 3),
    Region("corner of 6, steep", "corner", 6, 100.0),
    Region("all corners of 2", "corners", 2),
    Region("simplex of 3, shallow", "simplex", 3, 5.0),
    Region("saddle, steep", "saddle", 2, 100.0),
    Region("outside a circle, steep", "circle", 2, 100.0),
    Region("any of 2, steep", "any", 2, 200.0),
    Region("two products", "two products", 4),
    Region("either product", "either product", 6),
    Region("slab", "slab", 1),
    Region("corner of 2, one-hot", "corner", 2, saturated=True),
)


def cases(
    regions: Sequence[Region], dim: int, probability: float, seed: int
) -> Iterator[Case]:
    """Cases of the regions that fit into a box of `dim` dimensions."""
    rng = np.random.default_rng(seed)
    for region in regions:
        places = np.resize(rng.permutation(dim), _MOST).astype(np.int32)
        signs = np.float32(rng.choice([-1.0, 1.0], _MOST))
        if region.size > dim:
            continue
        p = probability * (_OF_THIN if region.kind in _THIN else 1)
        bounds = _bounds(region, p)
        number, size = np.int32(_NUMBERS[region.kind]), np.int32(region.size)
        how = np.float32(region.steepness), np.bool_(region.saturated)
        variables = number, size, places, signs, np.array(bounds, np.float32), *how
        classifier = jaxrob.Classifier(_logits, variables)
        yield Case(region.name, dim, "linf", classifier, float(np.log(p)))


def _bounds(region: Region, p: float) -> tuple[float, float]:
    """The two numbers that make the region as probable as `p`."""
    k = region.size
    match region.kind:
        case "product":
            return _product_bound(k, p), 0.0
        case "two products":
            return _product_bound(2, math.sqrt(p)), 0.0
        case "either product":
            return _product_bound(2, -math.expm1(math.log1p(-p) / 3)), 0.0
        case "ring":  # Between 0.6 and a little more.
            return 0.6, math.sqrt(0.36 + 4 * p / math.pi)
        case "shell":
            return 0.6, (0.216 + 6 * p / math.pi) ** (1 / 3)
        case "corner":
            return 1 - 2 * p ** (1 / k), 0.0
        case "corners":
            return 1 - p ** (1 / k), 0.0
        case "simplex":
            # The sum of k uniform numbers is below s <= 1 with probability s^k / k!.
            return 2 * math.exp((math.log(p) + math.lgamma(k + 1)) / k), 0.0
        case "saddle":
            return _root(lambda t: _saddle(t) - p), 0.0
        case "circle":
            return _root(lambda r: _outside(1 + r) - p, math.sqrt(2) - 1) + 1, 0.0
        case "any":
            return math.exp(math.log1p(-p) / k), 0.0
        case "slab":
            return 0.3, p
        case "island":
            return 0.4, 2 * (p / (4 / 3 * math.pi)) ** (1 / 3)
    raise ValueError(region.kind)


def _root(function: Callable[[float], float], high: float = 1.0) -> float:
    bracket = 1e-12, high - 1e-12
    return optimize.root_scalar(function, bracket=bracket, xtol=1e-15).root


def _product_bound(k: int, p: float) -> float:
    """-log of a product of uniform numbers is a gamma variable; half of signs fit."""
    return math.exp(-special.gammaincinv(k, 2 * p))


def _saddle(t: float) -> float:
    rest = math.sqrt(1 - t)
    return (rest - t * math.log((1 + rest) / math.sqrt(t))) / 2


def _outside(r: float) -> float:
    return 1 - math.sqrt(r * r - 1) - r * r * (math.pi / 4 - math.acos(1 / r))


def _between(r: jax.Array, bounds: jax.Array) -> jax.Array:
    return jnp.minimum(r - bounds[0], bounds[1] - r)


def _norm(z: jax.Array) -> jax.Array:
    # The root has no gradient at 0.
    return jnp.sqrt((z**2).sum(axis=1) + 1e-12)


# Functions of all places, and which of them count.
_KINDS = {
    "product": lambda z, b, n: jnp.where(n, z, 1).prod(axis=1) - b[0],
    "two products": lambda z, b, n: (
        jnp.minimum(z[:, 0] * z[:, 1], z[:, 2] * z[:, 3]) - b[0]
    ),
    "either product": lambda z, b, n: (z[:, :6:2] * z[:, 1:6:2]).max(axis=1) - b[0],
    "ring": lambda z, b, n: _between(_norm(z * n), b),
    "shell": lambda z, b, n: _between(_norm(z * n), b),
    "corner": lambda z, b, n: jnp.where(n, z, 1).min(axis=1) - b[0],
    "corners": lambda z, b, n: jnp.where(n, jnp.abs(z), 1).min(axis=1) - b[0],
    "simplex": lambda z, b, n: b[0] - ((1 - z) * n).sum(axis=1),
    "saddle": lambda z, b, n: z[:, 0] ** 2 - z[:, 1] ** 2 - b[0],
    "circle": lambda z, b, n: _norm(z * n) - b[0],
    "any": lambda z, b, n: jnp.abs(z * n).max(axis=1) - b[0],
    "slab": lambda z, b, n: b[1] - jnp.abs(z[:, 0] - b[0]),
    "island": lambda z, b, n: b[1] - _norm((z - b[0]) * n),
}
_THIN = ("ring", "shell", "slab", "any")
_NUMBERS = {kind: number for number, kind in enumerate(_KINDS)}


def _logits(variables: Any, images: jax.Array) -> jax.Array:
    # One function for all regions, so that they share what is compiled.
    number, size, places, signs, bounds, steepness, saturated = variables
    u = (images.reshape(len(images), -1) - 0.5) / EPSILON
    z = u[:, places] * signs
    counts = jnp.arange(_MOST) < size
    margin = jnp.stack([of(z, bounds, counts) for of in _KINDS.values()])[number]
    one_hot = jnp.where(margin >= 0, 1e4, -1e4)
    margin = jnp.where(saturated, one_hot, steepness * margin + LOGIT)
    return jnp.stack([jnp.zeros_like(margin), margin], axis=1)
