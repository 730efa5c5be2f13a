"""Shot noise."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri

from jaxrob.alterations._about import About
from jaxrob.alterations._alteration import Alteration, as_given, check_image, in_float32
from jaxrob.alterations._checks import checked_range

# Counts up to this number are found by adding up probabilities, larger ones by an
# expansion about the normal quantile.
_ADDED = 10
# The expansion's coefficients of powers of t = w / sqrt(mean), starting with t^3, t and
# 1, where w is the normal quantile: fitted to the quantiles of means from 3 to 3,000.
# The error is at most 3e-5 for |w| <= 2 and 6e-5 for |w| <= 3, and less for larger
# counts; float32's is 8e-6 at 100.
_TIMES_MEAN = (
    -0.0138874,
    0.00373015,
    -0.00141108,
    0.000564577,
    -0.000156699,
    1.96701e-05,
)
_FREE = (-0.0277855, 0.00852554, -0.00304924, 0.00119074, -0.000304539)
_OVER_MEAN = (-0.01977, 0.0172464, -0.0110838, 0.00311982)


class ShotDraws(NamedTuple):
    """One number for each of the image's values.

    Attributes:
      uniform: in [0, 1); the count is the Poisson distribution's quantile at it.
      normal: the standard normal distribution's quantile at it.
    """

    uniform: jax.Array
    normal: jax.Array


def shot_noise(lower: float = 0.0, upper: float = 1 / 3) -> Alteration:
    """Counts photons, as a sensor in low light does.

    The level is 1 / n, where n photons make a value of 1: a value x becomes a Poisson
    number of mean n x, divided by n and clipped to [0, 1]. Its variance is x times the
    level. At every level the count is the Poisson distribution's quantile at the same
    uniform number, so that a value moves by single photons.

    Args:
      lower: lowest level, 0: the range must hold the identity.
      upper: highest level.

    Returns:
      The alteration; identity 0. No gradient passes to the image.

    Raises:
      ValueError: if `lower` is not 0 or the range empty.
    """
    lower, upper = checked_range("shot_noise", lower, upper, 0.0, at_least=0)
    return Alteration(
        "shot noise",
        _at_photons,
        lower,
        upper,
        identity=0.0,
        unit="1 / photons",
        stochastic=True,
        prepare=_with_draws,
        about=About(
            "one over the photons that make a value of 1",
            range_from="down to the 3 photons of ImageNet-C's severity 5",
        ),
    )


def shot_draws(uniform: jax.Array) -> ShotDraws:
    """Returns the draws of uniform numbers."""
    # 0 has no normal quantile; its count is 0 in any case.
    return ShotDraws(uniform, ndtri(jnp.maximum(uniform, 2.0**-25)))


def draw_shots(image: jax.Array, key: jax.Array) -> ShotDraws:
    """Draws the numbers that determine the photons counted."""
    return shot_draws(jax.random.uniform(key, image.shape, jnp.float32))


def count_photons(
    image: jax.Array, draws: ShotDraws, per_photon: jax.typing.ArrayLike
) -> jax.Array:
    """Replaces the image by photon counts, each worth `per_photon`; clips to [0, 1]."""
    per_photon = jnp.asarray(per_photon, jnp.float32)
    positive = per_photon > 0
    safe = jnp.where(positive, per_photon, 1.0)
    # One division, the same for one level and for many. Half precision could not
    # distinguish large counts.
    counts = poisson_quantile(in_float32(image) * (1 / safe), draws)
    # NaN would otherwise count as one photon.
    counted = positive & ~jnp.isnan(image)
    found = as_given(jnp.clip(counts * safe, 0.0, 1.0), image)
    return jnp.where(counted, found, image)


def poisson_quantile(mean: jax.Array, draws: ShotDraws) -> jax.Array:
    """The smallest count whose cumulative probability reaches `draws.uniform`."""
    mean = jax.lax.stop_gradient(jnp.maximum(mean, 0.0))
    probability = total = jnp.exp(-mean)
    count = jnp.zeros_like(mean)
    for number in range(1, _ADDED + 2):
        count = jnp.where(total < draws.uniform, float(number), count)
        probability = probability * (mean * (1 / number))
        total = total + probability
    return jnp.where(count > _ADDED, _expanded(mean, draws.normal), count)


def _expanded(mean: jax.Array, w: jax.Array) -> jax.Array:
    """Computes the quantile by a Cornish-Fisher expansion, for larger counts."""
    mean = jnp.maximum(mean, 1.0)
    root = jnp.sqrt(mean)
    t = w / root
    small = w * w * t * _polynomial(_TIMES_MEAN, t)
    small = small + t * _polynomial(_FREE, t) + _polynomial(_OVER_MEAN, t) / mean
    return jnp.floor(mean + (root * w + (w * w / 6 + 1 / 3 + small)))


def _polynomial(coefficients: tuple[float, ...], t: jax.Array) -> jax.Array:
    found = jnp.zeros_like(t)
    for coefficient in reversed(coefficients):
        found = found * t + coefficient
    return found


def _with_draws(image: jax.Array, key: jax.Array) -> tuple[jax.Array, ShotDraws]:
    check_image("shot_noise", image)
    return image, draw_shots(image, key)


def _at_photons(
    image_and_draws: tuple[jax.Array, ShotDraws], level: jax.Array
) -> jax.Array:
    return count_photons(*image_and_draws, level)
