"""Steps that are looked at are those that run, and cost what is known by hand."""

import dataclasses
import functools
import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from flax import linen as nn
from jax.sharding import Mesh

import jaxrob
from jaxrob import alterations, steps
from jaxrob._devices.call import Call
from jaxrob.retraining._mixture import _layout
from jaxrob.retraining._parts import Subset, originals
from jaxrob.steps._training import _fewer

SHAPE, CLASSES, NUMBER = (8, 8, 1), 3, 16
BRIGHTNESS = alterations.brightness()
NOISE = alterations.gaussian_noise()


class Dense(nn.Module):
    """A dense layer, whose operations are known."""

    @nn.compact
    def __call__(self, x, train=False):
        return nn.Dense(CLASSES)(x.reshape(len(x), -1))


class Deep(nn.Module):
    """A network that takes no images of this size."""

    @nn.compact
    def __call__(self, x, train=False):
        return nn.Dense(CLASSES)(x.reshape(len(x), 100))


MODULE = Dense()
RANDOM = np.random.default_rng(0)
KERNEL = RANDOM.normal(size=(64, CLASSES)).astype(np.float32)
VARIABLES = {"params": {"Dense_0": {"kernel": KERNEL, "bias": np.zeros(CLASSES, "f")}}}
IMAGES = RANDOM.integers(0, 256, (NUMBER, *SHAPE), np.uint8)
LABELS = (IMAGES.reshape(NUMBER, 64) / 255 @ KERNEL).argmax(1)


def classifier(variables=VARIABLES):
    return jaxrob.Classifier.from_linen(MODULE, variables)


def without_values():
    """A classifier of shapes."""
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, "f"), VARIABLES)
    return classifier(shapes)


def dataset(number=NUMBER):
    rows = np.arange(number) % NUMBER
    return jaxrob.Dataset(IMAGES[rows], LABELS[rows])


class Found(Exception):
    """The program that was looked for is about to be compiled."""


def signature(call):
    """What decides which compiled program runs, on one device."""
    args, structure = jax.tree.flatten(call.args)
    kinds = [(leaf.shape, leaf.dtype) for leaf in args]
    return call.function, call.static, structure, kinds


def along_images(leaf):
    """Whether each device has the rows of some images of an array, or of its shape."""
    spec = getattr(getattr(leaf, "sharding", None), "spec", ())
    return len(spec) > 0 and spec[0] is not None


def program(call):
    return call.function.lower(*call.args, **call.static).as_text()


def without_constants(call):
    """A program's text without its random keys, which a training's key makes."""
    return [line for line in program(call).splitlines() if "dense<[" not in line]


@pytest.fixture
def assert_runs(monkeypatch):
    """Checks that a call of the library comes to a step; it goes no further."""
    run = Call.run

    def check(step, ask, of=signature):
        wanted = of(step._call)

        def looked_at(call):
            if of(call) == wanted:
                raise Found
            return run(call)

        monkeypatch.setattr(Call, "run", looked_at)
        with pytest.raises(Found):
            ask()

    return check


def evaluate(data, alteration=BRIGHTNESS, mesh=None):
    levels = np.linspace(alteration.lower, alteration.upper, 20)
    given = {"key": jax.random.key(1), "mesh": mesh}
    return jaxrob.evaluate(classifier(), data, alteration, levels, **given)


@pytest.mark.parametrize(
    "alteration, dtype", [(BRIGHTNESS, np.uint8), (NOISE, np.float32)]
)
def test_evaluation_is_what_evaluate_runs(assert_runs, alteration, dtype):
    data = dataset()
    if dtype == np.float32:
        data = jaxrob.Dataset(np.float32(data.images) / 255, data.labels)
    found = steps.evaluation(
        without_values(), SHAPE, alteration, num_images=NUMBER, dtype=dtype
    )
    for step in (found.preparation, found.step):
        assert_runs(step, lambda: evaluate(data, alteration), program)


@pytest.mark.parametrize("estimator", ["roma", "count", "logit"])
def test_plain_draws_are_those_of_an_assessment(assert_runs, estimator):
    how = {"num_samples": 64, "estimator": estimator}
    found = steps.roma(without_values(), SHAPE, num_inputs=NUMBER, **how)
    assert found.passes == NUMBER * 64
    how["key"] = jax.random.key(1)
    assert_runs(found, lambda: jaxrob.roma.assess(classifier(), IMAGES, **how))


def test_the_passes_of_rare_draws():
    given = {"num_inputs": 3, "mesh": Mesh(jax.devices()[:1], ("images",))}
    looked_at = functools.partial(steps.roma, without_values(), SHAPE, **given)
    tilted, level = (looked_at(estimator=one) for one in ("importance", "splitting"))
    assert (tilted.passes, tilted.rows) == (1024, 1024)
    # A thousand particles of one input, moved five times.
    assert (level.passes, level.rows) == (5000, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["importance", "splitting"])
def test_rare_draws_are_those_of_an_assessment(assert_runs, estimator):
    found = steps.roma(without_values(), SHAPE, estimator=estimator, num_inputs=1)
    how = {"epsilon": 0.3, "estimator": estimator, "key": jax.random.key(1)}
    assert_runs(found, lambda: jaxrob.roma.assess(classifier(), IMAGES[:1], **how))


@pytest.mark.parametrize(("batch_size", "rows"), [(None, 14), (25, 20)])
def test_an_attack_is_what_lbfgs_runs(assert_runs, batch_size, rows):
    """40 images are three blocks of 14, or two of 20, rather than full ones."""
    given = {"batch_size": batch_size, "mesh": Mesh(jax.devices()[:1], ("images",))}
    found = steps.attack(without_values(), SHAPE, num_images=40, **given)
    assert found.passes == found.rows == rows
    for leaf in jax.tree.leaves(found.args):
        assert along_images(leaf) == (np.shape(leaf)[:1] == (rows,))
    lbfgs = jaxrob.adversarial.lbfgs
    assert_runs(found, lambda: lbfgs(classifier(), dataset(40), **given))


@pytest.mark.parametrize(
    ("altered", "number"),
    [((), 75), pytest.param((NOISE, BRIGHTNESS), NUMBER, marks=pytest.mark.slow)],
)
def test_training_is_what_a_fit_runs(assert_runs, altered, number):
    found = steps.training(
        MODULE, SHAPE, alterations=altered, num_images=number, batch_size=4
    )
    fit = jaxrob.retraining.data_augmentation if altered else jaxrob.training.fit
    given = MODULE, dataset(number), *[altered] * bool(altered)
    how = {"key": jax.random.key(0), "batch_size": 4}
    assert_runs(found, lambda: fit(*given, **how), without_constants)


@pytest.mark.parametrize("altered", [(), (NOISE, BRIGHTNESS)], ids=["plain", "DA"])
def test_a_training_set_of_any_size_is_looked_at(altered):
    """Its images would fill 128 GB."""
    most = 2**31 - 1
    found = steps.training(MODULE, SHAPE, alterations=altered, num_images=most)
    _, images, *_ = found.args
    assert len(images.shape) == 4 and 128 <= len(images) <= 128 + 2 * len(altered) + 2


@pytest.mark.parametrize("batch_size", [1, 7])
def test_few_images_stand_in_for_many(batch_size):
    """A step reads as many of each part."""

    def read(number, copies):
        parts = originals((number, *SHAPE))
        parts += [Subset(NOISE, np.arange(number // 2), some) for some in copies]
        epoch = sum(part.size for part in parts)
        return _layout(parts, epoch // batch_size, batch_size).num_read.tolist()

    for number in range(batch_size, 40 * batch_size, 3):
        fewer = _fewer(number, batch_size)
        for copies in [(2,), (4, 4, 2)]:
            assert read(fewer, copies) == read(number, copies)
    assert _fewer(2**31 - 1, batch_size) < 16 * batch_size


def test_a_dense_networks_operations_are_counted():
    """Two for each weight, and one to scale the pixel: nothing else grows."""

    def flops(width):
        shapes = {"kernel": (width, CLASSES), "bias": (CLASSES,)}
        shapes = {name: jax.ShapeDtypeStruct(of, "f") for name, of in shapes.items()}
        one = classifier({"params": {"Dense_0": shapes}})
        unaltered = jaxrob.Alteration("none", lambda image, level: image, 0.0, 1.0)
        size = {"num_images": 10, "num_levels": 1}
        found = steps.evaluation(one, (1, width, 1), unaltered, **size).step
        return found.lower().compile().cost_analysis()["flops"]

    assert flops(300) - flops(100) == 200 * 10 * (2 * CLASSES + 1)


def test_an_ensembles_passes_count_its_members():
    many = jax.eval_shape(
        lambda members: jaxrob.bayes.ensemble(MODULE, members), [VARIABLES] * 5
    )
    found = steps.evaluation(many, SHAPE, BRIGHTNESS, num_images=10, num_levels=3)
    assert found.step.passes == 10 * 3 * 5
    assert found.step.rows == 10  # A CPU takes levels one after the other.
    assert found.preparation.passes == 0


def test_sizes_are_by_default_those_that_the_library_takes():
    mesh = Mesh(np.array(jax.devices()[:1]), ("images",))
    found = steps.evaluation(without_values(), SHAPE, BRIGHTNESS, mesh=mesh).step
    assert found.passes == 1024 * 16
    np.testing.assert_array_equal(found.args[5], np.linspace(-0.5, 0.5, 16, dtype="f"))
    assert steps.attack(without_values(), SHAPE, mesh=mesh).rows == 16
    assert steps.roma(without_values(), SHAPE, mesh=mesh).passes == 64 * 1000


@pytest.mark.slow
def test_steps_of_several_devices_are_those_that_run():
    """In another process, since this one may have one device."""
    chosen = f"{__file__}::test_steps_of_two_devices_are_those_that_run"
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", chosen]
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "2"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout


@pytest.mark.skipif(jax.local_device_count() < 2, reason="one device")
def test_steps_of_two_devices_are_those_that_run(assert_runs):
    mesh = Mesh(np.array(jax.devices()[:2]), ("images",))
    given = {"num_images": NUMBER, "mesh": mesh}
    found = steps.evaluation(without_values(), SHAPE, BRIGHTNESS, **given)
    for step in (found.preparation, found.step):
        assert_runs(step, lambda: evaluate(dataset(), mesh=mesh), program)
    found = steps.training(MODULE, SHAPE, batch_size=5, **given)
    how = {"key": jax.random.key(0), "batch_size": 5, "mesh": mesh}
    fit = jaxrob.training.fit
    assert_runs(found, lambda: fit(MODULE, dataset(), **how), without_constants)


def test_what_was_looked_at_runs():
    """On the devices that are there the compiled steps take the library's arrays."""
    found = steps.evaluation(
        classifier(), SHAPE, BRIGHTNESS, num_images=NUMBER, num_levels=2
    )

    def run(step, *values):
        shapes = step.args[: len(values)]
        args = jax.tree.map(
            lambda leaf, value: jax.device_put(value, leaf.sharding), shapes, values
        )
        return step.lower().compile()(*args, *step.args[len(values) :])

    data, index = dataset(), np.arange(NUMBER, dtype=np.uint32)
    prepared = run(found.preparation, data.images, index, jax.random.key(0))
    here = dataclasses.replace(found.step.args[0], variables=VARIABLES)
    labels = np.asarray(data.labels, np.int32)
    answers = run(found.step, here, prepared, index, labels, jax.random.key(0))
    curve = jaxrob.evaluate(classifier(), data, BRIGHTNESS, [-0.5, 0.5])
    np.testing.assert_array_equal(answers.predicted, curve.predicted)


ON_HOST = jaxrob.Classifier.from_host(len, 2, name="n", version="1")
DRAWN = jaxrob.roma.from_sampler(lambda key, image: image)
SCORES = jaxrob.Classifier(lambda variables, x: x[:, 0, :3, 0], None, "scores")


@pytest.mark.parametrize(
    ("look", "wrong", "error", "name"),
    [
        ("evaluation", {"classifier": 3}, TypeError, "classifier"),
        ("evaluation", {"alteration": None}, TypeError, "alteration"),
        ("evaluation", {"image_shape": 8}, TypeError, "image_shape"),
        ("evaluation", {"image_shape": (8, 0, 1)}, ValueError, "image_shape.*got 0"),
        ("evaluation", {"num_images": 0}, ValueError, "num_images.*got 0"),
        ("evaluation", {"num_levels": 1.5}, TypeError, "num_levels"),
        ("evaluation", {"dtype": "int32"}, ValueError, "dtype"),
        ("evaluation", {"mesh": "cpu"}, TypeError, "mesh"),
        ("evaluation", {"image_shape": (9, 8, 1)}, ValueError, "failed on images"),
        ("evaluation", {"classifier": ON_HOST}, ValueError, "classifier.*the devices"),
        ("roma", {"estimator": "auto"}, ValueError, "estimator"),
        ("roma", {"num_samples": 7}, ValueError, "num_samples.*got 7"),
        ("roma", {"perturbation": BRIGHTNESS}, TypeError, "perturbation"),
        (
            *("roma", {"estimator": "splitting", "perturbation": DRAWN}),
            *(ValueError, 'estimator="splitting"'),
        ),
        ("roma", {"classifier": SCORES}, ValueError, 'outputs.*"scores"'),
        ("attack", {"num_images": 0}, ValueError, "num_images.*got 0"),
        ("training", {"batch_size": 5, "num_images": 4}, ValueError, "batch_size"),
        ("training", {"alterations": BRIGHTNESS}, TypeError, "alterations"),
        ("training", {"module": Deep()}, ValueError, "module failed on images"),
    ],
)
def test_what_is_refused(look, wrong, error, name):
    given = {"image_shape": SHAPE, "classifier": without_values()}
    if look == "training":
        given = {"image_shape": SHAPE, "module": MODULE}
    if look == "evaluation":
        given["alteration"] = BRIGHTNESS
    with pytest.raises(error, match=name):
        getattr(steps, look)(**given | wrong)
