"""Steps that are looked at are those that run, and cost what is known by hand."""

import dataclasses
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
from jaxrob._devices.blocks import Call

SHAPE, CLASSES, NUMBER = (8, 8, 1), 3, 16
BRIGHTNESS = alterations.brightness()
NOISE = alterations.gaussian_noise()


class Dense(nn.Module):
    """A dense layer, whose operations are known."""

    @nn.compact
    def __call__(self, x, train=False):
        return nn.Dense(CLASSES)(x.reshape(len(x), -1))


MODULE = Dense()
RANDOM = np.random.default_rng(0)
KERNEL = RANDOM.normal(size=(64, CLASSES)).astype(np.float32)
VARIABLES = {"params": {"Dense_0": {"kernel": KERNEL, "bias": np.zeros(CLASSES, "f")}}}
IMAGES = RANDOM.integers(0, 256, (NUMBER, *SHAPE), np.uint8)
LABELS = (IMAGES.reshape(NUMBER, 64) / 255 @ KERNEL).argmax(1)


def classifier(variables=VARIABLES):
    return jaxrob.Classifier.from_linen(MODULE, variables)


def without_values():
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, "f"), VARIABLES)
    return classifier(shapes)


def dataset(number=NUMBER):
    rows = np.arange(number) % NUMBER
    return jaxrob.Dataset(IMAGES[rows], LABELS[rows])


class Found(Exception):
    """The program that was looked for is about to be compiled."""


def program(call):
    return call.function.lower(*call.args, **call.static).as_text()


@pytest.fixture
def assert_runs(monkeypatch):
    """Checks that a call of the library comes to a step; it goes no further."""
    run = Call.run
    # So few answers would be of two programs on a CPU.
    monkeypatch.setattr("jaxrob._engine.step._FEW_ANSWERS", 0)

    def check(step, ask):
        wanted = program(step._call)

        def looked_at(call):
            if program(call) == wanted:
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
        assert_runs(step, lambda: evaluate(data, alteration))


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


def test_no_constant_is_shared_with_a_networks_max_pooling():
    # XLA merges equal constants, and a minus infinity of ours slows pooling on a CPU.
    members = [VARIABLES, jax.tree.map(np.negative, VARIABLES)]
    ensemble = jaxrob.bayes.ensemble(MODULE, members)
    for network in (classifier(), ensemble):
        step = steps.evaluation(network, SHAPE, NOISE, num_images=NUMBER).step
        program = step.lower().as_text()
        assert "stablehlo.reduce" in program and "0xFF800000" not in program


def test_nor_are_those_of_draws_and_attacks(tmp_path):
    def network(weights, images):  # Compiled nowhere else.
        return images.reshape(len(images), -1) @ weights

    one = jaxrob.Classifier(network, KERNEL)
    images = np.float32(IMAGES) / 255
    given = {"epsilon": 0.01, "num_samples": 100, "key": jax.random.key(0)}
    jax.config.update("jax_dump_ir_to", str(tmp_path))
    try:
        jaxrob.roma.assess(one, images, LABELS, estimator="count", **given)
        jaxrob.adversarial.fgsm(one, images, LABELS, epsilon=0.01)
    finally:
        jax.config.update("jax_dump_ir_to", "")
    programs = [path.read_text() for path in tmp_path.rglob("*.mlir")]
    shared = ["0xFF800000" in one for one in programs if "dot_general" in one]
    assert len(shared) > 3 and not any(shared)


def test_sizes_are_by_default_those_that_the_library_takes():
    mesh = Mesh(np.array(jax.devices()[:1]), ("images",))
    found = steps.evaluation(without_values(), SHAPE, BRIGHTNESS, mesh=mesh).step
    assert found.passes == 1024 * 16
    np.testing.assert_array_equal(found.args[5], np.linspace(-0.5, 0.5, 16, dtype="f"))


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
        assert_runs(step, lambda: evaluate(dataset(), mesh=mesh))


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


@pytest.mark.parametrize(
    ("wrong", "error", "name"),
    [
        ({"classifier": 3}, TypeError, "classifier"),
        ({"alteration": None}, TypeError, "alteration"),
        ({"image_shape": 8}, TypeError, "image_shape"),
        ({"image_shape": (8, 0, 1)}, ValueError, "image_shape"),
        ({"num_images": 0}, ValueError, "num_images"),
        ({"num_levels": 1.5}, TypeError, "num_levels"),
        ({"dtype": "int32"}, ValueError, "dtype"),
        ({"mesh": "cpu"}, TypeError, "mesh"),
        ({"image_shape": (9, 8, 1)}, ValueError, "images"),
        ({"classifier": ON_HOST}, ValueError, "classifier"),
    ],
)
def test_what_is_refused(wrong, error, name):
    given = {"image_shape": SHAPE, "classifier": without_values()}
    with pytest.raises(error, match=name):
        steps.evaluation(**given | {"alteration": BRIGHTNESS} | wrong)
