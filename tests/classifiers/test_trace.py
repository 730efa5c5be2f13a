"""A trace sees what a function captures; its number, and the references kept."""

import dataclasses
import functools
import gc
import types
import typing
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common.timing import compilations
from flax import linen, nnx
from scipy import special

import jaxrob
from jaxrob import adversarial, alterations, bayes, retraining, roma
from jaxrob._classifiers.trace import fingerprinted_classifier
from jaxrob.alterations._moves import fingerprinted_alteration
from jaxrob.roma._perturbation import fingerprinted_perturbation

RANDOM = np.random.default_rng(0)
IMAGES = np.float32(RANDOM.random((40, 4, 4, 1)))
FLAT = IMAGES.reshape(40, 16)
FIRST, SECOND = (np.float32(RANDOM.normal(size=(16, 3))) for _ in range(2))
KEY = jax.random.key(0)
UNALTERED = alterations.brightness(-0.5, 0.5)


class Linear(nnx.Module):
    """A linear network from 16 pixels to 3 classes."""

    def __init__(self, weights):
        self.weights = nnx.Param(jnp.asarray(weights))

    def __call__(self, images):
        return images.reshape(len(images), -1) @ self.weights[...]


class Model:
    """A user's own class that holds an array and a number."""

    def __init__(self):
        self.weights, self.scale = FIRST, 1.0

    def __call__(self, variables, images):
        return images.reshape(len(images), -1) @ self.weights * self.scale


def right(weights):
    """Computes the classes by NumPy."""
    return (FLAT @ weights).argmax(1)


def predicted(classifier):
    data = jaxrob.Dataset(IMAGES, np.zeros(40, int))
    return jaxrob.evaluate(classifier, data, UNALTERED, [0.0]).predicted[0]


def token(classifier):
    """What programs of a classifier are known by."""
    return fingerprinted_classifier(classifier, (4, 4, 1)).apply_fn.token


def changed(classifier, ask, change):
    """Returns `ask`'s results before and after a change that must cause a warning."""
    before = ask(classifier)
    change()
    with pytest.warns(jaxrob.RobustnessWarning, match="has changed since the last"):
        return before, ask(classifier)


def captured_module():
    module = Linear(FIRST)

    def change():
        module.weights[...] = jnp.asarray(SECOND)

    return jaxrob.Classifier(lambda variables, images: module(images)), change


class Turned(linen.Module):
    settings: types.SimpleNamespace
    scale: typing.ClassVar[float] = 1.0

    @linen.compact
    def __call__(self, images):
        outputs = linen.Dense(3)(images.reshape(len(images), -1))
        return outputs * self.settings.sign * self.scale


def test_a_linen_module_whose_settings_have_changed_is_another_program(monkeypatch):
    module = Turned(types.SimpleNamespace(sign=1.0))
    variables = new_variables()
    tokens = []
    for module.settings.sign in (1.0, -1.0):
        # A new module, which equals the one before.
        again = jaxrob.Classifier.from_linen(Turned(module.settings), variables)
        tokens.append(token(again))
    monkeypatch.setattr(Turned, "scale", 2.0)
    assert len({*tokens, token(again)}) == 3


@pytest.mark.slow
def test_assess_sees_a_captured_module_that_has_changed():
    classifier, change = captured_module()
    data = jaxrob.Dataset(IMAGES, right(FIRST))

    def accuracy(classifier):
        found = jaxrob.assess(
            classifier, data, UNALTERED, 0.0, strategy=jaxrob.strategies.Uniform(3)
        )
        messages.append(found.warnings)
        return found.curve.accuracy[1]

    messages = []
    before, after = changed(classifier, accuracy, change)
    assert before == 1.0
    assert after == (right(FIRST) == right(SECOND)).mean() < 1.0
    assert not messages[0] and "has changed since" in messages[1][0]


@pytest.mark.filterwarnings("ignore:unaltered")
def test_the_choice_of_weak_alterations_sees_a_captured_module_that_has_changed():
    classifier, change = captured_module()

    def weak(classifier):
        return retraining.weak_alterations(
            classifier, data, [UNALTERED], key=KEY, threshold=0.9, levels=3
        )

    # Brightness only scales a linear network's logits while no pixel is clipped.
    data = jaxrob.Dataset(IMAGES / 2, right(FIRST))
    before, after = changed(classifier, weak, change)
    assert (before, after) == ((), (UNALTERED,))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:what the classifier's apply_fn captures")
def test_cached_properties_of_a_structure_are_not_stale():
    """The number of classes, and differentiability."""

    class Model:
        weights, on_host = FIRST, False

        def __call__(self, variables, images):
            outputs = images.reshape(len(images), -1) @ self.weights
            if not self.on_host:
                return outputs
            kind = jax.ShapeDtypeStruct(outputs.shape, outputs.dtype)
            return jax.pure_callback(lambda x: np.asarray(x), kind, outputs)

    model = Model()
    classifier = jaxrob.Classifier(model)
    assert classifier.num_classes((4, 4, 1)) == 3
    assert adversarial.fgsm(classifier, IMAGES, np.zeros(40, int), epsilon=0.1)
    model.weights = np.hstack([FIRST, SECOND])
    assert classifier.num_classes((4, 4, 1)) == 6
    model.on_host = True
    with pytest.raises(ValueError, match="must be differentiable"):
        adversarial.fgsm(classifier, IMAGES, np.zeros(40, int), epsilon=0.1)


@pytest.mark.slow
def test_variational_inference_is_of_the_arrays_as_they_are():
    factors, data = np.ones(3, np.float32), jaxrob.Dataset(IMAGES, right(FIRST))

    class Net(linen.Module):
        @linen.compact
        def __call__(self, images):
            return linen.Dense(3)(images.reshape(len(images), -1)) * factors

    def location():
        found = bayes.svi(Net(), data, key=KEY, epochs=2, batch_size=20)
        return found.location["Dense_0"]["bias"]

    before, factors[:] = location(), (5, -2, 0.1)
    assert (before != location()).all()


def test_networks_within_a_joined_one_are_seen():
    model = Model()
    both = retraining.parallel(jaxrob.Classifier(model), jaxrob.Classifier(model))
    before, after = changed(both, token, lambda: setattr(model, "weights", SECOND))
    assert before != after


def test_more_than_a_thousand_captured_numbers_are_warned_of():
    weights = np.float32(RANDOM.normal(size=(16, 70)))
    classifier = jaxrob.Classifier(lambda _, images: images.reshape(-1, 16) @ weights)
    with pytest.warns(jaxrob.RobustnessWarning, match="1,120 numbers.*`variables`"):
        token(classifier)


def test_an_alteration_whose_texture_has_changed_is_seen():
    # JAX keeps what it converts: here and below, values of 64 bits.
    texture = np.zeros((4, 4, 1), np.float64)
    fog = jaxrob.Alteration(
        "fog", lambda image, level: image * (1 - level) + level * texture, 0.0, 1.0
    )
    classifier = jaxrob.Classifier(
        lambda weights, images: images.reshape(len(images), -1) @ weights, FIRST
    )
    data = jaxrob.Dataset(IMAGES, np.zeros(40, int))
    for value in (0.25, 1.0):
        texture[...] = value * IMAGES[0]
        curve = jaxrob.evaluate(classifier, data, fog, [1.0])
        scores = special.softmax(value * FLAT[:1] @ FIRST, axis=1)
        np.testing.assert_allclose(curve.confidence[0], scores.max(), rtol=1e-5)


def test_a_sampler_whose_size_has_changed_is_seen():
    noise = {"size": 0.0}

    def sampler(key, image):
        return image + noise["size"] * jax.random.normal(key, image.shape)

    drawn = roma.from_sampler(sampler)
    first, before = (fingerprinted_perturbation(drawn, (4, 4, 1)) for _ in range(2))
    noise["size"] = 1.0
    after = fingerprinted_perturbation(drawn, (4, 4, 1))
    first, before, after = map(jax.tree.structure, (first, before, after))
    assert first == before != after


class Held:
    """Functions of the user's that use what it holds; all of them are equal."""

    def __init__(self, held):
        self.held = held

    def __eq__(self, other):
        return isinstance(other, Held)

    def __hash__(self):
        return 0

    def network(self, weights, images):
        return images.reshape(-1, 16) @ weights * self.held

    def on_host(self, weights, images):
        outputs, held = self.network(weights, images) / self.held, float(self.held)
        return jax.pure_callback(lambda x: held * np.asarray(x), outputs, outputs)

    def __call__(self, outputs, labels):
        return (self.held + jnp.ones(len(labels))) / 2


@pytest.mark.filterwarnings("ignore:what the classifier's apply_fn captures")
@pytest.mark.parametrize(
    ("part", "kind", "change"),
    [
        ("network", float, lambda held: Held(-1.0)),
        ("network", float, lambda held: vars(held).update(held=-1) or held),
        ("network", np.array, lambda held: np.copyto(held.held, -1) or held),
        ("on_host", float, lambda held: vars(held).update(held=-1) or held),
        ("score", np.array, lambda held: np.copyto(held.held, -1) or held),
    ],
)
def test_answers_follow_whatever_a_function_takes_from_around_it(part, kind, change):
    def found(held):
        if part != "score":
            return predicted(jaxrob.Classifier(getattr(held, part), FIRST))
        network = jaxrob.Classifier(lambda _, images: images, outputs="any")
        data = jaxrob.Dataset(IMAGES, np.zeros(40, int))
        how = {"score": held}
        return jaxrob.evaluate(network, data, UNALTERED, [0.0], **how).scores[0]

    is_score, held = part == "score", Held(kind(1.0))
    expected = np.ones(40) if is_score else right(FIRST)
    np.testing.assert_array_equal(found(held), expected)
    expected = np.zeros(40) if is_score else right(-FIRST)
    np.testing.assert_array_equal(found(change(held)), expected)


DATA = jaxrob.Dataset(IMAGES[:8], np.arange(8) % 3)
WEIGHTS = np.float32(RANDOM.normal(size=(16, 3)))
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


# Without room, programs might be dropped between two calls, after many other tests.
@pytest.mark.parametrize(
    "kind", [pytest.param(one, marks=() if one == "linen" else SLOW) for one in MADE]
)
def test_a_network_is_traced_once_in_a_call_and_not_compiled_again(kind, monkeypatch):
    monkeypatch.setattr("jaxrob._engine.evaluate.make_room", lambda: None)
    assert traces(lambda: assess(MADE[kind]())) > 1
    with compilations() as compiled:
        found = [traces(lambda: assess(MADE[kind]())) for _ in range(2)]
    # In a `jax.jit` of the user's JAX keeps its trace.
    assert found == [kind != "jitted"] * 2 and not compiled


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
    first, second = (token(jaxrob.Classifier(one, WEIGHTS)) for one in signs)
    assert first != second


def test_jax_settings_are_part_of_what_a_network_is():
    classifier = MADE["function"]()
    before = token(classifier)
    with jax.default_matmul_precision("float32"):
        other = token(classifier)
    assert other != before == token(classifier)
    wide = jaxrob.Classifier(plain, np.int64(2**31 * WEIGHTS.clip(1)))
    with pytest.raises(ValueError, match="variables"):
        token(wide)


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

    # Twice, so that draws made meanwhile are noticed.
    for ask in of_alteration, of_perturbation:
        assert [traces(ask) for _ in range(2)] == [2, 2]


@pytest.mark.filterwarnings("ignore:what the classifier's apply_fn captures")
def test_a_captured_array_may_share_memory_that_is_written_to():
    room = np.ones(32, np.float32)
    own = room[-room.ctypes.data % 64 // 4 :][:2]  # As JAX shares it on a CPU.
    array = jax.dlpack.from_dlpack(own)
    classifier = jaxrob.Classifier(lambda _, images: array + 0 * images[:, 0, :2, 0])
    before = token(classifier)
    own[1] += 1
    assert token(classifier) != before


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


def test_a_training_loop_keeps_nothing_on_the_devices():
    results, held, compiled = [], [], []
    for _ in range(5):
        variables = new_variables()
        with compilations() as found:
            results.append(assess(jaxrob.Classifier.from_linen(LinenNet(), variables)))
        compiled.append(len(found))
        held.append(sum(array.nbytes for array in jax.live_arrays()))
    assert not any(compiled[1:])
    assert len(set(held)) == 1
    assert len({one.provenance["classifier"] for one in results}) == 5
