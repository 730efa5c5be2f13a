"""The papers' networks and their pooling: shapes, parameters, what they are made of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from jaxrob.networks import MLP, VGG16, IdcCNN, MnistCNN, ResNet, StridedCNN, max_pool

from .test_idc_cnn import convolve, pool


def random_variables(module, images):
    """Variables of sensible size, without the time that compiling `init` takes."""
    rng = np.random.default_rng(1)

    def draw(path, leaf):
        name = path[-1].key
        if name == "kernel":
            deviation = np.sqrt(2 / np.prod(leaf.shape[:-1]))
            return rng.normal(0, deviation, leaf.shape).astype(np.float32)
        if name in ("scale", "var"):
            return rng.uniform(0.5, 1.5, leaf.shape).astype(np.float32)
        return rng.uniform(-0.2, 0.2, leaf.shape).astype(np.float32)

    shapes = jax.eval_shape(module.init, jax.random.key(0), images)
    return jax.tree_util.tree_map_with_path(draw, shapes)


def problem(module, shape):
    images = np.random.default_rng(0).random(shape, np.float32)
    return images, random_variables(module, images)


def count(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize(
    ("module", "shape", "classes", "parameters", "statistics"),
    [
        (MLP(), (28, 28, 1), 10, 79_510, 0),
        (MLP(features=(20, 30), num_classes=3), (4, 5, 2), 3, 820 + 630 + 93, 0),
        (MnistCNN(), (28, 28, 1), 10, 320 + 18_496 + 401_536 + 1_290, 0),
        (StridedCNN(), (28, 28, 1), 10, 416 + 4_640 + 100_416 + 650, 0),
        # What is published of ResNet-20 for CIFAR-10 without shortcut parameters.
        (ResNet(blocks=(3, 3, 3)), (32, 32, 3), 10, 269_722, 1_376),
        (
            ResNet(blocks=(2,), width=3, stem_stride=2, num_classes=4),
            (9, 7, 2),
            4,
            (54 + 6) + 4 * (81 + 6) + 16,
            2 * 5 * 3,
        ),
        (IdcCNN(), (50, 50, 3), 2, 60_738, 2_368),
        # What Keras counts for this variant of VGG16.
        (VGG16(), (32, 32, 3), 10, 14_991_946, 9_472),
    ],
)
def test_shapes_and_numbers(module, shape, classes, parameters, statistics):
    images = jax.ShapeDtypeStruct((5, *shape), jnp.float32)
    made = jax.eval_shape(module.init_with_output, jax.random.key(0), images)
    output, variables = made
    assert count(variables["params"]) == parameters
    assert count(variables.get("batch_stats", {})) == statistics
    assert output.shape == (5, classes)
    assert output.dtype == jnp.float32


def relu(x):
    return np.maximum(x, 0)


def dense(x, layer):
    return x @ layer["kernel"] + layer["bias"]


def normalise(x, statistics, layer, epsilon):
    x = (x - statistics["mean"]) / np.sqrt(statistics["var"] + epsilon)
    return x * layer["scale"] + layer["bias"]


def mlp(variables, x):
    params = variables["params"]
    hidden = relu(dense(x.reshape(len(x), -1), params["Dense_0"]))
    return dense(hidden, params["Dense_1"])


def mnist_cnn(variables, x):
    for i in range(2):
        x = pool(relu(convolve(x, **variables["params"][f"Conv_{i}"])), 2)
    return mlp(variables, x)


def strided_cnn(variables, x):
    for i in range(3):
        # Of an odd size with stride 2, the first, third, ... pixels are kept.
        x = relu(convolve(x, **variables["params"][f"Conv_{i}"])[:, ::2, ::2])
    return mlp(variables, x)


def vgg16(variables, x):
    params, statistics = variables["params"], variables["batch_stats"]

    def normalised(x, i):
        name = f"BatchNorm_{i}"
        return normalise(x, statistics[name], params[name], 1e-3)

    for i in range(13):
        x = normalised(relu(convolve(x, **params[f"Conv_{i}"])), i)
        if i in (1, 3, 6, 9, 12):
            x = pool(x, 2)
    x = normalised(relu(dense(x.reshape(len(x), -1), params["Dense_0"])), 13)
    return dense(x, params["Dense_1"])


STRIDED = StridedCNN(num_classes=3, features=(4, 6, 8))


@pytest.mark.parametrize(
    ("module", "by_hand", "shape", "tolerances"),
    [
        (MLP(), mlp, (3, 5, 5, 1), {"atol": 1e-5}),
        (MnistCNN(), mnist_cnn, (2, 8, 8, 1), {"atol": 1e-5}),
        (STRIDED, strided_cnn, (2, 17, 9, 3), {"atol": 1e-5}),
        pytest.param(
            *(VGG16(), vgg16, (2, 32, 32, 3), {"atol": 1e-3, "rtol": 1e-3}),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_against_numpy(module, by_hand, shape, tolerances):
    images, variables = problem(module, shape)
    found = jax.jit(module.apply)(variables, images)
    np.testing.assert_allclose(found, by_hand(variables, images), **tolerances)


def test_resnet_against_numpy():
    """Of an odd size, stride 2 keeps the first, third, ... pixels."""
    module = ResNet(blocks=(1, 2), width=4, stem_stride=2, num_classes=3)
    images, variables = problem(module, (2, 13, 9, 3))
    params, statistics = variables["params"], variables["batch_stats"]
    layers = iter(range(7))

    def layer(x, stride):
        i = next(layers)
        x = convolve(x, params[f"Conv_{i}"]["kernel"], 0)[:, ::stride, ::stride]
        name = f"BatchNorm_{i}"
        return normalise(x, statistics[name], params[name], 1e-5)

    def block(x, stride):
        y = layer(relu(layer(x, stride)), 1)
        kept = np.zeros_like(y)
        kept[..., : x.shape[-1]] = x[:, ::stride, ::stride]
        return relu(y + kept)

    x = relu(layer(images, 2))
    for stride in (1, 2, 1):
        x = block(x, stride)
    expected = dense(x.mean((1, 2)), params["Dense_0"])
    found = jax.jit(module.apply)(variables, images)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_resnet_normalises_by_the_batch_in_training():
    module = ResNet(blocks=(1,), width=4)
    images, variables = problem(module, (6, 8, 8, 3))

    @jax.jit
    def train(images):
        return module.apply(variables, images, train=True, mutable=["batch_stats"])

    _, state = train(images)
    before = variables["batch_stats"]["BatchNorm_0"]["mean"]
    mean = convolve(images, variables["params"]["Conv_0"]["kernel"], 0).mean((0, 1, 2))
    np.testing.assert_allclose(
        state["batch_stats"]["BatchNorm_0"]["mean"],
        0.9 * before + 0.1 * mean,
        atol=1e-5,
    )


@pytest.mark.parametrize(
    ("module", "wrong"),
    [
        (ResNet, {"blocks": (1, 0)}),
        (ResNet, {"stem_stride": 0}),
        (StridedCNN, {"features": ()}),
    ],
)
def test_refuses_what_has_no_layers(module, wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"^{name} "):
        module(**wrong)


@pytest.mark.parametrize("size", [2, 3])
def test_value_and_gradient_are_those_of_flax(size):
    # Distinct values: without ties there is one gradient.
    count = 2 * 7 * 8 * 3
    random = np.random.default_rng(0)
    x = random.permutation(np.arange(count, dtype=np.float32)).reshape(2, 7, 8, 3)

    def plain(x):
        return nn.max_pool(x, (size, size), strides=(size, size))

    weights = random.normal(size=(2, 7 // size, 8 // size, 3)).astype(np.float32)

    def value_and_gradient(pool):
        return pool(x), jax.grad(lambda x: (weights * pool(x)).sum())(x)

    pools = [lambda x: max_pool(x, size), plain]
    ours, theirs = jax.jit(lambda: [value_and_gradient(pool) for pool in pools])()
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def test_ties_share_the_gradient():
    with jax.enable_x64(True):
        images = jnp.ones((1, 2, 2, 1), jnp.float32)
        gradient = jax.jit(jax.grad(lambda x: max_pool(x, 2).sum()))(images)
    np.testing.assert_allclose(gradient, 0.25)
