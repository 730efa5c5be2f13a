"""The reference's networks as the library takes them: four ways to write each.

Functions and modules are the same objects in all cases, so that compiled programs are
of use again. `weights` are as `numpy_reference.networks` describes.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import nnx
from numpy_reference import networks

import jaxrob

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
        rows = np.stack([networks.rows_of(weights, image)[0] for image in images])
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
