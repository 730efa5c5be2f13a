"""Values that a function captures: new ones are detected, with a warning."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common.timing import compilations
from flax import linen, nnx
from scipy import special

import jaxrob
from jaxrob import adversarial, alterations, bayes, networks, retraining, roma

RANDOM = np.random.default_rng(0)
IMAGES = np.float32(RANDOM.random((40, 4, 4, 1)))
FLAT = IMAGES.reshape(40, 16)
FIRST, SECOND = (np.float32(RANDOM.normal(size=(16, 3))) for _ in range(2))
KEY = jax.random.key(0)
ARRAY = FIRST  # functions capture it from the module
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


def test_evaluate_sees_a_captured_module_that_has_changed():
    classifier, change = captured_module()
    before, after = changed(classifier, predicted, change)
    np.testing.assert_array_equal(before, right(FIRST))
    np.testing.assert_array_equal(after, right(SECOND))


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


def test_roma_sees_a_captured_module_that_has_changed():
    classifier, change = captured_module()

    def excluded(classifier):
        return roma.assess(
            classifier, IMAGES, num_samples=16, estimator="count", key=KEY
        ).excluded

    before, after = changed(classifier, excluded, change)
    np.testing.assert_array_equal(before, right(FIRST))
    np.testing.assert_array_equal(after, right(SECOND))


def test_attacks_see_a_captured_module_that_has_changed():
    classifier, change = captured_module()

    def correct(classifier):
        attack = adversarial.fgsm(classifier, IMAGES, right(FIRST), epsilon=0.1)
        return attack.correct

    before, after = changed(classifier, correct, change)
    assert before.all()
    np.testing.assert_array_equal(after, right(FIRST) == right(SECOND))


def test_adversariability_sees_a_captured_module_that_has_changed():
    classifier, change = captured_module()
    attack = functools.partial(adversarial.pgd, epsilon=0.1, steps=2)

    def num_inputs(classifier):
        return adversarial.adversariability(
            classifier, IMAGES, right(FIRST), attack=attack
        ).num_inputs

    before, after = changed(classifier, num_inputs, change)
    assert (before, after) == (40, (right(FIRST) == right(SECOND)).sum())


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


def test_arrays_and_attributes_of_an_object_are_seen():
    model = Model()
    classifier = jaxrob.Classifier(model)

    def new_weights():
        model.weights = SECOND

    def in_place():
        model.weights[...] = FIRST

    def negative():
        model.scale = -1.0

    model.weights = FIRST.copy()
    assert (predicted(classifier) == right(FIRST)).all()
    for change, weights in (
        (new_weights, SECOND),
        (negative, -SECOND),
    ):
        _, after = changed(classifier, predicted, change)
        np.testing.assert_array_equal(after, right(weights))
    model.weights = SECOND.copy()  # The same values: no warning.
    np.testing.assert_array_equal(predicted(classifier), right(-SECOND))
    _, after = changed(classifier, predicted, in_place)
    np.testing.assert_array_equal(after, right(-FIRST))


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


def test_networks_within_a_joined_one_are_seen():
    model = Model()
    both = retraining.parallel(jaxrob.Classifier(model), jaxrob.Classifier(model))

    def change():
        model.weights = SECOND

    before, after = changed(both, predicted, change)
    np.testing.assert_array_equal(before, right(FIRST))
    np.testing.assert_array_equal(after, right(SECOND))


def test_equal_values_compile_nothing_new():
    module = Linear(FIRST)
    classifier = jaxrob.Classifier(lambda variables, images: module(images))
    predicted(classifier)
    module.weights[...] = jnp.array(FIRST)
    with compilations() as compiled:
        predicted(classifier)
    assert not compiled


def test_more_than_a_thousand_captured_numbers_are_warned_of():
    weights = np.float32(RANDOM.normal(size=(16, 70)))
    classifier = jaxrob.Classifier(
        lambda variables, images: images.reshape(len(images), -1) @ weights
    )
    with pytest.warns(jaxrob.RobustnessWarning, match=r"1,120 numbers.*`variables`"):
        predicted(classifier)
    with_variables = jaxrob.Classifier(
        lambda variables, images: images.reshape(len(images), -1) @ variables, weights
    )
    np.testing.assert_array_equal(predicted(with_variables), right(weights))


def test_an_alteration_whose_texture_has_changed_is_seen():
    texture = np.zeros((4, 4, 1), np.float32)
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
    noise = {"size": jnp.float32(0)}

    def sampler(key, image):
        return image + noise["size"] * jax.random.normal(key, image.shape)

    classifier = jaxrob.Classifier(
        lambda weights, images: 9 * images.reshape(len(images), -1) @ weights, FIRST
    )

    def hits():
        return roma.assess(
            classifier,
            IMAGES,
            num_samples=64,
            estimator="count",
            perturbation=sampler,
            key=KEY,
        ).hits.sum()

    assert hits() == 0
    noise["size"] = jnp.float32(1)
    assert hits() > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        networks.MLP(),
        networks.MnistCNN(),
        networks.StridedCNN(),
        networks.ResNet(blocks=(1,)),
        networks.IdcCNN(),
        networks.VGG16(num_classes=2),
    ],
    ids=lambda module: type(module).__name__,
)
def test_the_librarys_own_networks_capture_nothing(module):
    image_shape = (28, 28, 1) if "Idc" not in type(module).__name__ else (50, 50, 3)
    image_shape = (32, 32, 3) if "VGG" in type(module).__name__ else image_shape
    images = jnp.zeros((1, *image_shape))
    variables = jax.eval_shape(module.init, KEY, images)
    variables = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), variables)
    one = jaxrob.Classifier.from_linen(module, variables)
    made = [one, bayes.ensemble(module, [variables, jax.tree.map(np.copy, variables)])]
    made.append(retraining.parallel(one, one))
    if isinstance(module, networks.IdcCNN):
        made.append(bayes.mc_dropout(module, variables, 2))
    from jaxrob._fingerprint import fingerprinted_classifier

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for classifier in made:
            fingerprinted_classifier(classifier, image_shape)


def ways(first, second):
    """Yields functions of `use(array, *args)`, and the array's change between calls."""

    def closure(use):
        array = first.copy()
        return lambda *args: use(array, *args), lambda: np.copyto(array, second)

    def rebound(use):
        array = jnp.asarray(first)

        def change():
            nonlocal array
            array = jnp.asarray(second)

        return lambda *args: use(array, *args), change

    def module(use):
        held = Model()
        held.weights = first

        def change():
            held.weights = second

        return lambda *args: use(held.weights, *args), change

    def in_globals(use):
        globals()["ARRAY"] = first
        return lambda *args: use(ARRAY, *args), lambda: globals().update(ARRAY=second)

    def default(use):
        array = first.copy()

        def function(*args, array=array):
            return use(array, *args)

        return function, lambda: np.copyto(array, second)

    def method(use):
        class Own:
            array = first

            def apply(self, *args):
                return use(self.array, *args)

        own = Own()
        return own.apply, lambda: setattr(own, "array", second)

    def partial(use):
        array = first.copy()
        return functools.partial(use, array), lambda: np.copyto(array, second)

    def in_place(use):
        net = Linear(first)

        def change():
            net.weights[...] = jnp.asarray(second)

        return lambda *args: use(net.weights[...], *args), change

    return [closure, rebound, module, in_globals, default, method, partial, in_place]


@pytest.mark.parametrize("way", ways(FIRST, SECOND), ids=lambda way: way.__name__)
def test_arrays_that_a_classifier_takes_from_around_it_are_seen(way):
    function, change = way(lambda weights, _, images: images.reshape(-1, 16) @ weights)
    classifier = jaxrob.Classifier(function)
    np.testing.assert_array_equal(predicted(classifier), right(FIRST))
    before, after = changed(classifier, predicted, change)
    np.testing.assert_array_equal(before, right(FIRST))
    np.testing.assert_array_equal(after, right(SECOND))


def test_an_array_that_is_empty_at_first_is_seen():
    held = [jnp.zeros((0, 3)), jnp.asarray(SECOND)]

    def joined(weights, images):
        every = jnp.concatenate([weights, held[0]])
        return images.reshape(-1, 16) @ every[-16:]

    classifier = jaxrob.Classifier(joined, FIRST)
    np.testing.assert_array_equal(predicted(classifier), right(FIRST))
    before, after = changed(classifier, predicted, lambda: held.pop(0))
    np.testing.assert_array_equal(before, right(FIRST))
    np.testing.assert_array_equal(after, right(SECOND))


DARK, BRIGHT = np.zeros((4, 4, 1), np.float32), np.ones((4, 4, 1), np.float32)


@pytest.mark.parametrize("way", ways(DARK, BRIGHT), ids=lambda way: way.__name__)
def test_arrays_that_an_alteration_takes_from_around_it_are_seen(way):
    function, change = way(lambda end, image, level: image + level * (end - image))
    fade = jaxrob.Alteration("fade", function, 0.0, 1.0)
    classifier = jaxrob.Classifier(mean_brightness)
    data = jaxrob.Dataset(IMAGES, np.zeros(40, int))
    found = [jaxrob.evaluate(classifier, data, fade, [1.0]).predicted]
    change()
    found += [jaxrob.evaluate(classifier, data, fade, [1.0]).predicted]
    assert [one.mean() for one in found] == [0, 1]


def mean_brightness(variables, images):
    """Answers class 1 if an image is brighter than grey."""
    mean = images.mean((1, 2, 3))
    return 20 * jnp.stack([0.5 - mean, mean - 0.5], 1)


def test_a_network_in_training_does_not_warn():
    """New variables are not captured values."""

    class Net(linen.Module):
        @linen.compact
        def __call__(self, images):
            return linen.Dense(3)(images.reshape(len(images), -1))

    for seed in range(2):
        variables = jax.jit(Net().init)(jax.random.key(seed), IMAGES)
        found = predicted(jaxrob.Classifier.from_linen(Net(), variables))
        expected = np.asarray(Net().apply(variables, IMAGES)).argmax(1)
        np.testing.assert_array_equal(found, expected)
