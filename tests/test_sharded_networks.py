"""Networks whose variables are sharded, on eight devices and on one.

    python tests/test_sharded_networks.py FOLDER

runs what needs eight, and raises an AssertionError if a check fails.
"""

import collections
import functools
import math
import os
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common.timing import compilations
from flax import linen as nn
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxrob
from jaxrob import adversarial, alterations, roma, steps
from jaxrob._devices.blocks import _slices
from jaxrob._devices.mesh import checked_mesh

SHAPE = (8, 8, 1)
WIDTH = 32
NOISE = alterations.gaussian_noise(0.0, 0.2)
LEVELS = np.linspace(0, 0.2, 5)
KEY = jax.random.key(7)
COLLECTIVES = re.compile(
    r" (all-reduce|all-gather|all-to-all|collective-broadcast|collective-permute|"
    r"reduce-scatter)(?:-start)?\("
)


class Transformer(nn.Module):
    """One block of attention over rows of pixels, and a perceptron."""

    @nn.compact
    def __call__(self, images):
        x = nn.Dense(WIDTH, name="rows")(images.reshape(len(images), 8, 8))
        shape = len(x), 8, 8, WIDTH // 8
        q, k, v = (
            nn.Dense(WIDTH, name=name)(x).reshape(shape) for name in ("q", "k", "v")
        )
        weights = nn.softmax(jnp.einsum("bihd,bjhd->bhij", q, k))
        attended = jnp.einsum("bhij,bjhd->bihd", weights, v).reshape(x.shape)
        x = x + nn.Dense(WIDTH, name="joined")(attended)
        x = x + nn.Dense(WIDTH, name="down")(nn.relu(nn.Dense(64, name="up")(x)))
        return nn.Dense(4, name="classes")(nn.LayerNorm()(x.mean(axis=1)))


MODULE = Transformer()
# Of Megatron: columns, then rows. The others are replicated.
TENSOR_PARALLEL = {
    **dict.fromkeys(("q", "k", "v", "up"), (P(None, "model"), P("model"))),
    **dict.fromkeys(("joined", "down"), (P("model", None), P())),
}
# Every weight along its first axis.
FULLY_SHARDED = dict.fromkeys(
    ("rows", "q", "k", "v", "joined", "up", "down", "classes"), (P("model"), P())
)


@functools.cache
def make_data():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (97, 2, 2, 1), dtype=np.uint8)
    images = images.repeat(4, axis=1).repeat(4, axis=2)
    outputs = MODULE.apply(make_variables(), images / np.float32(255))
    labels = np.asarray(outputs.argmax(axis=1))
    assert np.bincount(labels).max() < 80
    return jaxrob.Dataset(images, labels)


@functools.cache
def make_variables(seed=1):
    init = jax.jit(MODULE.init)
    variables = init(jax.random.key(seed), jnp.zeros((1, *SHAPE)))
    return jax.tree.map(lambda leaf: np.asarray(2 * leaf), variables)


def make_mesh(shape=(4, 2), names=("data", "model"), kind=AxisType.Auto):
    return jax.make_mesh(shape, names, axis_types=(kind,) * len(shape))


def put(variables, mesh, layers=TENSOR_PARALLEL):
    def one(path, leaf):
        _, layer, kind = (part.key for part in path)
        spec = layers.get(layer, (P(), P()))[kind == "bias"]
        return jax.device_put(leaf, NamedSharding(mesh, spec))

    return jax.tree_util.tree_map_with_path(one, variables)


def from_linen(variables):
    return jaxrob.Classifier.from_linen(MODULE, variables)


@functools.cache
def replicated():
    classifier = from_linen(make_variables())
    mesh = Mesh(np.array(jax.devices()[:1]), ("images",))
    curve = jaxrob.evaluate(classifier, make_data(), NOISE, LEVELS, key=KEY, mesh=mesh)
    return classifier, mesh, curve


def check_same_answers(curve, expected=None):
    expected = expected or replicated()[2]
    np.testing.assert_allclose(curve.confidence, expected.confidence, atol=1e-5)
    different = curve.predicted != expected.predicted
    # Ties within rounding, where the two best classes are at most a half each.
    assert different.mean() < 0.01, different.mean()
    assert (expected.confidence[different] <= 0.5 + 1e-5).all()


def collectives(compiled):
    return collections.Counter(COLLECTIVES.findall(compiled.as_text()))


def check_layout(mesh, axes, layers=TENSOR_PARALLEL):
    """Answers, bytes and communication of one way of sharding."""
    variables = put(make_variables(), mesh, layers)
    classifier = from_linen(variables)
    leaves = jax.tree.leaves(variables)
    before = [
        [one.data.unsafe_buffer_pointer() for one in leaf.addressable_shards]
        for leaf in leaves
    ]
    curve = jaxrob.evaluate(classifier, make_data(), NOISE, LEVELS, key=KEY)
    check_same_answers(curve)

    # Each device holds its own part, before and during the step.
    own = sum(leaf.addressable_shards[0].data.nbytes for leaf in leaves)
    whole = sum(leaf.nbytes for leaf in leaves)
    assert own < (0.75 if mesh.shape["model"] == 2 else 0.5) * whole
    at = {"num_images": 16, "num_levels": 3}
    found = steps.evaluation(classifier, SHAPE, NOISE, **at)
    assert found.step.mesh.shape == mesh.shape
    preparation, step = found.preparation.lower(), found.step.lower().compile()
    assert not collectives(preparation.compile())
    _, prepared, *_ = found.step.args
    images = sum(
        4 * np.prod(leaf.sharding.shard_shape(leaf.shape))
        for leaf in jax.tree.leaves(prepared)
    )
    size = step.memory_analysis().argument_size_in_bytes
    assert own <= size <= own + images + 1024, (size, own, images)

    # The step communicates as the network's own forward pass does.
    inputs = jax.ShapeDtypeStruct(
        (16, *SHAPE), np.float32, sharding=NamedSharding(mesh, P(axes or None))
    )
    alone = jax.jit(MODULE.apply).lower(variables, inputs).compile()
    assert collectives(step) == collectives(alone), (step, alone)
    assert collectives(step)

    # Nothing was moved.
    after = [
        [one.data.unsafe_buffer_pointer() for one in leaf.addressable_shards]
        for leaf in leaves
    ]
    assert before == after
    return classifier


def check_layouts():
    check_layout(make_mesh(), ("data",))
    check_layout(make_mesh((2, 4)), ("data",), FULLY_SHARDED)
    # No axis is left for the images: all devices work on all of them.
    check_layout(make_mesh((8,), ("model",)), (), FULLY_SHARDED)


def check_programs(folder):
    """New parameters, axes of another type, and a journal."""
    mesh, data = make_mesh(), make_data()
    journal = pathlib.Path(folder, "journal")
    at = {"key": KEY, "batch_size": 40}
    classifier = from_linen(put(make_variables(), mesh))
    first = jaxrob.assess(classifier, data, NOISE, 0.8, journal=journal, **at)
    plain, one, _ = replicated()
    explicit = from_linen(put(make_variables(), make_mesh(kind=AxisType.Explicit)))
    other = put(make_variables(2), mesh)
    jax.block_until_ready(other)
    with compilations() as compiled:
        again = jaxrob.assess(explicit, data, NOISE, 0.8, mesh=mesh, **at)
        jaxrob.assess(from_linen(other), data, NOISE, 0.8, **at)
    assert not compiled, compiled
    np.testing.assert_array_equal(again.curve.predicted, first.curve.predicted)

    # The whole network has the same digest, and finds its answers.
    length = journal.stat().st_size
    for resumed in (classifier, plain):
        given = {"mesh": one if resumed is plain else None}
        found = jaxrob.assess(resumed, data, NOISE, 0.8, journal=journal, **at, **given)
        assert found.robustness == first.robustness
        np.testing.assert_array_equal(found.curve.predicted, first.curve.predicted)
    assert journal.stat().st_size == length
    half = pathlib.Path(folder, "half")
    half.write_bytes(journal.read_bytes()[: length // 2])
    found = jaxrob.assess(classifier, data, NOISE, 0.8, journal=half, **at)
    np.testing.assert_array_equal(found.curve.predicted, first.curve.predicted)


def check_pieces():
    """A digest reads a sharded array piece by piece."""
    from jaxrob._devices.blocks import in_pieces

    values = np.arange(8 * 6 * 4, dtype=np.float32).reshape(8, 6, 4)
    for spec in (P("data"), P(None, None, "model"), P("model", None, "data"), P()):
        array = jax.device_put(values, NamedSharding(make_mesh(), spec))
        for most in (4, 300, 2**20):
            pieces = list(in_pieces(array, most))
            assert max(piece.nbytes for piece in pieces) <= most
            joined = np.concatenate([piece.ravel() for piece in pieces])
            np.testing.assert_array_equal(joined, values.ravel())


def check_other_kinds_of_variables():
    """Some leaves elsewhere, NNX, keys, preprocessing, two networks."""
    mesh, data, (plain, one, _) = make_mesh(), make_data(), replicated()
    evaluate = functools.partial(jaxrob.evaluate, key=KEY)
    variables = put(make_variables(), mesh)
    params, known = variables["params"], make_variables()["params"]
    params["classes"] = known["classes"]
    params["rows"] = jax.device_put(known["rows"], jax.devices()[3])
    host = NamedSharding(mesh, P("model", None), memory_kind="pinned_host")
    params["down"]["kernel"] = jax.device_put(known["down"]["kernel"], host)
    check_same_answers(evaluate(from_linen(variables), data, NOISE, LEVELS))

    class Perceptron(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(64, WIDTH, rngs=rngs)
            self.dropout = nnx.Dropout(0.5, rngs=rngs)
            self.last = nnx.Linear(WIDTH, 4, rngs=rngs)

        def __call__(self, images):
            x = nnx.relu(self.first(images.reshape(len(images), -1)))
            return self.last(self.dropout(x))

    module = Perceptron(nnx.Rngs(0))
    scaled = jaxrob.Preprocessing(255, 100, 50)
    whole = jaxrob.Classifier.from_nnx(module, preprocessing=scaled)
    expected = evaluate(whole, data, NOISE, LEVELS, mesh=one)
    specs = {(64, WIDTH): P(None, "model"), (WIDTH, 4): P("model")}

    def shard(leaf):
        spec = specs.get(leaf.shape)
        return leaf if spec is None else jax.device_put(leaf, NamedSharding(mesh, spec))

    nnx.update(module, jax.tree.map(shard, nnx.state(module)))
    split = jaxrob.Classifier.from_nnx(module, preprocessing=scaled)
    kernels = [leaf for leaf in jax.tree.leaves(split.variables) if leaf.ndim == 2]
    assert len(kernels) == 2
    assert not any(leaf.sharding.is_fully_replicated for leaf in kernels)
    check_same_answers(evaluate(split, data, NOISE, LEVELS), expected)

    few = {"strategy": jaxrob.strategies.FewImages(half_width=0.1), "key": KEY}
    networks = from_linen(variables), plain
    both = jaxrob.compare_sequentially(*networks, data, NOISE, 0.8, **few)
    assert both.difference == 0


def check_other_entry_points():
    plain, one, curve = replicated()
    classifier, few = from_linen(put(make_variables(), make_mesh())), make_data()[:13]
    for given in ({"reduced": True}, {"batch_size": 40}):
        found = jaxrob.evaluate(classifier, few, NOISE, LEVELS, key=KEY, **given)
        accuracy = (curve.predicted == curve.labels)[:, :13].mean(axis=1)
        np.testing.assert_allclose(found.accuracy, accuracy)
    draws = {"epsilon": 0.3, "num_samples": 100, "estimator": "count", "key": KEY}
    local = [
        roma.assess(of, few.images, mesh=mesh, **draws)
        for of, mesh in ((plain, one), (classifier, None))
    ]
    assert np.abs(local[0].hits - local[1].hits).max() <= 1 and local[0].hits.any()
    labels = curve.predicted[0][:13]
    attacked = [
        adversarial.pgd(of, few.images, labels, epsilon=0.1, steps=3, mesh=mesh)
        for of, mesh in ((plain, one), (classifier, None))
    ]
    np.testing.assert_array_equal(attacked[0].success, attacked[1].success)
    np.testing.assert_allclose(attacked[0].images, attacked[1].images, atol=1e-4)


def check_refusals():
    mesh, data = make_mesh(), make_data()
    variables = put(make_variables(), mesh)
    evaluate = functools.partial(
        jaxrob.evaluate, dataset=data, alteration=NOISE, levels=LEVELS, key=KEY
    )

    def message(classifier, **given):
        try:
            evaluate(classifier, **given)
        except ValueError as error:
            return str(error)

    other = Mesh(mesh.devices[::-1], mesh.axis_names)
    found = message(from_linen(variables), mesh=other)
    assert "mesh must be the one" in found, found
    assert "devices 0, 1, 2" in found and "devices 6, 7, 4" in found, found
    flat = make_mesh((8,), ("model",))
    mixed = {
        "params": variables["params"]
        | {"up": put(make_variables(), flat)["params"]["up"]}
    }
    found = message(from_linen(mixed))
    assert "variables must be sharded over one mesh" in found, found
    assert "('data': 4, 'model': 2)" in found and "('model': 8)" in found, found

    def constrained(variables, images):
        names_axes = jax.lax.with_sharding_constraint(
            images, NamedSharding(mesh, P("data"))
        )
        return MODULE.apply(variables, names_axes)

    found = message(jaxrob.Classifier(constrained, variables))
    assert "variables sharded along 'model'" in found and "'data'" in found, found

    def own_axis(variables, images):
        outputs = MODULE.apply(variables, images)
        own = NamedSharding(mesh, P(None, "model"))
        return jax.lax.with_sharding_constraint(outputs, own)

    check_same_answers(evaluate(jaxrob.Classifier(own_axis, variables)))


def main(folder):
    assert jax.device_count() == 8
    check_pieces()
    check_layouts()
    check_programs(folder)
    check_other_kinds_of_variables()
    check_other_entry_points()
    check_refusals()


@pytest.mark.slow
def test_on_eight_devices(tmp_path):
    environment = os.environ | {
        "JAX_NUM_CPU_DEVICES": "8",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, __file__, tmp_path]
    done = subprocess.run(
        command, env=environment, stderr=subprocess.PIPE, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3, 5)])
@pytest.mark.parametrize("most", [1, 4, 11, 1000])
def test_pieces_are_in_order(shape, most):
    values = np.arange(math.prod(shape)).reshape(shape)
    pieces = [values[piece] for piece in _slices(shape, most)]
    assert max(piece.size for piece in pieces) <= most
    joined = np.concatenate([piece.ravel() for piece in pieces])
    np.testing.assert_array_equal(joined, values.ravel())


def test_an_axis_of_size_one_may_be_named():
    mesh = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))
    weights = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)

    def apply(variables, images):
        return images.reshape(len(images), -1) @ variables

    images = np.random.default_rng(1).random((6, 4, 4, 1), np.float32)
    data = jaxrob.Dataset(images, np.arange(6) % 3)
    placed = jax.device_put(weights, NamedSharding(mesh, P("model")))
    bright = alterations.brightness()
    right = apply(weights, np.clip(images * 1.5, 0, 1)).argmax(1)
    for over in (None, mesh):
        classifier = jaxrob.Classifier(apply, placed)
        found = jaxrob.evaluate(classifier, data, bright, [0.5], mesh=over)
        np.testing.assert_array_equal(found.predicted[0], right)


def test_variables_that_are_not_split_leave_all_axes_to_the_images():
    mesh = Mesh(np.array(jax.devices()[:1]), ("a",))
    placed = jax.device_put(jnp.ones(3), NamedSharding(mesh, P()))
    assert checked_mesh(mesh, [placed, np.ones(2)]).axes == ("a",)
    assert checked_mesh(None, [placed]).axes == ("images",)


if __name__ == "__main__":
    main(sys.argv[1])
