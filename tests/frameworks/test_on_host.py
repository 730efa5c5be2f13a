"""Networks that run on the host: what they are called with, and what they raise."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations
from jaxrob._devices.host_function import HostFunction, host_callback

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (50, 6, 5, 3), dtype=np.uint8)
LABELS = RANDOM.integers(0, 4, 50)
WEIGHTS = RANDOM.normal(size=(90, 4)).astype(np.float32)
DATA = jaxrob.Dataset(IMAGES, LABELS, name="random")
KEY = jax.random.key(0)
BRIGHTNESS = alterations.brightness()
FEW = {"num_samples": 128, "estimator": "count", "key": KEY}


def predict(images):
    return images.reshape(len(images), -1) @ WEIGHTS


def on_host(function=predict, **settings):
    return jaxrob.Classifier.from_host(function, 4, **settings)


def seeing(function=predict, **settings):
    return on_host(function, preprocessing=jaxrob.Preprocessing(**settings))


@pytest.fixture
def counted():
    """A network that keeps the sizes of its batches in `counted.seen`."""

    def function(images):
        function.seen.append(len(images))
        return predict(images)

    function.seen = []
    return function


@pytest.mark.slow
def test_host_calls_are_full_and_few(counted):
    classifier = on_host(counted, batch_size=16)
    levels = [-0.5, -0.25, 0.25, 0.5]
    # Looks for mistakes too.
    jaxrob.evaluate(classifier, DATA, BRIGHTNESS, levels, batch_size=25)
    counted.seen.clear()
    curve = jaxrob.evaluate(classifier, DATA, BRIGHTNESS, levels, batch_size=25)
    # Two blocks at four levels; of 25 images, two calls of 16 each.
    assert counted.seen == [16] * 16
    for row, level in enumerate(levels):
        truth = predict(np.clip(IMAGES / np.float32(255) * (1 + level), 0, 1))
        np.testing.assert_array_equal(curve.predicted[row], truth.argmax(1))


def test_classes_of_a_function_of_jax_are_found_while_a_program_is_traced():
    softmax = jax.jit(lambda images: jax.nn.softmax(predict(images)))
    call = jax.jit(functools.partial(host_callback, HostFunction(softmax, None)))
    images = np.float32(IMAGES[:5]) / 255
    np.testing.assert_allclose(call(images), softmax(images), rtol=1e-6)


@pytest.mark.slow
def test_roma_fills_the_batches(counted):
    found = jaxrob.roma.assess(on_host(counted, batch_size=64), IMAGES[:3], **FEW)
    assert set(counted.seen) == {64}
    assert (found.plr >= 0).all()


def test_images_and_answers_are_buffers_that_a_function_may_fill_again():
    images, buffer = np.zeros((12, 4, 4, 1), np.float32), np.empty((4, 2), np.float32)
    images[:6] = 1

    def outputs(some):
        buffer[:, 0], buffer[:, 1], some[:] = 0, 20 * some.mean((1, 2, 3)) - 10, 0
        return buffer

    classifier = jaxrob.Classifier.from_host(outputs, 2, batch_size=4)
    dataset = jaxrob.Dataset(images, [1] * 6 + [0] * 6)
    curve = jaxrob.evaluate(classifier, dataset, alterations.brightness(), [0.0, 0.1])
    np.testing.assert_array_equal(curve.accuracy, 1)


class Unlucky(Exception):
    """An error of a runtime that nobody else knows."""


def test_errors_from_within_a_compiled_program_come_out_too(counted):
    def fail_later(images):
        if len(counted.seen) == 3:
            raise Unlucky("no licence")
        return counted(images)

    with pytest.raises(Unlucky) as caught:
        jaxrob.roma.assess(on_host(fail_later, batch_size=64), IMAGES[:3], **FEW)
    assert "batch of the shape" in caught.value.__notes__[0]


def few_bits(images):
    """Whole numbers that types of eight bits hold as they are."""
    return np.clip(np.round(predict(images)), -15, 15)


@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fn", "int8"])
def test_outputs_of_few_bits_are_the_float32_numbers_that_they_are(dtype):
    def run(function):
        return jaxrob.evaluate(on_host(function), DATA, BRIGHTNESS, [-0.5, 0.2])

    found = run(lambda images: few_bits(images).astype(jnp.dtype(dtype)))
    truth = run(few_bits)
    np.testing.assert_array_equal(found.predicted, truth.predicted)
    np.testing.assert_array_equal(found.confidence, truth.confidence)


@pytest.mark.parametrize(
    "returned, message",
    [
        (np.zeros((50, 5)), r"must return the shape \(\d+, 4\); got \(50, 5\)"),
        (np.zeros(50), r"must return the shape \(\d+, 4\); got \(50,\)"),
        (np.full((50, 4), "a"), "must return numbers"),
        (np.zeros((50, 1)), "num_classes=1"),
    ],
)
def test_outputs_that_are_none(returned, message):
    with pytest.raises((ValueError, TypeError), match=message):
        jaxrob.evaluate(on_host(lambda images: returned), DATA, BRIGHTNESS, [0.2])


def test_preprocessing_comes_in_the_order_said():
    seen = []

    def keep(images):
        seen.append(images)
        return predict(images)

    mean, std = (10.0, 20.0, 30.0), (2.0, 4.0, 8.0)
    classifier = seeing(
        keep, scale=255, mean=mean, std=std, channels_first=True, size=(6, 5)
    )
    jaxrob.evaluate(classifier, DATA, BRIGHTNESS, [0.0])
    truth = np.moveaxis((IMAGES - np.array(mean)) / np.array(std), -1, 1)
    np.testing.assert_allclose(seen[0], truth, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"size": 224}, r"takes images of size=\(224, 224\); got 6x5"),
        ({"mean": (0.1, 0.2)}, "mean has 2 numbers"),
    ],
)
def test_images_that_do_not_fit_the_preprocessing(settings, message):
    with pytest.raises(ValueError, match=message):
        jaxrob.evaluate(seeing(**settings), DATA, BRIGHTNESS, [0.0])


@pytest.mark.parametrize(
    "make, settings, error, message",
    [
        (seeing, {"scale": 0}, ValueError, "scale must not be 0"),
        (seeing, {"mean": 1e300}, ValueError, "mean must be numbers that float32"),
        (seeing, {"mean": (1, 2), "std": (1, 2, 3)}, ValueError, "mean"),
        (seeing, {"mean": np.zeros((3, 1))}, ValueError, "mean must be a number, or"),
        (seeing, {"std": (1.0, 0.0, 1.0)}, ValueError, "std must be positive"),
        (seeing, {"size": np.array(7.5)}, TypeError, "size must be an integer"),
        (seeing, {"channels_first": 1}, TypeError, "channels_first must"),
        (on_host, {"batch_size": 0}, ValueError, "batch_size must"),
        (on_host, {"batch_size": 2**20 + 1}, ValueError, "batch_size must"),
        (on_host, {"class_names": ["a", "b"]}, ValueError, "class_names must be 4"),
        (on_host, {"name": 1}, TypeError, "name must"),
        (on_host, {"preprocessing": {"scale": 255}}, TypeError, "preprocessing must"),
    ],
)
def test_settings_that_cannot_be(make, settings, error, message):
    with pytest.raises(error, match=message):
        make(**settings)


def test_class_names_are_held_against_those_of_the_data():
    names = ("ant", "bee", "cat", "dog")
    data = jaxrob.Dataset(IMAGES, LABELS, class_names=names, name="zoo")
    swapped = on_host(class_names=("bee", "ant", "cat", "dog"))
    with pytest.raises(ValueError, match="class 0 is 'bee' and 'ant'"):
        jaxrob.evaluate(swapped, data, BRIGHTNESS, [0.0])
    jaxrob.evaluate(on_host(class_names=names), data, BRIGHTNESS, [0.0])


def test_names_stand_in_the_provenance_and_the_journal(tmp_path):
    description = {"name": "net", "version": "1", "class_names": ("a", "b", "c", "d")}
    source = jaxrob.provenance(on_host(**description), DATA)
    assert source["network"] == {
        "name": "net",
        "class_names": ["a", "b", "c", "d"],
        "version": "1",
    }
    journal = tmp_path / "journal"
    jaxrob.evaluate(on_host(**description), DATA, BRIGHTNESS, [0.1], journal=journal)
    for changed in ({"version": "2"}, {"class_names": ("a", "b", "c", "e")}):
        with pytest.raises(ValueError, match="is the journal of another run.*network"):
            other = on_host(**description | changed)
            jaxrob.evaluate(other, DATA, BRIGHTNESS, [0.1], journal=journal)


@pytest.mark.slow
def test_new_names_compile_nothing():
    def apply(variables, images):
        return images.reshape(len(images), -1) @ variables

    def run(name):
        one = jaxrob.Classifier(apply, WEIGHTS, name=name)
        return jaxrob.evaluate(one, DATA, BRIGHTNESS, [0.1])

    from jaxrob._engine import step

    run("first")
    before = step.answer_at_levels._cache_size()
    run("second")
    assert step.answer_at_levels._cache_size() == before


@pytest.mark.parametrize(
    "build, extra",
    [
        (lambda: jaxrob.Classifier.from_torch(print), "torch"),
        (lambda: jaxrob.Classifier.from_onnx("x.onnx"), "onnx"),
        (lambda: jaxrob.Classifier.from_keras("x.keras"), "keras"),
    ],
)
def test_a_missing_extra_says_which_pip_line(build, extra, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, extra, None)
    with pytest.raises(ImportError, match=rf'pip install -e "\.\[{extra}\]"'):
        build()


def test_files_of_torch_are_refused():
    with pytest.raises(TypeError, match="Files of torch are pickles"):
        jaxrob.Classifier.from_torch("weights.pt")


def detect(images):
    return [np.zeros((index % 3, 4)) for index in range(len(images))]


@pytest.mark.parametrize("function", [detect, lambda images: images])
def test_networks_without_classes_are_told_how(function):
    hint = 'needs outputs="any"'
    with pytest.raises(TypeError, match=f"num_classes must be an integer.*{hint}"):
        jaxrob.Classifier.from_host(function)
    with pytest.raises(ValueError, match=f"host function must return.*{hint}"):
        jaxrob.evaluate(on_host(function), DATA, BRIGHTNESS, [0.0])
