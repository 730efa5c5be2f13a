"""The engine: answers do not depend on how they were computed."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common.timing import compilations

import jaxrob
from jaxrob import alterations
from jaxrob._classifier import trace_info
from jaxrob._engine import sizes, tasks
from jaxrob.alterations import Alteration
from jaxrob.alterations._normal import normal
from jaxrob.networks import MLP, MnistCNN, StridedCNN

NUM_IMAGES = 97
NOISE = alterations.gaussian_noise(0.0, 0.2)
KEY = jax.random.key(7)
BRIGHTNESS = alterations.brightness()
SAME = jaxrob.Alteration("nothing", lambda image, level: image, 0, 1)


RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (NUM_IMAGES, 28, 28, 1), dtype=np.uint8)
LABELS = RANDOM.integers(0, 10, NUM_IMAGES)


@pytest.fixture(scope="module")
def dataset():
    return jaxrob.Dataset(IMAGES, LABELS)


@pytest.fixture(scope="module")
def classifier():
    return make_classifier(0)


def make_classifier(seed, module=None):
    module = module or MnistCNN()
    variables = jax.jit(module.init)(jax.random.key(seed), jnp.zeros((1, 28, 28, 1)))
    return jaxrob.Classifier.from_linen(module, variables)


def near_ties(classifier, dataset, alteration, levels, key):
    """bool [L, N]: where the best two classes are within 1e-5, image by image."""
    ties = np.zeros((len(levels), len(dataset)), bool)
    apply = jax.jit(lambda image: classifier.log_probabilities(image[None])[0, 0])
    for n, image in enumerate(dataset.images):
        image = jnp.float32(image) / 255
        for row, level in enumerate(levels):
            image_key = jax.random.fold_in(key, n)
            altered = alteration(image, jnp.float32(level), image_key)
            best = np.sort(np.exp(apply(altered)))[-2:]
            ties[row, n] = best[1] - best[0] < 1e-5
    return ties


def evaluate(classifier, dataset, levels, alteration=NOISE, key=KEY, **settings):
    return jaxrob.evaluate(classifier, dataset, alteration, levels, key=key, **settings)


def assert_equal_answers(curve, predicted, confidence):
    """Checks that answers are equal to the bit."""
    np.testing.assert_array_equal(curve.predicted, predicted)
    np.testing.assert_array_equal(curve.confidence, confidence)


def assert_same_answers(curve, reference, ties):
    different = curve.predicted != reference.predicted
    assert not (different & ~ties).any()
    assert ties.sum() <= 0.01 * ties.size, "too many near-ties for a test of anything"
    np.testing.assert_allclose(curve.confidence, reference.confidence, atol=1e-4)
    np.testing.assert_allclose(curve.uncertainty, reference.uncertainty, atol=2e-4)


def test_answers_are_those_of_one_image_at_a_time(classifier, dataset):
    few = dataset[:12]
    levels = [0.0, 0.05, 0.2]
    curve = evaluate(classifier, few, levels)
    for n, image in enumerate(few.images):
        for row, level in enumerate(levels):
            # By hand, in NumPy except for the noise and the network.
            noise = normal(jax.random.fold_in(KEY, n), image.shape)
            altered = np.clip(image / 255 + np.sqrt(level) * np.asarray(noise), 0, 1)
            logits = classifier.apply_fn(
                classifier.variables, jnp.float32(altered)[None]
            )
            p = np.exp(np.float64(logits[0]))
            p /= p.sum()
            assert curve.predicted[row, n] == p.argmax()
            np.testing.assert_allclose(curve.confidence[row, n], p.max(), atol=1e-4)
            np.testing.assert_allclose(
                curve.uncertainty[row, n], (1 - (p**2).sum()) / 0.9, atol=2e-4
            )


@pytest.mark.slow
@pytest.mark.parametrize("alteration", [NOISE, alterations.rotation(-180, 180)])
def test_answers_do_not_depend_on_the_batch_size(classifier, dataset, alteration):
    levels = np.linspace(alteration.lower, alteration.upper, 5)
    reference = evaluate(classifier, dataset, levels, alteration)
    ties = near_ties(classifier, dataset, alteration, levels, KEY)
    for batch_size in (1, 7, 64, NUM_IMAGES, 1000):
        curve = evaluate(classifier, dataset, levels, alteration, batch_size=batch_size)
        assert_same_answers(curve, reference, ties)


def test_answers_do_not_depend_on_the_order_or_split_of_levels(classifier, dataset):
    levels = np.linspace(0, 0.2, 9)
    reference = evaluate(classifier, dataset, levels)
    order = np.random.default_rng(1).permutation(len(levels))
    for rows in (order, *np.arange(len(levels))[:, None]):
        curve = evaluate(classifier, dataset, levels[rows])
        np.testing.assert_array_equal(curve.levels, levels[rows])
        expected = reference.predicted[rows], reference.confidence[rows]
        assert_equal_answers(curve, *expected)


@pytest.mark.slow
def test_answers_of_several_levels_in_one_step_are_the_same(classifier, dataset):
    # Blocks of so few images share a step between levels, of which the last is filled.
    few, levels = dataset[:5], np.linspace(0, 0.2, 31)
    curve = evaluate(classifier, few, levels)
    reference = evaluate(classifier, dataset, levels)
    ties = near_ties(classifier, few, NOISE, levels, KEY)
    different = curve.predicted != reference.predicted[:, :5]
    assert not (different & ~ties).any()


@pytest.mark.slow
def test_images_before_an_image_do_not_change_its_noise(classifier, dataset):
    # The first 40 of 97 images and the first 40 alone: same indices, same noise.
    levels = [0.1]
    whole = evaluate(classifier, dataset, levels)
    part = evaluate(classifier, dataset[:40], levels)
    np.testing.assert_allclose(part.confidence, whole.confidence[:, :40], atol=1e-4)


def test_batches_of_any_length_give_the_answers_of_the_array(classifier, dataset):
    levels = [0.0, 0.1]
    reference = evaluate(classifier, dataset, levels, batch_size=32)
    for cuts in ([1], [30, 31, 90], list(range(3, NUM_IMAGES, 3))):
        batches = list(zip(np.split(IMAGES, cuts), np.split(LABELS, cuts)))
        batched = jaxrob.Dataset.from_batches(batches)
        curve = evaluate(classifier, batched, levels, batch_size=32)
        np.testing.assert_array_equal(curve.predicted, reference.predicted)
        confidence, expected = curve.confidence, reference.confidence
        # The last block, of what is left of three of 32, has another shape here.
        np.testing.assert_array_equal(confidence[:, :96], expected[:, :96])
        np.testing.assert_allclose(confidence[:, 96:], expected[:, 96:], rtol=1e-5)
        np.testing.assert_array_equal(curve.labels, dataset.labels)


@pytest.mark.parametrize(
    "kind",
    [
        "bytes",
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in ("floats", "fortran", "channel", "steps")
        ),
    ],
)
def test_a_memory_map_gives_the_answers_of_its_array(dataset, tmp_path, kind):
    images = dataset.images if kind == "bytes" else np.float32(dataset.images) / 255
    stored = {
        "fortran": np.asfortranarray(images),
        "channel": np.concatenate([1 - images, images], axis=-1),
        "steps": np.repeat(images, 2, axis=0),
    }.get(kind, images)
    np.save(tmp_path / "images.npy", stored)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    mapped = {"channel": mapped[..., 1:], "steps": mapped[::2]}.get(kind, mapped)
    assert isinstance(mapped, np.memmap)
    classifier = make_classifier(0, MLP())
    curve, reference = (
        evaluate(classifier, jaxrob.Dataset(some, dataset.labels), [0.1], batch_size=40)
        for some in (mapped, images)
    )
    assert_equal_answers(curve, reference.predicted, reference.confidence)


def test_reduced_curve_holds_the_counts_of_the_curve(classifier, dataset):
    levels = np.linspace(0, 0.2, 3)
    curve, reduced = (
        evaluate(classifier, dataset, levels, batch_size=16, reduced=reduced)
        for reduced in (False, True)
    )
    np.testing.assert_array_equal(reduced.confusion, curve.confusion)
    np.testing.assert_array_equal(reduced.accuracy, curve.accuracy)


def test_uint8_and_float_images_give_the_same_answers(classifier, dataset):
    scaled = jaxrob.Dataset(np.float32(dataset.images) / 255, dataset.labels)
    curve = evaluate(classifier, scaled, [0.1])
    reference = evaluate(classifier, dataset, [0.1])
    # The host's and the device's division by 255 may round differently.
    np.testing.assert_allclose(curve.confidence, reference.confidence, atol=1e-4)


def test_levels_of_the_same_effect_are_evaluated_once(dataset):
    seen = []

    def count(images):
        seen.append(len(images))
        return np.zeros((len(images), 10), np.float32)

    classifier = jaxrob.Classifier.from_host(count, 10, "scores")
    jpeg = alterations.jpeg_compression()
    levels = np.linspace(0, 100, 1001)
    curve = jaxrob.evaluate(classifier, dataset, jpeg, levels)
    assert len(curve.levels) == 1001
    # 100 qualities, the unaltered images, and a level once more among other images; 64
    # images once as bytes.
    assert sum(seen) == 102 * NUM_IMAGES + 64


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
    plain = make_classifier(0, MLP())

    def apply(plain, images, keys):
        noise = jax.vmap(lambda key: jax.random.normal(key, (3, 10)))(keys)
        return plain.raw_outputs(images) + 0.1 * jnp.swapaxes(noise, 0, 1)

    for own in (plain, jaxrob.Classifier(apply, plain, stochastic=True)):
        for levels in ([3.0], np.linspace(0, 10, 9)):
            reference = evaluate(own, dataset, levels, looped)
            with monkeypatch.context() as patch:
                for module in (sizes, tasks):
                    patch.setattr(module, "platform", lambda mesh: "gpu")
                curve = evaluate(own, dataset, levels, batched)
            np.testing.assert_array_equal(curve.predicted, reference.predicted)
            for part in ("confidence", "uncertainty"):
                np.testing.assert_allclose(
                    getattr(curve, part), getattr(reference, part), atol=1e-5
                )


def operations(classifier, shape=(28, 28, 1)):
    return trace_info(classifier, shape).operations


@pytest.mark.parametrize(
    "module",
    [MLP(), MnistCNN(), pytest.param(StridedCNN(), marks=pytest.mark.slow)],
)
def test_operations_are_those_that_xla_counts(module):
    classifier = make_classifier(0, module)
    images = jnp.zeros((4, 28, 28, 1))
    lowered = jax.jit(classifier.raw_outputs).lower(images)
    counted = lowered.cost_analysis()["flops"] / 4
    # XLA leaves out the zeros of the padding, and counts what is done to elements.
    assert operations(classifier) == pytest.approx(counted, rel=0.1)


def test_operations_of_loops_and_of_the_host():
    def scanned(weights, images):
        images = images.reshape(len(images), -1)
        images, _ = jax.lax.scan(lambda x, w: (x @ w, None), images, weights)
        return images[:, :10]

    classifier = jaxrob.Classifier(scanned, jnp.zeros((7, 784, 784)))
    assert operations(classifier) == 7 * 2 * 784**2
    on_host = jaxrob.Classifier.from_host(
        lambda images: np.zeros((len(images), 10)), 10
    )
    assert operations(on_host) == math.inf

    def until_large(weights, images):
        images = images.reshape(len(images), -1)[:, :10]
        return jax.lax.while_loop(lambda x: x.max() < 9, lambda x: 2 * x + 1, images)

    assert operations(jaxrob.Classifier(until_large)) == math.inf


def test_answers_of_a_slow_classifier_are_kept_level_by_level(dataset, tmp_path):
    calls, failing = [], 7

    def slow(images):
        calls.append(len(images))
        if len(calls) == failing:
            raise RuntimeError("interrupted")
        return images[:, :10, 0, 0]

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


@pytest.mark.slow
def test_new_variables_and_any_number_of_levels_compile_nothing(dataset):
    def both():
        members = [alterations.gaussian_blur(), alterations.gaussian_noise()]
        return alterations.compose(members, name="both")

    alteration = both()
    with compilations() as first:
        evaluate(make_classifier(1), dataset, [0.5], alteration)
    assert len(first) >= 1  # the counter does count
    classifiers = [make_classifier(seed) for seed in range(2, 5)]
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
        for size in (10, NUM_IMAGES)
    ]
    for curve in curves:
        np.testing.assert_array_equal(curve.predicted[0], curve.predicted[1])
        np.testing.assert_array_equal(curve.predicted[0], curves[0].predicted[2])
    # Not one draw for all images.
    assert len(np.unique(curves[0].confidence[0])) > NUM_IMAGES // 2


@pytest.mark.slow
@pytest.mark.parametrize("implementation", ["rbg", "unsafe_rbg"])
def test_keys_of_other_implementations_do_not_bring_the_batch_back(
    classifier, dataset, implementation
):
    key = jax.random.key(0, impl=implementation)
    whole, blocks = (
        evaluate(classifier, dataset, [0.1], key=key, batch_size=batch_size)
        for batch_size in (NUM_IMAGES, 7)
    )
    np.testing.assert_allclose(blocks.confidence, whole.confidence, atol=1e-4)


def test_old_style_keys_are_keys(classifier, dataset):
    old, new = (
        evaluate(classifier, dataset, [0.1], key=key)
        for key in (jax.random.PRNGKey(7), jax.random.key(7))
    )
    np.testing.assert_array_equal(old.confidence, new.confidence)


@pytest.mark.slow
def test_stochastic_classifier_and_several_levels_a_step_take_old_keys(dataset):
    def apply(variables, images, keys):
        return jax.vmap(lambda key: jax.random.normal(key, (10,)))(keys)

    classifier = jaxrob.Classifier(apply, None, stochastic=True)
    old = jax.random.PRNGKey(7)
    curve = evaluate(classifier, dataset[:3], np.linspace(0, 1, 9), SAME, old)
    assert (curve.predicted == curve.predicted[0]).all()


@pytest.mark.slow
def test_noise_and_a_stochastic_classifier_draw_independently(dataset):
    shape = (28, 28, 1)

    def apply(variables, images, keys):
        # The correlation of the image's noise with the classifier's own draws.
        draws = jax.vmap(lambda key: jax.random.normal(key, shape))(keys)
        score = (images * draws).mean(axis=(1, 2, 3))
        return jnp.stack([score, -score], axis=1)

    classifier = jaxrob.Classifier(apply, None, stochastic=True)
    data = jaxrob.Dataset(np.zeros((40, *shape), np.uint8), np.zeros(40, int))
    noise = alterations.gaussian_noise(0.0, 1.0, clip=False)
    for alteration in (
        noise,
        alterations.compose([noise, noise]),
        alterations.compose([alterations.zoom(), noise]),
    ):
        curve = evaluate(classifier, data, [1.0], alteration)
        # Equal draws would score 1 for every image: a confidence of 0.88.
        assert curve.confidence.max() < 0.65


def test_a_mesh_around_the_call_changes_nothing(classifier, dataset):
    reference = evaluate(classifier, dataset, [0.1])
    # Not make_mesh, whose default kind of axes has changed with versions of JAX.
    with jax.set_mesh(jax.sharding.Mesh(jax.devices()[:1], ("x",))):
        curve = evaluate(classifier, dataset, [0.1])
    np.testing.assert_array_equal(curve.confidence, reference.confidence)


@pytest.mark.slow
def test_bfloat16_images_and_softmaxes():
    images = np.linspace(0, 1, 40).reshape(40, 1, 1, 1)
    logits = 3 * images.reshape(40, 1) * np.arange(5.0)
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)

    def apply(variables, images):
        pixels = images.reshape(-1, 1) * 3 * jnp.arange(5.0)
        return jax.nn.softmax(pixels.astype(jnp.bfloat16))

    classifier = jaxrob.Classifier(apply, None, "probabilities")
    data = jaxrob.Dataset(jnp.asarray(images, jnp.bfloat16), np.zeros(40, int))
    curve = jaxrob.evaluate(classifier, data, alterations.zoom(), [1.0])
    np.testing.assert_allclose(curve.confidence[0], expected.max(1), atol=0.02)


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
    """A classifier with one value for all images and classes."""

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
            ({"levels": [0, 0.6]}, r"levels must lie in \[-0.5, 0.5\]"),
            ({"levels": [np.nan]}, "levels must be finite; got nan"),
            ({"levels": []}, r"levels must have the shape \[L\]"),
            ({"alteration": NOISE}, "stochastic and needs a key"),
            (
                {"alteration": NOISE, "key": jax.random.split(KEY)},
                r"single random key; got .*\(2,\)",
            ),
            ({"batch_size": 0}, "batch_size must be at least 1"),
            ({"batch_size": -1}, "batch_size must be at least 1"),
            (
                {"dataset": jaxrob.Dataset(IMAGES, np.arange(NUM_IMAGES) % 11)},
                r"classes, 10 \(they count from 0\); got 10",
            ),
            ({"dataset": NAMED}, "10 classes, but dataset has 2"),
            ({"dataset": OF_THREE}, r"failed on images of the shape \[B, 28"),
            (
                {"dataset": WITHOUT_CHANNELS, "alteration": BLUR},
                "gaussian_blur: image must have the sh",
            ),
            ({"dataset": OF_TWO, "alteration": JPEG}, "image"),
            ({"alteration": CROP}, "crop must return an array of the image"),
            (
                {"alteration": GAMMA, "levels": [1.0]},
                "gamma must return the image unchanged",
            ),
            (
                {"classifier": returns(0.2, "probabilities")},
                "no probabilities with a sum of 1",
            ),
            (
                {"classifier": returns(1.5, "sigmoid")},
                r"activations outside \[0, 1\]",
            ),
        ],
    )
    def test_bad_values(self, classifier, dataset, given, message):
        usual = {"classifier": classifier, "dataset": dataset}
        with pytest.raises(ValueError, match=message):
            self.evaluate(**(usual | given))

    @pytest.mark.parametrize(
        "given, message",
        [
            ({"key": 0}, "key must be a random key"),
            ({"key": "key"}, "key must be a random key"),
            ({"key": np.zeros(2)}, "key must be a random key"),
            ({"classifier": lambda x: x}, "classifier must be a jaxrob.Classifier"),
            ({"dataset": (IMAGES, LABELS)}, "dataset must be a jaxrob.Dataset"),
            ({"alteration": lambda x, y: x}, "alteration must be a jaxrob.Alteration"),
        ],
    )
    def test_things_of_a_wrong_type(self, classifier, dataset, given, message):
        usual = {"classifier": classifier, "dataset": dataset, "alteration": NOISE}
        with pytest.raises(TypeError, match=message):
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

    def test_nan_in_a_memory_map(self, classifier, tmp_path):
        images = np.zeros((9, 28, 28, 1), np.float32)
        images[5, 3, 3] = np.nan
        np.save(tmp_path / "nan.npy", images)
        mapped = np.load(tmp_path / "nan.npy", mmap_mode="r")
        with pytest.raises(ValueError, match="NaN"):
            evaluate(classifier, jaxrob.Dataset(mapped, np.zeros(9, int)), [0.1])


def test_progress_bar_counts_every_image_and_can_be_turned_off(
    classifier, dataset, capsys
):
    evaluate(classifier, dataset, [0, 0.1], progress=True)
    assert f"{2 * NUM_IMAGES}/{2 * NUM_IMAGES}" in capsys.readouterr().err
    evaluate(classifier, dataset, [0, 0.1])
    assert capsys.readouterr().err == ""


def test_mlp_takes_the_same_road(dataset):
    classifier = make_classifier(0, MLP())
    curve = evaluate(classifier, dataset, [0.0])
    logits = classifier.apply_fn(
        classifier.variables, jnp.float32(dataset.images) / 255
    )
    np.testing.assert_array_equal(curve.predicted[0], np.argmax(logits, axis=1))
