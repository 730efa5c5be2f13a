"""Alterations of each value: brightness, contrast, saturation and noise."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri

from jaxrob._arguments.checks import checked_flag
from jaxrob._identity.identity import hashable_partial
from jaxrob._keys import random_words
from jaxrob.alterations._alteration import (
    About,
    Alteration,
    as_given,
    at_part,
    check_colours,
    check_floating,
    check_image,
    checked_range,
    in_float32,
    with_part,
)

# The largest plausible level: pixels six times as bright.
_BRIGHTEST = 5.0


def brightness(lower: float = -0.5, upper: float = 0.5) -> Alteration:
    """Under- or overexposure: every pixel times `1 + level`, clipped to [0, 1].

    Arcaini et al. (2020), table I (BV). The level is a relative change, at least -1,
    which gives a black image; the identity is 0.
    `PIL.ImageEnhance.Brightness(image).enhance(1 + level)` does the same on bytes. Of
    the range and errors see `jaxrob.alterations`.
    """
    lower, upper = checked_range("brightness", lower, upper, 0.0)
    if lower < -1:
        raise ValueError(
            "brightness: lower must lie in [-1, 0], because levels are relative "
            f"changes (divide percent by 100); got {lower:g}"
        )
    return Alteration(
        "brightness",
        _brighten,
        lower,
        upper,
        identity=0.0,
        unit="relative change",
        about=About(
            "pixels are multiplied by 1 + level",
            range_from="as in the papers",
            doubt=_too_bright,
        ),
    )


def _too_bright(lower: float, upper: float, image_shape: tuple[int, ...]) -> str | None:
    if upper <= _BRIGHTEST:
        return None
    return (
        f"a level of {upper:g} makes pixels {1 + upper:g} times as bright, so that all "
        "but the darkest are white. Levels are relative changes: divide percent by "
        f"100, {upper / 100:g}."
    )


def _brighten(image: jax.Array, level: jax.Array) -> jax.Array:
    check_image("brightness", image)
    return jnp.clip(image * (1 + level), 0.0, 1.0)


def contrast(lower: float = 0.05, upper: float = 1.0) -> Alteration:
    """Draws every value towards the mean of its channel, as haze or flat light does.

    The level is the factor of the distance to the mean, at least 0, which leaves a
    single colour; levels above 1, the identity, raise the contrast. The result is
    clipped to [0, 1]. Of the range and errors see `jaxrob.alterations`.
    """
    lower, upper = checked_range("contrast", lower, upper, 1.0, at_least=0)
    return Alteration(
        "contrast",
        hashable_partial(at_part, function=about_means),
        lower,
        upper,
        identity=1.0,
        unit="factor",
        prepare=hashable_partial(with_part, name="contrast", part=channel_means),
        about=About(
            "of the distance to the mean of each channel",
            range_from="ImageNet-C's severity 5",
        ),
    )


def channel_means(image: jax.Array) -> jax.Array:
    return image.mean((0, 1))


def about_means(
    image: jax.Array, means: jax.Array, factor: jax.typing.ArrayLike
) -> jax.Array:
    """Scales the image's distance to the means by a factor; clips to [0, 1]."""
    # Not the means plus the product: this form is exactly the image at a factor of 1.
    return jnp.clip(image * factor + means * (1 - factor), 0.0, 1.0)


def saturation(lower: float = 0.0, upper: float = 2.0) -> Alteration:
    """Makes colours paler or more vivid, at the same hue and value (V of HSV).

    The level is the factor of the saturation, S of HSV, which stays at most 1; the
    identity is 1. At 0, the lowest, each pixel is as bright as its brightest channel,
    and grey. Images have three channels. Of the range and errors see
    `jaxrob.alterations`.
    """
    lower, upper = checked_range("saturation", lower, upper, 1.0, at_least=0)
    return Alteration(
        "saturation",
        _at_saturation,
        lower,
        upper,
        identity=1.0,
        unit="factor",
        about=About(
            "of the saturation, S of HSV; 0 is grey",
            range_from="from grey to ImageNet-C's severity 3",
        ),
    )


def saturated(
    image: jax.Array, factor: jax.typing.ArrayLike, offset: jax.typing.ArrayLike
) -> jax.Array:
    # The saturation is clipped to [0, 1]. Grey has the hue of red.
    value = image.max(-1, keepdims=True)
    spread = value - image.min(-1, keepdims=True)
    # Grey pixels have no hue, and black ones no saturation: 1 avoids NaN in both.
    is_grey = spread == 0
    of_grey = jnp.clip(jnp.asarray(offset, jnp.float32), 0.0, 1.0)
    red = value * (1 - of_grey * jnp.array([0, 1, 1], jnp.float32))
    before = jnp.where(is_grey, 1.0, spread) / jnp.where(value > 0, value, 1.0)
    before = jnp.minimum(before, 1.0)
    more = (jnp.clip(factor * before + offset, 0.0, 1.0) - before) / before
    # Where nothing is added this is exactly the image, however XLA divides.
    return jnp.clip(jnp.where(is_grey, red, image + (image - value) * more), 0.0, 1.0)


def _at_saturation(image: jax.Array, level: jax.Array) -> jax.Array:
    check_colours("saturation", image)
    return saturated(image, level, 0.0)


def gaussian_noise(
    lower: float = 0.0, upper: float = 200 / 255**2, clip: bool = True
) -> Alteration:
    """Adds zero-mean normal noise, independent for each pixel and channel.

    Arcaini et al. (2020), table I (GN). The level is the variance, for pixels in
    [0, 1]: the paper's [0, 200] on pixels in 0-255 is [0, 200 / 255**2]. The same key
    gives the same noise at every level, up to its scale, and for images of every
    precision. Of the range and errors see `jaxrob.alterations`.

    Args:
      lower: lowest variance, 0.
      upper: highest variance.
      clip: whether the result is clipped to [0, 1], as a sensor saturates. Without it
        the alteration takes arrays of any shape.
    """
    lower, upper = checked_range("gaussian_noise", lower, upper, 0.0, at_least=0)
    clip = checked_flag("gaussian_noise: clip", clip)
    return Alteration(
        "gaussian noise",
        hashable_partial(_add_noise, clip=clip),
        lower,
        upper,
        identity=0.0,
        unit="variance",
        stochastic=True,
        prepare=hashable_partial(
            with_part,
            name="gaussian_noise",
            part=draw_noise,
            check=check_image if clip else check_floating,
        ),
        about=About(
            "of what is added to each pixel, pixels lying in [0, 1]",
            {"clip": clip},
            {"clip": f"pixels {'stay in' if clip else 'may leave'} [0, 1]"},
            range_from="200 / 255**2, as in the paper of 2020",
            doubt=_too_noisy,
            leaves_range=not clip,
        ),
    )


def _too_noisy(lower: float, upper: float, image_shape: tuple[int, ...]) -> str | None:
    if upper <= 1:
        return None
    return (
        f"a variance of {upper:g} is a standard deviation of {math.sqrt(upper):.3g}, "
        "but pixels lie in [0, 1], so that nothing is left of the image. For pixels of "
        f"0-255 divide it by 255**2: {upper / 255**2:.3g}."
    )


def draw_noise(image: jax.Array, key: jax.Array) -> jax.Array:
    """Draws standard normal numbers, float32, one for each of the array's values."""
    # Drawn in the array's own type, one key would give other noise for each type.
    return normal(key, image.shape)


def add_noise(
    image: jax.Array, noise: jax.Array, scale: jax.typing.ArrayLike
) -> jax.Array:
    return as_given(jnp.clip(image + scale * noise, 0.0, 1.0), image)


def _add_noise(
    image_and_noise: tuple[jax.Array, jax.Array], level: jax.Array, *, clip: bool
) -> jax.Array:
    image, noise = image_and_noise
    # The square root's slope at 0 is infinite: keep 0 out of the branch not taken.
    positive = level > 0
    scale = jnp.where(positive, jnp.sqrt(jnp.where(positive, level, 1.0)), 0.0)
    if clip:
        return add_noise(image, noise, scale)
    return as_given(image + scale * noise, image)


def speckle_noise(lower: float = 0.0, upper: float = 0.6) -> Alteration:
    """Normal noise in proportion to the value, as in coherent light, radar or sound.

    The level is the noise's standard deviation as a share of the value, from 0 on: x
    plus level times x times a standard normal for each value, clipped to [0, 1]. Of the
    range and errors see `jaxrob.alterations`.
    """
    lower, upper = checked_range("speckle_noise", lower, upper, 0.0, at_least=0)
    return Alteration(
        "speckle noise",
        hashable_partial(at_part, function=add_speckle),
        lower,
        upper,
        identity=0.0,
        unit="share of the value",
        stochastic=True,
        prepare=hashable_partial(with_part, name="speckle_noise", part=draw_noise),
        about=About(
            "the noise's standard deviation", range_from="ImageNet-C's severity 5"
        ),
    )


def add_speckle(
    image: jax.Array, noise: jax.Array, scale: jax.typing.ArrayLike
) -> jax.Array:
    """Adds to the image itself times noise of a standard deviation; clips to [0, 1]."""
    return add_noise(image, image * noise, scale)


class ImpulseDraws(NamedTuple):
    """The random draws for each of the image's values."""

    uniform: jax.Array  # in [0, 1), the share of values above which this one is hit
    is_salt: jax.Array  # whether a hit sets it to 1, else to 0


def impulse_noise(lower: float = 0.0, upper: float = 0.3) -> Alteration:
    """Salt and pepper: sets a share of the values to 0 or 1, as bit errors do.

    The level is the share, from 0 to at most 1. Each value of each channel is hit on
    its own, and is set to 0 as often as to 1. A value that is hit at one level is hit,
    and set to the same, at all levels above. Of the range and errors see
    `jaxrob.alterations`.
    """
    lower, upper = checked_range(
        "impulse_noise", lower, upper, 0.0, at_least=0, at_most=1
    )
    return Alteration(
        "impulse noise",
        hashable_partial(at_part, function=set_impulses),
        lower,
        upper,
        identity=0.0,
        unit="share of values",
        stochastic=True,
        prepare=hashable_partial(with_part, name="impulse_noise", part=draw_impulses),
        about=About(
            "values that are set to 0 or 1", range_from="about ImageNet-C's severity 5"
        ),
    )


def draw_impulses(image: jax.Array, key: jax.Array) -> ImpulseDraws:
    """Draws hits and their values from one random word: 24 bits and one more bit."""
    word = jax.random.bits(key, image.shape, jnp.uint32)
    return ImpulseDraws((word >> 8).astype(jnp.float32) * 2.0**-24, (word & 1) == 1)


def set_impulses(
    image: jax.Array, draws: ImpulseDraws, share: jax.typing.ArrayLike
) -> jax.Array:
    return jnp.where(draws.uniform < share, as_given(draws.is_salt, image), image)


# Counts up to this number are found by adding up probabilities, larger ones by an
# expansion about the normal quantile.
_ADDED = 10
# Coefficients of powers of t = w / sqrt(mean), from t^3, t and 1, w a normal quantile,
# fitted to quantiles of means from 3 to 3,000, off by at most 6e-5 for |w| <= 3.
_MEAN = (-0.0138874, 0.00373015, -0.00141108, 0.000564577, -0.000156699, 1.96701e-05)
_FREE = (-0.0277855, 0.00852554, -0.00304924, 0.00119074, -0.000304539)
_OVER_MEAN = (-0.01977, 0.0172464, -0.0110838, 0.00311982)


class ShotDraws(NamedTuple):
    """One number for each of the image's values."""

    # in [0, 1); the count is the Poisson distribution's quantile at it
    uniform: jax.Array
    normal: jax.Array  # the standard normal distribution's quantile at it


def shot_noise(lower: float = 0.0, upper: float = 1 / 3) -> Alteration:
    """Counts photons, as a sensor in low light does.

    The level, from 0 on, is 1 / n, where n photons make a value of 1: a value x becomes
    a Poisson number of mean n x, divided by n and clipped to [0, 1]. Its variance is x
    times the level. At every level the count is the Poisson distribution's quantile at
    the same uniform number, so that a value moves by single photons. No gradient passes
    to the image. Of the range and errors see `jaxrob.alterations`.
    """
    lower, upper = checked_range("shot_noise", lower, upper, 0.0, at_least=0)
    return Alteration(
        "shot noise",
        hashable_partial(at_part, function=count_photons),
        lower,
        upper,
        identity=0.0,
        unit="1 / photons",
        stochastic=True,
        prepare=hashable_partial(with_part, name="shot_noise", part=draw_shots),
        about=About(
            "one over the photons that make a value of 1",
            range_from="down to the 3 photons of ImageNet-C's severity 5",
        ),
    )


def shot_draws(uniform: jax.Array) -> ShotDraws:
    # 0 has no normal quantile; its count is 0 in any case.
    return ShotDraws(uniform, ndtri(jnp.maximum(uniform, 2.0**-25)))


def draw_shots(image: jax.Array, key: jax.Array) -> ShotDraws:
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
    return jnp.where(counted, as_given(jnp.clip(counts * safe, 0.0, 1.0), image), image)


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
    small = w * w * t * _polynomial(_MEAN, t)
    small = small + t * _polynomial(_FREE, t) + _polynomial(_OVER_MEAN, t) / mean
    return jnp.floor(mean + (root * w + (w * w / 6 + 1 / 3 + small)))


def _polynomial(coefficients: tuple[float, ...], t: jax.Array) -> jax.Array:
    found = jnp.zeros_like(t)
    for coefficient in reversed(coefficients):
        found = found * t + coefficient
    return found


# The standard deviation of the 2**16 numbers that halves of words are mapped to.
_SPREAD = 0.99998986


def normal(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Draws standard normal numbers with 16 random bits each."""
    # Random bits take most of the time of a normal number, so half a word has to do:
    # 65,536 quantiles, scaled to variance 1. The largest is 4.325, the kurtosis 2.9992.
    size = math.prod(shape)
    words = random_words(key, -(-size // 2))
    # Each half by itself: XLA does not vectorise the quantiles of joined halves, which
    # take a CPU seven times as long.
    numbers = jnp.stack([_quantiles(words >> 16), _quantiles(words & 0xFFFF)])
    return numbers.reshape(-1)[:size].reshape(shape)


def _quantiles(halves: jax.Array) -> jax.Array:
    """Maps whole numbers below 2**16, equally probable, to standard normal ones."""
    # Through int32, because CPUs convert signed integers faster.
    middle = (halves.astype(jnp.int32).astype(jnp.float32) + 0.5) * 2**-15 - 1
    return math.sqrt(2) / _SPREAD * jax.scipy.special.erfinv(middle)
