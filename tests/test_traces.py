"""The number of traces of users' functions, and the references kept to them."""

import dataclasses
import functools
import gc
import weakref

import jax
import numpy as np
import pytest
from common.timing import compilations
from flax import linen, nnx

import jaxrob
from jaxrob import alterations, roma
from jaxrob._fingerprint import fingerprinted_classifier
from jaxrob.alterations._moves import fingerprinted_alteration
from jaxrob.roma._perturbation import fingerprinted_perturbation

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


def capturing(_, images):
    return plain(WEIGHTS, images)


@dataclasses.dataclass(frozen=True)
class Scaled:
    scale: float

    def __call__(self, weights, images):
        return plain(weights, images) * self.scale


def new_variables():
    return {"params": {"Dense_0": dense(3)}}


def dense(width):
    kernel = np.float32(RANDOM.normal(size=(16, width)))
    return {"kernel": jax.device_put(kernel), "bias": np.zeros(width, np.float32)}


OWN, SAME = Own(), functools.partial(plain)
# Each makes a new classifier of new variables, as a training loop does.
MADE = {
    "function": lambda: jaxrob.Classifier(plain, WEIGHTS),
    "jitted": lambda: jaxrob.Classifier(JITTED, WEIGHTS),
    "partial": lambda: jaxrob.Classifier(SAME, WEIGHTS),
    "value": lambda: jaxrob.Classifier(Scaled(2.0), WEIGHTS),
    "object": lambda: jaxrob.Classifier(OWN, new_variables()),
    "method": lambda: jaxrob.Classifier(OWN.apply, new_variables()),
    "linen": lambda: jaxrob.Classifier.from_linen(LinenNet(), new_variables()),
    "nnx": lambda: jaxrob.Classifier.from_nnx(
        NnxNet(nnx.Rngs(int(RANDOM.integers(1000)))),
        preprocessing=jaxrob.Preprocessing(mean=0.5, std=(0.2,)),
    ),
    "captured": lambda: jaxrob.Classifier(capturing),
}
SLOW = pytest.mark.slow
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


KEPT = ("linen", "nnx", "jitted")


# Without room, programs might be dropped between two calls, after many other tests.
@pytest.mark.parametrize(
    "kind", [pytest.param(one, marks=() if one == "linen" else SLOW) for one in MADE]
)
def test_a_network_is_traced_once_in_a_call_and_not_compiled_again(kind, monkeypatch):
    monkeypatch.setattr("jaxrob._engine.evaluate.make_room", lambda: None)
    assert traces(lambda: assess(MADE[kind]())) > 1
    with compilations() as compiled:
        found = [traces(lambda: assess(MADE[kind]())) for _ in range(2)]
    # Flax's modules do not change; in a `jax.jit` of the user's, JAX keeps its trace.
    assert found == [kind not in KEPT] * 2 and not compiled


def test_other_shapes_and_fields_are_other_networks():
    linen = jaxrob.Classifier.from_linen
    assert linen(LinenNet(), new_variables()).num_classes((4, 4, 1)) == 3
    wider = linen(LinenNet(5), {"params": {"Dense_0": dense(5)}})
    assert wider.num_classes((4, 4, 1)) == 5
    double = jaxrob.Classifier(plain, np.hstack([WEIGHTS, WEIGHTS]))
    assert double.num_classes((4, 4, 1)) == 6
    assert MADE["function"]().num_classes((4, 4, 1)) == 3
    # By value: a hash would not distinguish the signs, because hash(-1) == hash(-2).
    signs = [Scaled(-1.0), Scaled(-2.0)]
    found = [
        fingerprinted_classifier(jaxrob.Classifier(one, WEIGHTS), (4, 4, 1))
        for one in signs
    ]
    assert found[0].apply_fn.token != found[1].apply_fn.token


def test_jax_settings_are_part_of_what_a_network_is():
    classifier = MADE["function"]()
    token = fingerprinted_classifier(classifier, (4, 4, 1)).apply_fn.token
    with jax.default_matmul_precision("float32"):
        other = fingerprinted_classifier(classifier, (4, 4, 1)).apply_fn.token
    assert (
        other != token == fingerprinted_classifier(classifier, (4, 4, 1)).apply_fn.token
    )


def test_alterations_and_perturbations_are_traced_in_each_call():
    def fade(image, level):
        TRACES.append(1)
        return image * (1 - level)

    def draw(key, image):
        TRACES.append(1)
        return image + 0.1 * jax.random.normal(key, image.shape)

    def of_alteration():
        # A new alteration of the same function.
        fingerprinted_alteration(jaxrob.Alteration("fade", fade, 0, 1), (4, 4, 1))

    def of_perturbation():
        fingerprinted_perturbation(roma.from_sampler(draw), (4, 4, 1))

    for ask in of_alteration, of_perturbation:
        assert [traces(ask) for _ in range(2)] == [1, 1]


@pytest.mark.slow
def test_what_is_known_of_a_function_does_not_keep_it():
    array = jax.device_put(WEIGHTS)

    def function(_, images):
        return images.reshape(len(images), -1) @ array

    kept = weakref.ref(function)
    fingerprinted_classifier(jaxrob.Classifier(function), (4, 4, 1))
    del function
    gc.collect(1)
    assert kept() is None


def on_the_devices():
    return sum(array.nbytes for array in jax.live_arrays())


def test_a_training_loop_keeps_nothing_on_the_devices():
    results, held, compiled = [], [], []
    for _ in range(5):
        variables = new_variables()
        with compilations() as found:
            results.append(assess(jaxrob.Classifier.from_linen(LinenNet(), variables)))
        compiled.append(len(found))
        held.append(on_the_devices())
    assert not any(compiled[1:])
    assert len(set(held)) == 1
    assert len({one.provenance["classifier"] for one in results}) == 5
