"""Training loops of users: new weights compile nothing after the first epoch."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from common.timing import compilations
from flax import nnx

import jaxrob
from jaxrob import alterations

RANDOM = np.random.default_rng(0)
LABELS = RANDOM.integers(0, 3, 32)
# Bright in the rows of their class.
IMAGES = 0.8 * RANDOM.random((32, 6, 6, 1), np.float32)
IMAGES[np.arange(32), 2 * LABELS] += np.float32(0.2)
SEVERAL = [alterations.gaussian_blur(0.0, 2.0), alterations.brightness(-0.4, 0.4)]


def after_each_epoch(epochs):
    """Assesses a loop's classifiers: accuracies, and programs compiled for each."""
    found = []
    for classifier, answers in epochs:
        with compilations() as compiled:
            first, _ = jaxrob.assess(
                classifier,
                jaxrob.Dataset(IMAGES, LABELS),
                SEVERAL,
                threshold=0.1,
                strategy=jaxrob.strategies.Uniform(3),
            )
        # The network's own answers on the unaltered images.
        right = float(np.mean(np.argmax(np.asarray(answers), axis=1) == LABELS))
        assert first.values[0] == pytest.approx(right, abs=1e-9)
        found.append((right, len(compiled)))
    return found


def check(epochs):
    accuracies, programs = zip(*after_each_epoch(epochs))
    assert len(set(accuracies)) > 1  # It learns.
    assert programs[0] > 0 and not any(programs[1:])


def loss_of(logits):
    return optax.softmax_cross_entropy_with_integer_labels(logits, LABELS).mean()


def test_flax_nnx():
    class Net(nnx.Module):
        def __init__(self, rngs):
            self.layer = nnx.Linear(36, 3, rngs=rngs)

        def __call__(self, images):
            return self.layer(images.reshape(len(images), -1))

    net = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(net, optax.adam(0.03), wrt=nnx.Param)

    @nnx.jit
    def step(net, optimizer):
        optimizer.update(net, nnx.grad(lambda net: loss_of(net(IMAGES)))(net))

    def epochs():
        for _ in range(3):
            for _ in range(10):
                step(net, optimizer)
            yield jaxrob.Classifier.from_nnx(net), net(IMAGES)

    check(epochs())


def test_equinox():
    eqx = pytest.importorskip("equinox", reason="needs the extra jaxrob[equinox]")

    class Net(eqx.Module):
        layer: eqx.nn.Linear

        def __call__(self, image):
            return self.layer(image.reshape(-1))

    net = Net(eqx.nn.Linear(36, 3, key=jax.random.key(0)))
    optimizer = optax.adam(0.03)
    images = jnp.moveaxis(jnp.asarray(IMAGES), -1, 1)

    @eqx.filter_jit
    def step(net, state):
        slope = eqx.filter_grad(lambda net: loss_of(jax.vmap(net)(images)))(net)
        updates, state = optimizer.update(slope, state)
        return eqx.apply_updates(net, updates), state

    def epochs(net):
        state = optimizer.init(eqx.filter(net, eqx.is_array))
        for _ in range(3):
            for _ in range(10):
                net, state = step(net, state)
            yield jaxrob.Classifier.from_equinox(net), jax.vmap(net)(images)

    check(epochs(net))


def test_keras():
    os.environ.setdefault("KERAS_BACKEND", "jax")
    keras = pytest.importorskip("keras", reason="needs the extra jaxrob[keras]")
    if keras.backend.backend() != "jax":
        pytest.skip("Keras is on another backend here")
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Flatten(), keras.layers.Dense(3)]
    net = keras.Sequential([keras.Input((6, 6, 1)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(keras.optimizers.Adam(0.03), loss)

    def epochs():
        for _ in range(3):
            net.fit(IMAGES, LABELS, epochs=10, verbose=0)
            yield jaxrob.Classifier.from_keras(net), net.predict(IMAGES, verbose=0)

    check(epochs())
