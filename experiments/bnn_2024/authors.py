"""The paper's authors' likely procedure, to explain the differences from their tables.

Readings of their alterations, and networks trained as theirs. The training follows
drafts of the first author's master's thesis, which has the same tables (W. Essbai,
2023, github.com/wasim-essbai/MasterThesis): 40,000 images, 15 epochs of RMSprop at
PyTorch's defaults, and the library torchbnn.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from common import datasets, hosts
from flax import linen as nn
from jax.flatten_util import ravel_pytree

import jaxrob
from jaxrob import alterations, bayes, networks, training


def _noise_by_deviation(image: jax.Array, level: jax.Array, key: jax.Array) -> Any:
    return alterations.gaussian_noise(0.0, 0.2)(image, level**2, key)


def _coded_as_floats(image: jax.Array, level: jax.Array) -> Any:
    coded = alterations.jpeg_compression()(jnp.round(image) / 255, level) * 255
    return jnp.where(level == 0, image, jnp.clip(coded, 0, 1))


# By column of the paper's tables; the last reading of each comes closest.
READINGS = (
    (
        "GN",
        jaxrob.Alteration(
            "the level as a standard deviation", _noise_by_deviation, 0.0, 0.2,
            stochastic=True,
        ),
    ),
    (
        "GN",
        dataclasses.replace(
            alterations.gaussian_noise(0.0, 0.2, clip=False),
            name="not clipped to [0, 1]",
        ),
    ),
    (
        "JC",
        jaxrob.Alteration(
            "a codec that rounds pixels in [0, 1]", _coded_as_floats, 0.0, 100.0
        ),
    ),
)  # fmt: skip

_EPOCHS = 15
_OPTIMIZER = optax.rmsprop(1e-2, decay=0.99, eps=1e-8, eps_in_sqrt=False)
_BATCH = 128
# Not in the thesis but usual with torchbnn: the standard deviation of the prior, and
# the weight of the divergence from it, averaged over the weights. With 80,000 weights
# and 40,000 images that is a 200th of the ELBO's weight.
_PRIOR_SCALE = 0.1
_DIVERGENCE_WEIGHT = 0.01


class _SoftmaxTwice(nn.Module):
    """A perceptron whose cross-entropy takes its probabilities as logits."""

    num_classes: int

    @nn.compact
    def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
        return nn.softmax(networks.MLP(num_classes=self.num_classes)(images))


def fit_mlp(
    train_set: jaxrob.Dataset, key: jax.Array, progress: bool
) -> jaxrob.Classifier:
    return training.fit(
        _SoftmaxTwice(len(datasets.class_names(train_set))),
        _theirs(train_set), key=key, epochs=_EPOCHS, batch_size=_BATCH,
        optimizer=_OPTIMIZER, mesh=hosts.mesh(), progress=progress,
    )  # fmt: skip


def fit_bnn(
    train_set: jaxrob.Dataset, key: jax.Array, num_samples: int
) -> jaxrob.Classifier:
    """Fits independent normals of all weights by a tempered ELBO, on each host."""
    train_set = _theirs(train_set)
    images, labels = jnp.asarray(train_set.images), jnp.asarray(train_set.labels)
    images = images / 255 if images.dtype == jnp.uint8 else images
    module = networks.MLP(num_classes=len(datasets.class_names(train_set)))
    key, init_key, draw_key = jax.random.split(key, 3)
    location, unravel = ravel_pytree(module.init(init_key, images[:1]))
    # Means, and logarithms of the standard deviations in units of the prior's.
    variational = location, jnp.zeros_like(location)

    def draw(variational: Any, key: jax.Array) -> Any:
        location, log_scale = variational
        noise = jnp.exp(log_scale) * jax.random.normal(key, location.shape)
        return unravel(location + _PRIOR_SCALE * noise)

    def loss(variational: Any, chosen: jax.Array, key: jax.Array) -> jax.Array:
        logits: Any = module.apply(draw(variational, key), images[chosen])
        wrong = optax.softmax_cross_entropy_with_integer_labels(logits, labels[chosen])
        location, log_scale = variational
        squares = jnp.exp(2 * log_scale) + (location / _PRIOR_SCALE) ** 2
        divergence = (squares - 1) / 2 - log_scale
        return wrong.mean() + _DIVERGENCE_WEIGHT * divergence.mean()

    def step(carry: Any, batch: Any) -> tuple[Any, None]:
        variational, state = carry
        gradient = jax.grad(loss)(variational, *batch)
        updates, state = _OPTIMIZER.update(gradient, state)
        return (optax.apply_updates(variational, updates), state), None

    @jax.jit
    def epoch(carry: Any, key: jax.Array) -> Any:
        order_key, noise_key = jax.random.split(key)
        steps = len(labels) // _BATCH
        order = jax.random.permutation(order_key, len(labels))[: steps * _BATCH]
        batches = order.reshape(steps, _BATCH), jax.random.split(noise_key, steps)
        return jax.lax.scan(step, carry, batches)[0]

    carry = variational, _OPTIMIZER.init(variational)
    for epoch_key in jax.random.split(key, _EPOCHS):
        carry = epoch(carry, epoch_key)
    draws = jax.random.split(draw_key, num_samples)
    return bayes.ensemble(module, [draw(carry[0], each) for each in draws])


def _theirs(train_set: jaxrob.Dataset) -> jaxrob.Dataset:
    return train_set[: len(train_set) * 2 // 3]
