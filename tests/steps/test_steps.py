"""Steps that are looked at are those that run, and cost what is known by hand."""

import dataclasses
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
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


MODULE = Dense()
VARIABLES = MODULE.init(jax.random.key(0), jnp.zeros((1, *SHAPE)))


def classifier(variables=VARIABLES):
    return jaxrob.Classifier.from_linen(MODULE, variables)


def without_values():
    """A classifier of shapes."""
    return classifier(jax.eval_shape(lambda: VARIABLES))


def dataset(dtype=np.uint8):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (NUMBER, *SHAPE), np.uint8)
    if dtype != np.uint8:
        images = (images / 255).astype(dtype)
    labels = np.asarray(
        jaxrob.evaluate(
            classifier(),
            jaxrob.Dataset(images, np.zeros(NUMBER, int)),
            BRIGHTNESS,
            [0.0],
        ).predicted[0]
    )
    return jaxrob.Dataset(images, labels)


@pytest.fixture
def programs(monkeypatch):
    """The texts of the programs that the library runs while it is looked at."""
    found = []
    run = Call.run

    def looked_at(call):
        found.append(call.function.lower(*call.args, **call.static).as_text())
        return run(call)

    monkeypatch.setattr(Call, "run", looked_at)
    return found


def text(step):
    return step.lower().as_text()


@pytest.mark.parametrize("alteration", [BRIGHTNESS, NOISE], ids=lambda a: a.name)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_evaluation_is_what_evaluate_runs(programs, alteration, dtype):
    data = dataset(dtype)
    programs.clear()
    levels = np.linspace(alteration.lower, alteration.upper, 20)
    key = jax.random.key(1)
    jaxrob.evaluate(classifier(), data, alteration, levels, key=key)
    found = steps.evaluation(
        without_values(), SHAPE, alteration, num_images=NUMBER, dtype=dtype
    )
    assert text(found.preparation) == programs[0]
    assert text(found.step) == programs[1]


@pytest.mark.parametrize("estimator", ["roma", "count", "logit"])
def test_plain_draws_are_those_of_an_assessment(programs, estimator):
    data = dataset()
    programs.clear()
    jaxrob.roma.assess(
        classifier(),
        data.images,
        num_samples=64,
        estimator=estimator,
        key=jax.random.key(1),
    )
    found = steps.roma(
        without_values(),
        SHAPE,
        estimator=estimator,
        num_inputs=NUMBER,
        num_samples=64,
    )
    assert text(found) == programs[-1]
    assert found.passes == NUMBER * 64


@pytest.mark.parametrize("estimator", ["importance", "splitting"])
def test_rare_draws_are_those_of_an_assessment(programs, estimator):
    images = dataset().images[:1]
    programs.clear()
    jaxrob.roma.assess(
        classifier(),
        images,
        epsilon=0.3,
        estimator=estimator,
        key=jax.random.key(1),
    )
    found = steps.roma(without_values(), SHAPE, estimator=estimator, num_inputs=1)
    assert text(found) in programs


@pytest.mark.parametrize(
    ("num_images", "batch_size", "rows"), [(16, None, 16), (40, None, 14), (40, 25, 20)]
)
def test_an_attack_is_what_lbfgs_runs(programs, num_images, batch_size, rows):
    """40 images are three blocks of 14, or two of 20, rather than full ones."""
    mesh = Mesh(np.array(jax.devices()[:1]), ("images",))
    data = dataset()[np.arange(num_images) % NUMBER]
    programs.clear()
    given = {"batch_size": batch_size, "mesh": mesh}
    jaxrob.adversarial.lbfgs(classifier(), data, **given)
    found = steps.attack(without_values(), SHAPE, num_images=num_images, **given)
    assert text(found) in programs
    assert found.passes == found.rows == rows


@pytest.mark.parametrize("altered", [(), (NOISE, BRIGHTNESS)], ids=["plain", "DA"])
@pytest.mark.parametrize("number", [NUMBER, 75])
def test_training_is_what_a_fit_runs(programs, altered, number):
    data = dataset()[np.arange(number) % NUMBER]
    programs.clear()
    given = {"key": jax.random.key(0), "batch_size": 4}
    if altered:
        jaxrob.retraining.data_augmentation(MODULE, data, altered, **given)
    else:
        jaxrob.training.fit(MODULE, data, **given)
    found = steps.training(
        MODULE, SHAPE, alterations=altered, num_images=number, batch_size=4
    )
    assert without_constants(text(found)) == without_constants(programs[0])


@pytest.mark.parametrize("altered", [(), (NOISE, BRIGHTNESS)], ids=["plain", "DA"])
def test_a_training_set_of_any_size_is_looked_at(altered):
    """Its images would fill 128 GB."""
    most = 2**31 - 1
    found = steps.training(MODULE, SHAPE, alterations=altered, num_images=most)
    _, images, *_ = found.args
    assert len(images.shape) == 4 and 128 <= len(images) <= 128 + 2 * len(altered) + 2


@pytest.mark.parametrize("batch_size", [1, 2, 7, 12])
def test_few_images_stand_in_for_many(batch_size):
    """A step reads as many of each part."""

    def read(number, copies):
        parts = originals((number, *SHAPE))
        parts += [Subset(NOISE, np.arange(number // 2), some) for some in copies]
        epoch = sum(part.size for part in parts)
        return _layout(parts, epoch // batch_size, batch_size).num_read.tolist()

    for number in range(batch_size, 40 * batch_size, 3):
        fewer = _fewer(number, batch_size)
        for copies in [(2,), (4,), (2, 4), (4, 4, 2)]:
            assert read(fewer, copies) == read(number, copies)
    assert _fewer(2**31 - 1, batch_size) < 16 * batch_size


def without_constants(program):
    """A program's text without its random keys, which a training's key makes."""
    return [line for line in program.splitlines() if "dense<[" not in line]


def flops(step):
    """What XLA counts, of which a network alone is known by hand."""
    return step.lower().compile().cost_analysis()["flops"]


def identity(image, level):
    return image


def test_a_dense_networks_operations_are_counted():
    """Two for each weight, and one to scale the pixel: nothing else grows."""

    def step(width, num_images):
        shape = (1, width, 1)
        variables = jax.eval_shape(
            MODULE.init, jax.random.key(0), jnp.zeros((1, *shape))
        )
        unaltered = jaxrob.Alteration("none", identity, 0.0, 1.0)
        return steps.evaluation(
            classifier(variables), shape, unaltered, num_images=num_images, num_levels=1
        ).step

    found = [[flops(step(width, n)) for width in (100, 300, 500)] for n in (10, 20)]
    for number, (one, two, three) in zip((10, 20), found):
        assert two - one == three - two == 200 * number * (2 * CLASSES + 1)


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
def test_steps_of_two_devices_are_those_that_run(programs):
    mesh = Mesh(np.array(jax.devices()[:2]), ("images",))
    data = dataset()
    programs.clear()
    jaxrob.evaluate(classifier(), data, BRIGHTNESS, np.linspace(-0.5, 0.5), mesh=mesh)
    given = {"num_images": NUMBER, "mesh": mesh}
    found = steps.evaluation(without_values(), SHAPE, BRIGHTNESS, **given)
    assert [text(found.preparation), text(found.step)] == programs[:2]
    programs.clear()
    jaxrob.training.fit(MODULE, data, key=jax.random.key(0), batch_size=5, mesh=mesh)
    found = steps.training(MODULE, SHAPE, batch_size=5, **given)
    assert without_constants(text(found)) == without_constants(programs[0])


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


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"classifier": 3}, "classifier must be a jaxrob.Classifier; got 3"),
        ({"alteration": None}, "alteration must be a jaxrob.Alteration"),
        ({"image_shape": 8}, "image_shape must be a sequence of integers"),
        ({"image_shape": (8, 0, 1)}, "image_shape must be at least 1; got 0"),
        ({"num_images": 0}, "num_images must be at least 1; got 0"),
        ({"num_levels": 1.5}, "num_levels must be an integer"),
        ({"dtype": "int32"}, "dtype must be one of"),
        ({"dtype": np.float64}, "dtype must be one of"),
        ({"mesh": "cpu"}, "mesh must be a jax.sharding.Mesh"),
        ({"image_shape": (9, 8, 1)}, "the classifier failed on images of"),
        (
            {
                "classifier": jaxrob.Classifier.from_host(
                    lambda images: images[:, 0, :2, 0], 2, name="n", version="1"
                )
            },
            "classifier must run on the devices",
        ),
    ],
)
def test_evaluation_refuses(wrong, message):
    given = {
        "classifier": without_values(),
        "image_shape": SHAPE,
        "alteration": BRIGHTNESS,
    }
    with pytest.raises((TypeError, ValueError), match=message):
        steps.evaluation(**given | wrong)


def test_the_others_refuse():
    one = without_values()
    with pytest.raises(ValueError, match="estimator must be one of"):
        steps.roma(one, SHAPE, estimator="auto")
    with pytest.raises(ValueError, match="num_samples must be at least 8; got 7"):
        steps.roma(one, SHAPE, num_samples=7)
    with pytest.raises(TypeError, match="perturbation must be a jaxrob.roma.Pert"):
        steps.roma(one, SHAPE, perturbation=BRIGHTNESS)
    drawn = jaxrob.roma.from_sampler(lambda key, image: image)
    with pytest.raises(ValueError, match='estimator="splitting" needs a pert'):
        steps.roma(one, SHAPE, estimator="splitting", perturbation=drawn)
    with pytest.raises(ValueError, match='outputs are "scores"'):
        steps.roma(jaxrob.Classifier(one.apply_fn, one.variables, "scores"), SHAPE)
    with pytest.raises(ValueError, match="num_images must be at least 1; got 0"):
        steps.attack(one, SHAPE, num_images=0)
    with pytest.raises(ValueError, match="batch_size must lie in .1, 4.; got 5"):
        steps.training(MODULE, SHAPE, num_images=4, batch_size=5)
    with pytest.raises(TypeError, match="alterations must be a sequence"):
        steps.training(MODULE, SHAPE, alterations=BRIGHTNESS)
    with pytest.raises(ValueError, match="the module failed on images"):
        steps.training(Deep(), SHAPE)


class Deep(nn.Module):
    """A network that takes no images of this size."""

    @nn.compact
    def __call__(self, x, train=False):
        return nn.Dense(CLASSES)(x.reshape(len(x), 100))
