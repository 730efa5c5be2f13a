"""NNX modules are trained and retrained like Linen modules."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen, nnx

import jaxrob
from jaxrob import alterations, retraining, training

RANDOM = np.random.default_rng(0)
KEY = jax.random.key(0)
LABELS = RANDOM.integers(0, 3, 120)
IMAGES = RANDOM.uniform(0.2, 0.5, (120, 4, 4, 1)).astype(np.float32)
# The class is the column that is lighter than the others.
IMAGES[np.arange(120), :, LABELS] += 0.3
DATA = jaxrob.Dataset(IMAGES, LABELS, name="columns")
BRIGHTNESS = alterations.brightness(-0.2, 0.2)


class Linen(linen.Module):
    @linen.compact
    def __call__(self, images, train=False):
        x = linen.Dense(8, name="first")(images.reshape(len(images), -1))
        x = linen.BatchNorm(use_running_average=not train, momentum=0.9, name="norm")(x)
        return linen.Dense(3, name="last")(x)


class Net(nnx.Module):
    def __init__(self, rate=0.0):
        rngs = nnx.Rngs(0)
        self.first = nnx.Linear(16, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, momentum=0.9, rngs=rngs)
        self.drop = nnx.Dropout(rate, rngs=rngs)
        self.last = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, images):
        x = self.first(images.reshape(len(images), -1))
        return self.last(self.drop(self.norm(x)))


def outputs(classifier):
    return np.asarray(jax.jit(lambda one: one.raw_outputs(IMAGES)[0])(classifier))


def test_training_is_that_of_the_same_linen_module():
    """The same initial weights and the same images give the same classifier."""
    net, settings = Net(), {"key": KEY, "epochs": 2, "batch_size": 30}
    layers = ("first", net.first), ("last", net.last)
    begun = {
        "params": {
            **{
                name: {"kernel": layer.kernel[...], "bias": layer.bias[...]}
                for name, layer in layers
            },
            "norm": {"scale": np.ones(8, "f"), "bias": np.zeros(8, "f")},
        },
        "batch_stats": {"norm": {"mean": np.zeros(8, "f"), "var": np.ones(8, "f")}},
    }

    class Begun(Linen):
        def init(self, *args, **kwargs):
            return begun

    before = jax.tree.map(np.asarray, jax.tree.leaves(nnx.state(net, nnx.Param)))
    graph = nnx.graphdef(net)
    ours = training.fit(net, DATA, optimizer=optax.sgd(0.1), **settings)
    theirs = training.fit(Begun(), DATA, optimizer=optax.sgd(0.1), **settings)
    np.testing.assert_allclose(outputs(ours), outputs(theirs), atol=1e-4)
    # The module is where training begins, and not changed.
    after = jax.tree.leaves(nnx.state(net, nnx.Param))
    assert all(np.array_equal(x, y) for x, y in zip(before, after, strict=True))
    assert nnx.graphdef(net) == graph
    untrained = jaxrob.Classifier.from_nnx(net)
    assert np.abs(outputs(ours) - outputs(untrained)).max() > 1e-3


@pytest.mark.slow
def test_dropout_is_drawn_anew_from_the_key():
    def trained(key):
        rate = optax.sgd(0.1)
        return outputs(
            training.fit(Net(0.5), DATA, key=key, optimizer=rate, batch_size=120)
        )

    first = trained(KEY)
    np.testing.assert_array_equal(first, trained(KEY))
    assert (first != trained(jax.random.key(1))).any()


@pytest.mark.slow
def test_a_training_goes_on_from_its_checkpoint(tmp_path):
    settings = {"key": KEY, "epochs": 2, "batch_size": 30}
    whole = training.fit(Net(0.5), DATA, **settings)

    class Stop(Exception):
        pass

    def stop(epoch, classifier):
        raise Stop

    path = tmp_path / "kept"
    with pytest.raises(Stop):
        training.fit(Net(0.5), DATA, checkpoint=path, on_epoch=stop, **settings)
    resumed = training.fit(Net(0.5), DATA, checkpoint=path, **settings)
    np.testing.assert_array_equal(outputs(resumed), outputs(whole))
    other = Net(0.5)
    other.last.bias[...] = jnp.ones(3)
    with pytest.raises(ValueError, match="another module"):
        training.fit(other, DATA, checkpoint=path, **settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [retraining.network_parallelization, retraining.worst_level]
)
def test_retraining_takes_one(method):
    found = method(Net(), DATA, [BRIGHTNESS], key=KEY, epochs=30, batch_size=30)
    assert jaxrob.assess(found, DATA, BRIGHTNESS).robustness > 0.7


def test_networks_of_other_frameworks_say_so():
    with pytest.raises(TypeError, match="Flax Linen or NNX module .*in their own"):
        training.fit(lambda images: images, DATA, key=KEY)
