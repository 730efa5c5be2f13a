"""Linen and NNX modules are trained and retrained."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen, nnx
from flax import linen as nn

import jaxrob
from jaxrob import Dataset, alterations, retraining, training
from jaxrob.networks import MLP
from jaxrob.training import fit

from ..on_devices import Network

KEY = jax.random.key(0)
SMALL = MLP(features=(8,), num_classes=2)


def dark_and_light(n=64, dtype=np.uint8):
    """Images of 3 x 3 pixels: class 0 dark, class 1 light."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 2
    images = rng.integers(0, 90, (n, 3, 3, 1)) + 160 * labels[:, None, None, None]
    images = images.astype(np.uint8)
    return Dataset(images if dtype == np.uint8 else images / dtype(255), labels)


def accuracy(classifier, dataset):
    images = np.asarray(dataset.images)
    if images.dtype == np.uint8:
        images = images / np.float32(255)
    answers = jax.jit(lambda images: classifier.log_probabilities(images)[0])
    return (np.asarray(answers(images)).argmax(-1) == dataset.labels).mean()


def same(one, other):
    return jax.tree.all(jax.tree.map(np.array_equal, one.variables, other.variables))


class Sigmoid(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool = False):
        return nn.sigmoid(nn.Dense(1)(x.reshape(len(x), -1)))


def train(module=SMALL, dataset=None, epochs=12, **changes):
    settings = {"key": KEY, "batch_size": 16, "optimizer": optax.adam(0.03)} | changes
    return fit(module, dataset or dark_and_light(), epochs=epochs, **settings)


@pytest.mark.slow
def test_it_learns_and_repeats_itself():
    classifier = train()
    assert accuracy(classifier, dark_and_light()) == 1
    assert same(classifier, train())
    assert not same(classifier, train(key=jax.random.key(1)))


@pytest.mark.slow
def test_bytes_and_floats_are_the_same_images():
    data = [dark_and_light(64, dtype) for dtype in (np.uint8, np.float32)]
    found = [train(epochs=2, dataset=one).variables for one in data]
    for a, b in zip(*map(jax.tree.leaves, found)):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.slow
def test_dropout_and_batch_normalisation():
    classifier = train(Network(2), epochs=25)
    (statistics,) = classifier.variables["batch_stats"].values()
    assert (statistics["mean"] != 0).any() and (statistics["var"] != 1).any()
    dataset = dark_and_light()
    assert accuracy(classifier, dataset) == 1
    # In evaluation mode an image's answer depends on no other image and no key.
    answers = jax.jit(classifier.log_probabilities)
    images = dataset.images / np.float32(255)
    whole = answers(images)
    np.testing.assert_allclose(answers(images[:1])[:, 0], whole[:, 0], atol=1e-5)


@pytest.mark.slow
def test_one_sigmoid_column():
    classifier = train(Sigmoid(), outputs="sigmoid", epochs=40)
    assert accuracy(classifier, dark_and_light()) == 1


@pytest.mark.slow
def test_the_default_optimizer_and_what_is_left_over():
    dataset = dark_and_light(21)
    assert fit(SMALL, dataset, key=KEY, epochs=1, batch_size=20).outputs == "logits"


@pytest.mark.parametrize(
    "wrong, name",
    [
        ({"epochs": 0}, "epochs.*got 0"),
        ({"batch_size": 0}, "batch_size.*64"),
        ({"batch_size": 65}, "batch_size.*64"),
        ({"epochs": 1, "images_seen": 64}, "epochs must"),
        ({"epochs": None, "images_seen": 15}, "images_seen must.*got 15"),
        ({"checkpoint": "b", "checkpoint_every": 0}, "checkpoint_every.*got 0"),
    ],
)
def test_what_is_refused(wrong, name):
    with pytest.raises(ValueError, match=name):
        train(**wrong)


def test_a_label_without_an_output():
    dataset = Dataset(dark_and_light().images, np.arange(64) % 3, name="three")
    with pytest.raises(ValueError, match="labels of three.* 2 .*; got 2"):
        train(dataset=dataset)


def test_a_number_of_images_in_place_of_epochs():
    seen = []

    def on_epoch(epoch, classifier):
        seen.append((epoch, classifier))

    half = train(epochs=None, images_seen=96, on_epoch=on_epoch)
    # The second epoch ends early.
    assert [epoch for epoch, _ in seen] == [1, 2]
    assert same(seen[1][1], half) and not same(seen[0][1], half)


@pytest.mark.slow
def test_a_checkpoint_is_of_one_training(tmp_path):
    # Its state holds the rate.
    adam = optax.inject_hyperparams(optax.adam)
    given = {"epochs": 2, "optimizer": adam(0.03)}
    whole = train(Network(2), **given)
    given["checkpoint"] = tmp_path / "a"
    assert same(whole, train(Network(2), **given))
    assert same(whole, train(Network(2), **given))
    assert [path.name for path in (tmp_path / "a").glob("*")] == ["8"]
    for changes, name in (
        ({"key": jax.random.key(1)}, "key"),
        ({"dataset": dark_and_light(65)}, "dataset"),
        ({"optimizer": adam(0.3)}, "optimizer"),
        ({"optimizer": optax.sgd(0.03)}, "optimizer"),
    ):
        with pytest.raises(ValueError, match=f"of another {name}"):
            train(Network(2), **given | changes)


def test_a_checkpoint_is_of_one_gradient(tmp_path):
    factor = np.ones(1, np.float32)
    passed = jax.custom_jvp(lambda values: jnp.round(values))
    passed.defjvps(lambda change, *_: float(factor[0]) * change)

    class Rounded(nn.Module):
        @nn.compact
        def __call__(self, x, train: bool = False):
            return nn.Dense(2)(passed(nn.Dense(4)(x.reshape(len(x), -1))))

    given = {"epochs": 1, "checkpoint": tmp_path / "a"}
    assert same(train(Rounded(), **given), train(Rounded(), **given))
    factor[:] = 0
    with pytest.raises(ValueError, match="of another module"):
        train(Rounded(), **given)


def test_nothing_is_kept_of_a_loss_that_is_no_longer_finite(tmp_path):
    diverging = {"optimizer": optax.sgd(1e38), "epochs": 3}
    with pytest.raises(FloatingPointError, match="epoch 1"):
        train(**diverging)
    with pytest.raises(FloatingPointError, match="step 2"):
        train(checkpoint=tmp_path, checkpoint_every=2, **diverging)
    assert not [path for path in tmp_path.glob("*") if path.name.isdigit()]


RANDOM = np.random.default_rng(0)
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
    biased = Net(0.5)
    biased.last.bias[...] = jnp.ones(3)
    for other in (biased, Net(0.2)):
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
