"""Equinox modules: inside the step, with their arrays as variables."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations

eqx = pytest.importorskip("equinox", reason="needs the extra jaxrob[equinox]")

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (20, 8, 8, 3), dtype=np.uint8)
DATA = jaxrob.Dataset(IMAGES, RANDOM.integers(0, 5, 20), name="random")
KEY = jax.random.key(0)
from_equinox = jaxrob.Classifier.from_equinox


class Net(eqx.Module):
    """Batch statistics, dropout, an activation, a NumPy array and plain settings."""

    conv: eqx.nn.Conv2d
    norm: eqx.nn.BatchNorm
    drop: eqx.nn.Dropout
    last: eqx.nn.Linear
    mean: np.ndarray
    activation: object
    factor: float

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.conv = eqx.nn.Conv2d(3, 4, 3, key=first)
        self.norm = eqx.nn.BatchNorm(4, "batch", mode="ema")
        self.drop = eqx.nn.Dropout(0.5)
        self.last = eqx.nn.Linear(4 * 36, 5, key=second)
        self.activation, self.factor = jax.nn.tanh, 2.0
        self.mean = np.full((3, 1, 1), 0.5, np.float32)

    def __call__(self, image, state, key=None):
        x, state = self.norm(self.conv(self.factor * (image - self.mean)), state)
        x = self.drop(self.activation(x).ravel(), key=key)
        return self.last(x), state


def trained(seed=0):
    """A module and its state after a batch in training mode."""
    key = jax.random.key(seed)
    net, state = eqx.nn.make_with_state(Net)(key)
    batch = jax.vmap(net, axis_name="batch", in_axes=(0, None, 0), out_axes=(0, None))
    _, state = batch(inputs(1.5), state, jax.random.split(key, len(IMAGES)))
    return net, state


def inputs(factor=1.0):
    return factor * jnp.moveaxis(jnp.float32(IMAGES) / 255, -1, 1)


def answers(net, state, images):
    own = eqx.nn.inference_mode(net)
    return jax.vmap(lambda image: own(image, state)[0])(images)


def evaluated(classifier, level=0.0):
    return jaxrob.evaluate(classifier, DATA, alterations.brightness(), [level])


def test_answers_are_those_of_the_module():
    net, state = trained()
    truth = np.asarray(jax.nn.softmax(answers(net, state, inputs())))
    curve = evaluated(from_equinox(net, state))
    np.testing.assert_array_equal(curve.predicted[0], truth.argmax(1))
    np.testing.assert_allclose(curve.confidence[0], truth.max(1), atol=1e-6)


def test_a_module_without_state_and_preprocessing():
    layers = [eqx.nn.Lambda(jnp.ravel), eqx.nn.MLP(192, 5, 8, 1, key=KEY)]
    net = eqx.nn.Sequential(layers)
    given = jaxrob.Preprocessing(1, (0.1, 0.2, 0.3), 0.5, channels_first=False, size=8)
    classifier = from_equinox(net, preprocessing=given)
    x = jnp.float32(IMAGES) / 255
    truth = jax.vmap(net)((x - jnp.array([0.1, 0.2, 0.3])) / 0.5)
    np.testing.assert_allclose(classifier.raw_outputs(x)[0], truth, atol=1e-5)


def test_new_weights_of_the_same_shapes_compile_nothing():
    from jaxrob._engine import step

    first = evaluated(from_equinox(*trained()), level=0.3)
    before = step.answer_at_levels._cache_size()
    net, state = trained()
    net = eqx.tree_at(lambda net: net.last.weight, net, -net.last.weight)
    changed = evaluated(from_equinox(net, state), level=0.3)
    assert step.answer_at_levels._cache_size() == before
    assert (changed.confidence != first.confidence).any()


def test_other_settings_are_another_network():
    net, state = trained()
    for change in (
        lambda net: eqx.tree_at(lambda net: net.factor, net, 3.0),
        lambda net: eqx.tree_at(lambda net: net.activation, net, jax.nn.relu),
    ):
        truth = np.asarray(jax.nn.softmax(answers(change(net), state, inputs())))
        curve = evaluated(from_equinox(change(net), state))
        np.testing.assert_allclose(curve.confidence[0], truth.max(1), atol=1e-6)


def test_gradients_are_finite_differences(check_gradients):
    check_gradients(from_equinox(*trained()), IMAGES[:3])


class Unhashable(eqx.Module):
    last: eqx.nn.Linear
    held: object


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: from_equinox(print), "module must be an Equinox module; got"),
        (lambda: from_equinox(trained()[0], {}), "state must be an equinox.nn.State"),
        (
            lambda: from_equinox(Unhashable(trained()[0].last, bytearray(b"x"))),
            "module must be hashable; got Unhashable",
        ),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_a_state_that_is_missing():
    with pytest.raises(ValueError, match="failed on images.*state"):
        evaluated(from_equinox(trained()[0]))
