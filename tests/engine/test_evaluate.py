"""The engine: answers do not depend on how they were computed."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common.timing import compilations
from scipy import special

import jaxrob
from jaxrob import alterations
from jaxrob._classifiers.trace import trace_info
from jaxrob._engine import execution, step, tasks
from jaxrob.alterations import Alteration
from jaxrob.alterations._photometric import normal
from jaxrob.networks import MnistCNN

from ..linear import linear

NUM_IMAGES = 97
NOISE = alterations.gaussian_noise(0.0, 0.2)
KEY = jax.random.key(7)
BRIGHTNESS = alterations.brightness()
SAME = jaxrob.Alteration("nothing", lambda image, level: image, 0, 1)


RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (NUM_IMAGES, 8, 8, 1), dtype=np.uint8)
LABELS = RANDOM.integers(0, 10, NUM_IMAGES)
WEIGHTS = RANDOM.normal(size=(64, 10)).astype(np.float32)


@pytest.fixture(scope="module")
def dataset():
    return jaxrob.Dataset(IMAGES, LABELS)


@pytest.fixture(scope="module")
def classifier():
    return jaxrob.Classifier(linear, WEIGHTS)


def evaluate(classifier, dataset, levels, alteration=NOISE, key=KEY, **settings):
    return jaxrob.evaluate(classifier, dataset, alteration, levels, key=key, **settings)


def assert_equal_answers(curve, predicted, confidence):
    np.testing.assert_array_equal(curve.predicted, predicted)
    np.testing.assert_array_equal(curve.confidence, confidence)


def assert_same_answers(curve, reference):
    np.testing.assert_array_equal(curve.predicted, reference.predicted)
    np.testing.assert_allclose(curve.confidence, reference.confidence, atol=1e-4)
    np.testing.assert_allclose(curve.uncertainty, reference.uncertainty, atol=2e-4)


def test_answers_are_those_of_one_image_at_a_time(classifier, dataset):
    """By hand, in NumPy except for the noise."""

    @jax.jit
    @jax.vmap
    def drawn(index):
        return normal(jax.random.fold_in(KEY, index), IMAGES.shape[1:])

    noise = np.asarray(drawn(np.arange(NUM_IMAGES, dtype=np.uint32)))
    levels = [0.0, 0.05, 0.2]
    curve = evaluate(classifier, dataset, levels)
    for row, level in enumerate(levels):
        altered = np.clip(IMAGES / 255 + np.sqrt(level) * noise, 0, 1)
        p = special.softmax(linear(WEIGHTS, altered), axis=1)
        np.testing.assert_array_equal(curve.predicted[row], p.argmax(1))
        np.testing.assert_allclose(curve.confidence[row], p.max(1), atol=1e-4)
        expected = (1 - (p**2).sum(1)) / 0.9
        np.testing.assert_allclose(curve.uncertainty[row], expected, atol=2e-4)


def test_answers_do_not_depend_on_the_batch_size(classifier, dataset):
    levels = np.linspace(0, 0.2, 5)
    reference = evaluate(classifier, dataset, levels)
    for batch_size in (40, 1000):
        curve = evaluate(classifier, dataset, levels, batch_size=batch_size)
        assert_same_answers(curve, reference)
    # The first of these images and they alone: same indices, same noise.
    part = evaluate(classifier, dataset[:40], levels)
    np.testing.assert_allclose(part.confidence, reference.confidence[:, :40], atol=1e-4)


def test_answers_do_not_depend_on_the_order_or_split_of_levels(classifier, dataset):
    levels = np.linspace(0, 0.2, 5)
    reference = evaluate(classifier, dataset, levels)
    order = np.random.default_rng(1).permutation(len(levels))
    for rows in (order, *np.arange(len(levels))[:, None]):
        given = levels[rows]
        curve = evaluate(classifier, dataset, given)
        given[:] = 0  # The caller may fill it again.
        np.testing.assert_array_equal(curve.levels, levels[rows])
        expected = reference.predicted[rows], reference.confidence[rows]
        assert_equal_answers(curve, *expected)


def test_batches_of_any_length_give_the_answers_of_the_array(
    classifier, dataset, monkeypatch
):
    # Of an unknown number of images a CPU has one program, so of these too.
    monkeypatch.setattr(step, "_FEW_ANSWERS", 0)
    levels = [0.0, 0.1]
    reference = evaluate(classifier, dataset, levels, batch_size=40)
    for cuts in ([1, 30, 31, 90], list(range(3, NUM_IMAGES, 3))):
        batches = list(zip(np.split(IMAGES, cuts), np.split(LABELS, cuts)))
        batched = jaxrob.Dataset.from_batches(batches)
        curve = evaluate(classifier, batched, levels, batch_size=40)
        # The last block has another shape here.
        assert_same_answers(curve, reference)
        first = slice(None), slice(80)
        expected = reference.predicted[first], reference.confidence[first]
        np.testing.assert_array_equal(curve.confidence[first], expected[1])
        np.testing.assert_array_equal(curve.labels, dataset.labels)


@pytest.mark.parametrize("kind", ["fortran", "channel", "steps"])
def test_a_memory_map_gives_the_answers_of_its_array(
    classifier, dataset, tmp_path, kind
):
    images = np.float32(dataset.images) / 255
    stored = {
        "fortran": np.asfortranarray(images),
        "channel": np.concatenate([1 - images, images], axis=-1),
        "steps": np.repeat(images, 2, axis=0),
    }[kind]
    np.save(tmp_path / "images.npy", stored)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    mapped = {"channel": mapped[..., 1:], "steps": mapped[::2]}.get(kind, mapped)
    assert isinstance(mapped, np.memmap)
    curve, reference = (
        evaluate(classifier, jaxrob.Dataset(some, dataset.labels), [0.1], batch_size=40)
        for some in (mapped, images)
    )
    assert_equal_answers(curve, reference.predicted, reference.confidence)
    # The host's and the device's division by 255 may round differently.
    whole = evaluate(classifier, dataset, [0.1], batch_size=40)
    np.testing.assert_allclose(curve.confidence, whole.confidence, atol=1e-4)


def test_levels_of_the_same_effect_are_evaluated_once(dataset):
    seen = []

    def count(images):
        seen.append(len(images))
        return np.zeros((len(images), 10), np.float32)

    classifier = jaxrob.Classifier.from_host(count, 10, "scores")
    jpeg = alterations.jpeg_compression()
    levels = np.linspace(0, 100, 1001)
    curve = jaxrob.evaluate(classifier, dataset[:20], jpeg, levels)
    assert len(curve.levels) == 1001
    # 100 qualities, the unaltered images, and a level alone, among others, as bytes.
    assert sum(seen) == 104 * 20


@pytest.mark.slow
def test_levels_batched_as_on_accelerators_give_the_same_answers(dataset, monkeypatch):
    def noise_and_brightness(image, level, key):
        noisy = alterations.gaussian_noise(0, 0.1)(image, level / 100, key)
        return alterations.brightness(0, 10)(noisy, level)

    # New names, because the programs are cached by alteration.
    looped, batched = (
        Alteration(how, noise_and_brightness, 0, 10, identity=0, stochastic=True)
        for how in ("looped", "batched")
    )
    plain = jaxrob.Classifier(linear, WEIGHTS)

    def apply(plain, images, keys):
        noise = jax.vmap(lambda key: jax.random.normal(key, (3, 10)))(keys)
        return plain.raw_outputs(images) + 0.1 * jnp.swapaxes(noise, 0, 1)

    for own in (plain, jaxrob.Classifier(apply, plain, stochastic=True)):
        for levels in ([3.0], np.linspace(0, 10, 9)):
            reference = evaluate(own, dataset, levels, looped)
            with monkeypatch.context() as patch:
                for module in (execution, step, tasks):
                    patch.setattr(module, "platform", lambda mesh: "gpu")
                curve = evaluate(own, dataset, levels, batched)
            np.testing.assert_array_equal(curve.predicted, reference.predicted)
            for part in ("confidence", "uncertainty"):
                np.testing.assert_allclose(
                    getattr(curve, part), getattr(reference, part), atol=1e-5
                )


def operations(classifier, shape=(28, 28, 1)):
    return trace_info(classifier, shape).operations


def test_operations_are_those_that_xla_counts():
    module, images = MnistCNN(), jax.ShapeDtypeStruct((4, 28, 28, 1), np.float32)
    variables = jax.eval_shape(module.init, KEY, images)
    classifier = jaxrob.Classifier.from_linen(module, variables)
    lowered = jax.jit(module.apply).lower(variables, images)
    counted = lowered.cost_analysis()["flops"] / 4
    # XLA leaves out the zeros of the padding, and counts what is done to elements.
    assert operations(classifier) == pytest.approx(counted, rel=0.1)


def test_operations_of_loops_and_of_the_host():
    def scanned(weights, images):
        images = images.reshape(len(images), -1)
        images, _ = jax.lax.scan(lambda x, w: (x @ w, None), images, weights)
        return images[:, :10]

    weights = jax.ShapeDtypeStruct((7, 784, 784), np.float32)
    classifier = jaxrob.Classifier(scanned, weights)
    assert operations(classifier) == 7 * 2 * 784**2
    host = jaxrob.Classifier.from_host(lambda images: np.zeros((len(images), 10)), 10)
    assert operations(host) == math.inf

    def until_large(weights, images):
        images = images.reshape(len(images), -1)[:, :10]
        return jax.lax.while_loop(lambda x: x.max() < 9, lambda x: 2 * x + 1, images)

    assert operations(jaxrob.Classifier(until_large)) == math.inf


@pytest.mark.slow
def test_answers_of_a_slow_classifier_are_kept_level_by_level(dataset, tmp_path):
    calls, failing = [], 7

    def slow(images):
        calls.append(len(images))
        if len(calls) == failing:
            raise RuntimeError("interrupted")
        return 5 * images.reshape(len(images), -1)[:, :10]

    classifier = jaxrob.Classifier.from_host(slow, 10, name="slow", version="1")
    levels = np.linspace(-0.5, 0.4, 10)

    def run():
        path = tmp_path / "journal"
        return jaxrob.evaluate(classifier, dataset, BRIGHTNESS, levels, journal=path)

    with pytest.raises(Exception, match="interrupted"):
        run()
    assert len(calls) >= failing
    calls[:] = [0] * failing
    run()
    # All but those under way and the one dispatched ahead. Each run has a call more
    # that looks for mistakes, and one of them another.
    assert len(calls) - failing <= len(levels) - (failing - 3) + 3


def test_calls_of_few_images_share_the_networks_program(dataset):
    classifier = jaxrob.Classifier(linear, 5 * WEIGHTS)
    evaluate(classifier, dataset, [0.5], alterations.brightness())
    programs = step.answer_at_levels._cache_size()
    evaluate(classifier, dataset, [0.5], alterations.contrast())
    assert step.answer_at_levels._cache_size() == programs


@pytest.mark.slow
def test_new_variables_and_any_number_of_levels_compile_nothing(dataset):
    def both():
        members = [alterations.gaussian_blur(), alterations.gaussian_noise()]
        return alterations.compose(members, name="both")

    alteration = both()
    classifiers = [jaxrob.Classifier(linear, i * WEIGHTS) for i in range(1, 4)]
    with compilations() as first:
        evaluate(classifiers[0], dataset, [0.5], alteration)
    assert len(first) >= 1  # the counter does count
    with compilations() as later:
        for classifier, number in zip(classifiers, (1, 16, 41)):
            levels = np.linspace(0, 1, number)
            evaluate(classifier, dataset, levels, alteration)
        # Another, equal alteration is the same program.
        evaluate(classifiers[0], dataset, [0.3, 0.4], both())
        evaluate(classifiers[0], dataset, [0.3], both(), jax.random.key(99))
    # `jax.random.key` itself may be the only other program.
    assert len(later) <= 1, len(later)


@pytest.mark.slow
def test_stochastic_classifier_draws_the_same_at_every_level_and_batch_size(dataset):
    def apply(variables, images, keys):
        mean = images.mean(axis=(1, 2, 3))[:, None] * jnp.arange(3.0)
        return mean + jax.vmap(lambda key: jax.random.normal(key, (3,)))(keys)

    classifier = jaxrob.Classifier(apply, None, stochastic=True)
    data = jaxrob.Dataset(dataset.images, dataset.labels % 3)
    curves = [
        evaluate(classifier, data, [0, 0.5, 1], SAME, batch_size=size)
        for size in (40, NUM_IMAGES)
    ]
    for curve in curves:
        np.testing.assert_array_equal(curve.predicted[0], curve.predicted[1])
        np.testing.assert_array_equal(curve.predicted[0], curves[0].predicted[2])
    # Not one draw for all images.
    assert len(np.unique(curves[0].confidence[0])) > NUM_IMAGES // 2


@pytest.mark.slow
def test_keys_of_other_implementations_do_not_bring_the_batch_back(classifier, dataset):
    key = jax.random.key(0, impl="rbg")
    whole, blocks = (
        evaluate(classifier, dataset, [0.1], key=key, batch_size=batch_size)
        for batch_size in (NUM_IMAGES, 40)
    )
    np.testing.assert_allclose(blocks.confidence, whole.confidence, atol=1e-4)


@pytest.mark.slow
def test_noise_and_a_stochastic_classifier_draw_independently():
    shape = (16, 16, 1)

    def apply(variables, images, keys):
        # The correlation of the image's noise with the classifier's own draws.
        draws = jax.vmap(lambda key: jax.random.normal(key, shape))(keys)
        score = (images * draws).mean(axis=(1, 2, 3))
        return jnp.stack([score, -score], axis=1)

    classifier = jaxrob.Classifier(apply, None, stochastic=True)
    data = jaxrob.Dataset(np.tile(IMAGES[:40], (1, 2, 2, 1)), np.zeros(40, int))
    noise = alterations.gaussian_noise(0.0, 1.0, clip=False)
    curve = evaluate(classifier, data, [1.0], noise)
    # Equal draws would score 1 for every image: a confidence of 0.88.
    assert curve.confidence.max() < 0.65


@pytest.mark.slow
def test_a_mesh_around_the_call_changes_nothing(classifier, dataset):
    reference = evaluate(classifier, dataset, [0.1])
    # Not make_mesh, whose default kind of axes has changed with versions of JAX.
    with jax.set_mesh(jax.sharding.Mesh(jax.devices()[:1], ("x",))):
        curve = evaluate(classifier, dataset, [0.1])
    np.testing.assert_array_equal(curve.confidence, reference.confidence)


@pytest.mark.slow
def test_samples_are_averaged_as_probabilities(dataset):
    logits = jnp.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    classifier = jaxrob.Classifier(
        lambda variables, images: jnp.tile(variables[:, None], (1, len(images), 1)),
        logits,
    )
    with pytest.warns(jaxrob.RobustnessWarning, match="the same for every image"):
        two = jaxrob.Dataset(dataset.images[:2], [0, 1])
        curve = jaxrob.evaluate(classifier, two, BRIGHTNESS, [0.0])
    p = np.exp(np.float64(logits))
    p /= p.sum(axis=1, keepdims=True)
    mean = p.mean(axis=0)
    assert (curve.predicted == mean.argmax()).all()
    np.testing.assert_allclose(curve.confidence, mean.max(), rtol=1e-6)
    aleatoric = np.mean([np.trace(np.diag(row) - np.outer(row, row)) for row in p])
    np.testing.assert_allclose(curve.uncertainty, aleatoric / (2 / 3), rtol=1e-6)


@pytest.mark.slow
def test_any_array_can_be_altered():
    # A vector of features and a user's own alteration of it.
    random = np.random.default_rng(0)
    features = random.normal(size=(50, 4)).astype(np.float32)
    labels = (features[:, 0] > 0).astype(int)
    offset = jaxrob.Alteration("offset", lambda x, level: x + level, -3, 3, 0)
    classifier = jaxrob.Classifier(
        lambda variables, x: jnp.stack([-x[:, 0], x[:, 0]], axis=1), None
    )
    curve = jaxrob.evaluate(
        classifier, jaxrob.Dataset(features, labels), offset, [-3, 0, 3]
    )
    # Every label is right unaltered; an offset of 3 makes (nearly) all of one class.
    expected = [np.mean((features[:, 0] + level > 0) == labels) for level in (-3, 0, 3)]
    np.testing.assert_array_equal(curve.accuracy, expected)


def returns(value, outputs):
    def apply(variables, images):
        return jnp.full((len(images), 10), value)

    return jaxrob.Classifier(apply, None, outputs)


BLUR, JPEG = alterations.gaussian_blur(), alterations.jpeg_compression()
CROP = jaxrob.Alteration("crop", lambda image, level: image[:5], 0, 1)
GAMMA = jaxrob.Alteration("gamma", lambda image, level: image**level, 0, 2)
NAMED = jaxrob.Dataset(IMAGES, LABELS % 2, class_names=("even", "odd"))
WITHOUT_CHANNELS = jaxrob.Dataset(IMAGES[..., 0], LABELS)
OF_TWO, OF_THREE = (jaxrob.Dataset(np.tile(IMAGES, n), LABELS) for n in (2, 3))


class TestBadInput:
    def evaluate(self, levels=(0.0,), alteration=BRIGHTNESS, key=None, **given):
        return evaluate(levels=levels, alteration=alteration, key=key, **given)

    @pytest.mark.parametrize(
        "given, message",
        [
            ({"levels": [0, 0.6]}, "levels.*0.6"),
            ({"levels": [np.nan]}, "levels.*nan"),
            ({"levels": []}, "levels.*shape"),
            ({"alteration": NOISE}, "stochastic and needs a key"),
            ({"alteration": NOISE, "key": jax.random.split(KEY)}, "key; got"),
            ({"batch_size": 0}, "batch_size.*got 0"),
            (
                {"dataset": jaxrob.Dataset(IMAGES, np.arange(NUM_IMAGES) % 11)},
                r"10 classes .*; got 10",
            ),
            ({"dataset": NAMED}, "10 classes, but dataset has 2"),
            ({"dataset": OF_THREE}, r"failed on images of the shape \[B, 8, 8, 3"),
            ({"dataset": WITHOUT_CHANNELS, "alteration": BLUR}, "gaussian_blur: image"),
            ({"dataset": OF_TWO, "alteration": JPEG}, "image"),
            ({"alteration": CROP}, "crop"),
            ({"alteration": GAMMA, "levels": [1.0]}, "gamma"),
            ({"classifier": returns(0.2, "probabilities")}, "sum of 1"),
            ({"classifier": returns(1.5, "sigmoid")}, "outside"),
        ],
    )
    def test_bad_values(self, classifier, dataset, given, message):
        usual = {"classifier": classifier, "dataset": dataset}
        with pytest.raises(ValueError, match=message):
            self.evaluate(**(usual | given))

    def test_model_that_returns_nan_for_one_image_at_one_level(self, dataset):
        def apply(variables, images):
            # Only the brightest image at the highest level exceeds this.
            total = images.sum(axis=(1, 2, 3))
            bad = total > variables
            return jnp.where(bad[:, None], jnp.nan, 9 * jnp.eye(10)[:1])

        brightest = (dataset.images / 255).sum(axis=(1, 2, 3)).max()
        classifier = jaxrob.Classifier(apply, jnp.float32(brightest * 1.001))
        self.evaluate([-0.5, 0], classifier=classifier, dataset=dataset)
        with pytest.raises(ValueError, match="returned NaN.* first at level 0.5"):
            self.evaluate([-0.5, 0, 0.5], classifier=classifier, dataset=dataset)
