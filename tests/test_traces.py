"""The number of traces of users' functions, and the references kept to them."""

import dataclasses
import functools
import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common.timing import compilations
from flax import linen, nnx

import jaxrob
from jaxrob import alterations, bayes, networks, roma
from jaxrob._fingerprint import fingerprinted_classifier
from jaxrob._run import prepare

RANDOM = np.random.default_rng(0)
IMAGES = np.float32(RANDOM.random((8, 4, 4, 1)))
DATA = jaxrob.Dataset(IMAGES, np.arange(8) % 3)
WEIGHTS = np.float32(RANDOM.normal(size=(16, 3)))
UNALTERED = alterations.brightness(-0.5, 0.5)
TRACES = []


class LinenNet(linen.Module):
    width: int = 3

    @linen.compact
    def __call__(self, images):
        TRACES.append(1)
        return linen.Dense(self.width)(images.reshape(len(images), -1))


class NnxNet(nnx.Module):
    def __init__(self, rngs):
        self.dense = nnx.Linear(16, 3, rngs=rngs)

    def __call__(self, images):
        TRACES.append(1)
        return self.dense(images.reshape(len(images), -1))


class Own:
    """A network of a user's own class, with its layers inside."""

    def __init__(self):
        self.layers = [LinenNet()]

    def apply(self, variables, images):
        for layer in self.layers:
            images = layer.apply(variables, images)
        return images

    __call__ = apply


def plain(weights, images):
    TRACES.append(1)
    return images.reshape(len(images), -1) @ weights


@dataclasses.dataclass(frozen=True)
class Scaled:
    scale: float

    def __call__(self, weights, images):
        return plain(weights, images) * self.scale


def new_variables():
    key = jax.random.key(RANDOM.integers(1000))
    return jax.tree.map(jnp.asarray, {"params": {"Dense_0": dense(key)}})


def dense(key):
    return {"kernel": jax.random.normal(key, (16, 3)), "bias": jnp.zeros(3)}


OWN, SAME = Own(), functools.partial(plain)
# Each makes a new classifier of new variables, as a training loop does.
WITHOUT = {
    "function": lambda: jaxrob.Classifier(plain, jnp.asarray(WEIGHTS)),
    "jitted": lambda: jaxrob.Classifier(JITTED, jnp.asarray(WEIGHTS)),
    "partial": lambda: jaxrob.Classifier(SAME, jnp.asarray(WEIGHTS)),
    "value": lambda: jaxrob.Classifier(Scaled(2.0), jnp.asarray(WEIGHTS)),
    "object": lambda: jaxrob.Classifier(OWN, new_variables()),
    "method": lambda: jaxrob.Classifier(OWN.apply, new_variables()),
    "linen": lambda: jaxrob.Classifier.from_linen(LinenNet(), new_variables()),
    "nnx": lambda: jaxrob.Classifier.from_nnx(
        NnxNet(nnx.Rngs(int(RANDOM.integers(1000)))), mean=0.5, std=(0.2,)
    ),
}
JITTED = jax.jit(lambda weights, images: plain(weights, images))


def assess(classifier, alteration=UNALTERED):
    return jaxrob.assess(
        classifier, DATA, alteration, 0.0, strategy=jaxrob.strategies.Uniform(3)
    )


def traces(ask):
    """Counts the runs of a function's body in a call."""
    TRACES.clear()
    ask()
    return len(TRACES)


@pytest.mark.parametrize("make", WITHOUT.values(), ids=WITHOUT)
def test_a_network_without_captured_arrays_is_not_traced_again(make, monkeypatch):
    # After many other tests it might drop programs between two calls.
    monkeypatch.setattr(prepare, "make_room", lambda: None)
    assert traces(lambda: assess(make())) > 0
    with compilations() as compiled:
        assert [traces(lambda: assess(make())) for _ in range(2)] == [0, 0]
    assert not compiled


def test_a_network_with_captured_arrays_is_traced_once_in_a_call():
    classifier = jaxrob.Classifier(lambda _, images: plain(WEIGHTS, images))
    assert traces(lambda: assess(classifier)) > 1
    with compilations() as compiled:
        assert [traces(lambda: assess(classifier)) for _ in range(2)] == [1, 1]
    assert not compiled


def test_other_shapes_and_fields_are_other_networks():
    assess(WITHOUT["linen"]())
    wider = LinenNet(5)
    variables = wider.init(jax.random.key(0), IMAGES)
    assert jaxrob.Classifier.from_linen(wider, variables).num_classes((4, 4, 1)) == 5
    double = jaxrob.Classifier(plain, np.hstack([WEIGHTS, WEIGHTS]))
    assert double.num_classes((4, 4, 1)) == 6
    assert WITHOUT["function"]().num_classes((4, 4, 1)) == 3
    # By value: a hash would not distinguish the signs, because hash(-1) == hash(-2).
    signs = [Scaled(-1.0), Scaled(-2.0)]
    found = [
        fingerprinted_classifier(jaxrob.Classifier(one, WEIGHTS), (4, 4, 1))
        for one in signs
    ]
    assert found[0].apply_fn.token != found[1].apply_fn.token


def test_jax_settings_are_part_of_what_a_network_is():
    classifier = WITHOUT["function"]()
    token = fingerprinted_classifier(classifier, (4, 4, 1)).apply_fn.token
    with jax.default_matmul_precision("float32"):
        other = fingerprinted_classifier(classifier, (4, 4, 1)).apply_fn.token
    assert (
        other != token == fingerprinted_classifier(classifier, (4, 4, 1)).apply_fn.token
    )


@pytest.mark.parametrize("captures", [False, True])
def test_an_alteration_is_traced_as_a_network_is(captures):
    def fade(image, level):
        TRACES.append(1)
        end = IMAGES[0] if captures else jnp.zeros_like(image)
        return image + level * (end - image)

    classifier = WITHOUT["function"]()
    assess(classifier, jaxrob.Alteration("fade", fade, 0.0, 1.0))

    def again():
        # A new alteration of the same function; the network itself is not retraced.
        assess(classifier, jaxrob.Alteration("fade", fade, 0.0, 1.0))

    assert [traces(again) for _ in range(2)] == [captures, captures]


@pytest.mark.parametrize("captures", [False, True])
def test_a_perturbation_is_traced_as_a_network_is(captures):
    def draw(key, image):
        TRACES.append(1)
        scale = IMAGES[0] if captures else 0.1
        return image + scale * jax.random.normal(key, image.shape)

    classifier = WITHOUT["function"]()

    def ask():
        roma.assess(
            classifier,
            IMAGES,
            num_samples=16,
            estimator="count",
            perturbation=draw,
            key=jax.random.key(0),
        )

    # RoMA checks the returned shape in every call.
    assert [traces(ask) for _ in range(3)][1:] == [1 + captures] * 2


def test_what_is_known_of_a_function_does_not_keep_it():
    array = jnp.asarray(WEIGHTS)

    def function(_, images):
        return images.reshape(len(images), -1) @ array

    kept = weakref.ref(function)
    fingerprinted_classifier(jaxrob.Classifier(function), (4, 4, 1))
    del function
    gc.collect()
    assert kept() is None


class Deep(linen.Module):
    """A residual network of 50 layers."""

    @linen.compact
    def __call__(self, images):
        x = linen.Dense(8)(images.reshape(len(images), -1))
        for _ in range(24):
            x = x + linen.Dense(8)(linen.relu(linen.Dense(8)(x)))
        return linen.Dense(3)(x)


def on_the_devices():
    return sum(array.nbytes for array in jax.live_arrays())


def test_a_training_loop_keeps_nothing_on_the_devices():
    variables = jax.jit(Deep().init)(jax.random.key(0), IMAGES)

    @jax.jit
    def trained(variables):
        return jax.tree.map(lambda leaf: leaf + 0.001, variables)

    results, held, compiled = [], [], []
    for _ in range(50):
        variables = trained(variables)
        with compilations() as found:
            classifier = jaxrob.Classifier.from_linen(Deep(), variables)
            results.append(assess(classifier))
        del classifier
        compiled.append(len(found))
        held.append(on_the_devices())
    assert compiled[0] > 0 and not any(compiled[1:])
    assert len(set(held)) == 1
    assert len({one.provenance["classifier"] for one in results}) == 50


@pytest.mark.parametrize("module", [networks.MLP((8,)), networks.MnistCNN()])
def test_the_librarys_own_classifiers_capture_no_arrays(module):
    image = jnp.zeros((1, 28, 28, 1))
    shapes = jax.eval_shape(module.init, jax.random.key(0), image)
    variables = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    for one in (
        jaxrob.Classifier.from_linen(module, variables),
        bayes.ensemble(module, [variables, jax.tree.map(np.ones_like, variables)]),
        jaxrob.Classifier.from_host(len, 3, scale=255, mean=(0.1,), std=0.2),
    ):
        assert (
            fingerprinted_classifier(
                one, (28, 28, 1)
            ).apply_fn.info.fingerprint.num_captured
            == 0
        )
