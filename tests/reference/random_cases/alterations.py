"""Alterations of the library beside the reference's."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy_reference import alterations as slow

import jaxrob
from jaxrob import alterations

# Keys of more images than any case has: one program for all.
MOST_IMAGES = 80


class Pair(NamedTuple):
    """An alteration, and `slow(image, level)`, or `slow(image, level, noise)`."""

    alteration: jaxrob.Alteration
    slow: Callable


def fade(image, level):
    return (1 - level) * image + level * 0.5


def cover(image, level):
    covered = jnp.clip(level - jnp.arange(image.shape[1]), 0, 1)
    return image * (1 - covered)[:, None]


def kill(image, level, key):
    begins = jax.random.uniform(key, image.shape[:2] + (1,))
    return image * jnp.clip(1 - (level - begins) / 0.25, 0, 1)


def trend(vector, level):
    return vector + level * jnp.linspace(-1, 1, len(vector))


@functools.partial(jax.jit, static_argnums=1)
def noise_of_images(key, shape):
    """What `kill` draws for each image: of `fold_in(key, index)` alone."""
    index = jnp.arange(MOST_IMAGES, dtype=jnp.uint32)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, index)
    return jax.vmap(lambda one: jax.random.uniform(one, (*shape[:2], 1)))(keys)


def random_pairs(rng, shape, number):
    """Different alterations that suit images of this shape."""
    if len(shape) == 1:
        makers = [faded, drifting]
    else:
        makers = [brightened, blurred, moved_right, moved_down, zoomed, covered]
        makers += [faded, killed, rescaled, composed]
        makers += [compressed, compressed] if shape[-1] in (1, 3) else []
    chosen = rng.choice(len(makers), min(number, len(makers)), replace=False)
    return [makers[i](rng, shape) for i in chosen]


def brightened(rng, shape):
    lower, upper = rng.choice([-1.0, -0.5, -0.25, 0.0]), rng.choice([0.25, 0.5, 1.0])
    return Pair(alterations.brightness(lower, upper), slow.brightness)


def blurred(rng, shape):
    upper = rng.choice([0.8, 2.0, 5.0])
    return Pair(alterations.gaussian_blur(0.0, upper), slow.gaussian_blur)


def moved_right(rng, shape):
    fill = str(rng.choice(["edge", "constant"]))
    moved = functools.partial(slow.translation, axis=1, fill=fill)
    return Pair(alterations.horizontal_translation(-2.5, 3.0, fill=fill), moved)


def moved_down(rng, shape):
    fill = str(rng.choice(["edge", "constant"]))

    def moved(image, level):
        return slow.translation(image, level * len(image), axis=0, fill=fill)

    alteration = alterations.vertical_translation(
        -0.5, 0.25, fill=fill, unit="relative"
    )
    return Pair(alteration, moved)


def zoomed(rng, shape):
    return Pair(alterations.zoom(1.0, rng.choice([1.5, 2.0, 4.0])), slow.zoom)


def compressed(rng, shape):
    upper = rng.choice([40.0, 100.0])
    return Pair(alterations.jpeg_compression(0.0, upper), slow.jpeg_compression)


def faded(rng, shape):
    return Pair(jaxrob.Alteration("fade", fade, 0.0, 1.0), slow.fade)


def covered(rng, shape):
    upper = float(shape[1])
    return Pair(jaxrob.Alteration("cover", cover, 0.0, upper), slow.cover)


def killed(rng, shape):
    alteration = jaxrob.Alteration("kill", kill, 0.0, 1.25, stochastic=True)
    return Pair(alteration, slow.kill)


def drifting(rng, shape):
    alteration = jaxrob.Alteration("trend", trend, -2.0, 3.0, identity=0.0)
    return Pair(alteration, slow.trend)


def rescaled(rng, shape):
    lower, upper = rng.choice([[0.0, 1.0], [-3.0, 2.0]])
    alteration = alterations.rescale(alterations.zoom(1.0, 2.0), lower, upper)
    return Pair(
        alteration,
        lambda image, level: slow.zoom(image, 1 + (level - lower) / (upper - lower)),
    )


def composed(rng, shape):
    members = [alterations.gaussian_blur(0.0, 2.0), alterations.brightness(0.0, 0.5)]
    return Pair(
        alterations.compose(members),
        lambda image, level: slow.brightness(
            slow.gaussian_blur(image, 2.0 * level), 0.5 * level
        ),
    )


def inside(rng, alteration, number):
    """Levels of the range in any order: some twice, some mirrored, some at the ends."""
    levels = rng.uniform(alteration.lower, alteration.upper, number)
    special = [alteration.lower, alteration.upper, alteration.identity, levels[0]]
    levels = np.where(rng.random(number) < 0.3, rng.choice(special, number), levels)
    # As near to the identity on its other side.
    mirrored = 2 * alteration.identity - rng.choice(levels, number)
    levels = np.where(rng.random(number) < 0.3, mirrored, levels)
    return np.clip(levels, alteration.lower, alteration.upper)
