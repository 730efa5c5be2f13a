"""Networks and alterations of the library beside the reference's.

Functions and modules are the same objects in all cases, so that compiled programs are
of use again. `weights` are as `numpy_reference` describes.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy_reference as slow
from flax import linen as nn
from flax import nnx

import jaxrob
from jaxrob import alterations

FRAMEWORKS = ("plain", "linen", "nnx", "host")


def classifier_of(framework, weights, outputs, rng):
    """The classifier; of a host function the weights are part of the function."""
    if framework == "plain":
        variables = weights
        if rng.random() < 0.5:
            variables = jax.tree.map(jnp.asarray, weights)
        return jaxrob.Classifier(PLAIN[outputs], variables, outputs=outputs)
    if framework == "linen":
        module = LinenNet(
            weights["conv"][0].shape[-1] if "conv" in weights else 0,
            weights["hidden"][0].shape[-1] if "hidden" in weights else 0,
            weights["last"][0].shape,
            outputs,
        )
        return jaxrob.Classifier.from_linen(module, linen_variables(weights), outputs)
    assert framework == "nnx"
    return jaxrob.Classifier.from_nnx(NnxNet(weights, outputs), outputs)


def host_classifier(weights, outputs):
    """Make it once for all cases of the same weights: the function is compiled in."""

    def predict(images):
        assert type(images) is np.ndarray and images.dtype == np.float32
        rows = np.stack([slow.rows_of(weights, image)[0] for image in images])
        if outputs in ("probabilities", "sigmoid"):
            # A sigmoid head's activations are not normalised.
            return np.asarray(activated(jnp.asarray(rows, jnp.float32), outputs))
        return rows.astype(np.float32)

    num_classes = weights["last"][0].shape[-1]
    return jaxrob.Classifier.from_host(
        predict, num_classes, outputs, name="random network", version="1"
    )


def activated(rows, outputs):
    if outputs == "probabilities":
        return jax.nn.softmax(rows)
    return jax.nn.sigmoid(rows) if outputs == "sigmoid" else rows


def plain(outputs, weights, images):
    x = images
    if "conv" in weights:
        kernel, bias = weights["conv"]
        x = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + bias)
    x = x.reshape(len(x), -1)
    if "hidden" in weights:
        kernel, bias = weights["hidden"]
        x = jax.nn.relu(x @ kernel + bias)
    kernel, bias = weights["last"]
    rows = jnp.einsum("bd,sdk->sbk", x, kernel) + bias[:, None]
    return activated(rows, outputs)


PLAIN = {
    outputs: functools.partial(plain, outputs)
    for outputs in ("logits", "probabilities", "sigmoid", "scores")
}


class LinenNet(nn.Module):
    filters: int
    hidden: int
    last: tuple[int, int, int]
    outputs: str

    @nn.compact
    def __call__(self, x):
        if self.filters:
            x = nn.relu(nn.Conv(self.filters, (3, 3), padding="VALID", name="conv")(x))
        x = x.reshape(len(x), -1)
        if self.hidden:
            x = nn.relu(nn.Dense(self.hidden, name="hidden")(x))
        samples, _, columns = self.last
        x = nn.Dense(samples * columns, name="last")(x)
        return activated(by_sample(x, samples, columns), self.outputs)


def linen_variables(weights):
    params = {
        name: {"kernel": kernel, "bias": bias}
        for name, (kernel, bias) in (weights | {"last": last_joined(weights)}).items()
    }
    return {"params": params}


class NnxNet(nnx.Module):
    def __init__(self, weights, outputs):
        rngs = nnx.Rngs(0)
        self.layers = tuple(weights)
        if "conv" in weights:
            *_, channels, filters = weights["conv"][0].shape
            self.conv = nnx.Conv(channels, filters, (3, 3), padding="VALID", rngs=rngs)
            set_weights(self.conv, *weights["conv"])
        if "hidden" in weights:
            self.hidden = nnx.Linear(*weights["hidden"][0].shape, rngs=rngs)
            set_weights(self.hidden, *weights["hidden"])
        kernel, bias = last_joined(weights)
        self.last = nnx.Linear(*kernel.shape, rngs=rngs)
        set_weights(self.last, kernel, bias)
        self.samples, _, self.columns = weights["last"][0].shape
        self.outputs = outputs

    def __call__(self, x):
        if "conv" in self.layers:
            x = nnx.relu(self.conv(x))
        x = x.reshape(len(x), -1)
        if "hidden" in self.layers:
            x = nnx.relu(self.hidden(x))
        x = by_sample(self.last(x), self.samples, self.columns)
        return activated(x, self.outputs)


def set_weights(layer, kernel, bias):
    layer.kernel = nnx.Param(jnp.asarray(kernel))
    layer.bias = nnx.Param(jnp.asarray(bias))


def last_joined(weights):
    """The last layer of all samples as one of `[D, S * K]`."""
    kernel, bias = weights["last"]
    return np.moveaxis(kernel, 0, 1).reshape(kernel.shape[1], -1), bias.reshape(-1)


def by_sample(x, samples, columns):
    """`[B, S * K]` as `[S, B, K]`, or `[B, K]` of one sample."""
    if samples == 1:
        return x
    return jnp.moveaxis(x.reshape(len(x), samples, columns), 1, 0)


# Keys of more images than any case has: one program for all.
MOST_IMAGES = 80


class Pair(NamedTuple):
    """An alteration, and `slow(image, level)`, or `slow(image, level, noise)`."""

    alteration: jaxrob.Alteration
    slow: Callable


def fade(image, level):
    return (1 - level) * image + level * 0.5


def cover(image, level):
    return image * (1 - jnp.clip(level - jnp.arange(image.shape[1]), 0, 1))[:, None]


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
    return Pair(jaxrob.Alteration("cover", cover, 0.0, float(shape[1])), slow.cover)


def killed(rng, shape):
    return Pair(jaxrob.Alteration("kill", kill, 0.0, 1.25, stochastic=True), slow.kill)


def drifting(rng, shape):
    return Pair(jaxrob.Alteration("trend", trend, -2.0, 3.0, identity=0.0), slow.trend)


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
