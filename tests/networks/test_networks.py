import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxrob.networks import MLP, VGG16, IdcCNN, MnistCNN, StridedCNN


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


def count(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize(
    ("module", "shape", "classes", "parameters", "statistics"),
    [
        (MLP(), (28, 28, 1), 10, 79_510, 0),
        (MLP(features=(20, 30), num_classes=3), (4, 5, 2), 3, 820 + 630 + 93, 0),
        (MLP(features=()), (28, 28, 1), 10, 7_850, 0),
        (MnistCNN(), (28, 28, 1), 10, 320 + 18_496 + 401_536 + 1_290, 0),
        (StridedCNN(), (28, 28, 1), 10, 416 + 4_640 + 100_416 + 650, 0),
        (IdcCNN(), (50, 50, 3), 2, 60_738, 2_368),
        # What Keras counts for this variant of VGG16.
        (VGG16(), (32, 32, 3), 10, 14_991_946, 9_472),
        (VGG16(num_classes=100), (32, 32, 3), 100, 14_991_946 + 90 * 513, 9_472),
    ],
)
def test_shapes_and_numbers(module, shape, classes, parameters, statistics):
    images = jax.ShapeDtypeStruct((5, *shape), jnp.float32)
    variables = jax.eval_shape(module.init, jax.random.key(0), images)
    assert count(variables["params"]) == parameters
    assert count(variables.get("batch_stats", {})) == statistics
    output = jax.eval_shape(module.apply, variables, images)
    assert output.shape == (5, classes)
    assert output.dtype == jnp.float32


def relu(x):
    return np.maximum(x, 0)


def test_mlp_against_numpy():
    images = np.random.default_rng(0).random((3, 28, 28, 1), np.float32)
    variables = random_variables(MLP(), images)
    first, second = (variables["params"][f"Dense_{i}"] for i in range(2))
    hidden = relu(images.reshape(3, 784) @ first["kernel"] + first["bias"])
    expected = hidden @ second["kernel"] + second["bias"]
    np.testing.assert_allclose(MLP().apply(variables, images), expected, atol=1e-5)


def convolve(x, kernel, bias):
    """3x3, stride 1, zeros outside."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    return np.einsum("bhwcij,ijco->bhwo", windows, np.asarray(kernel)) + bias


def halve(x):
    b, h, w, c = x.shape
    return x.reshape(b, h // 2, 2, w // 2, 2, c).max((2, 4))


def test_mnist_cnn_against_numpy():
    images = np.random.default_rng(0).random((2, 28, 28, 1), np.float32)
    variables = random_variables(MnistCNN(), images)
    params = variables["params"]
    x = images
    for i in range(2):
        x = halve(relu(convolve(x, **params[f"Conv_{i}"])))
    first, second = params["Dense_0"], params["Dense_1"]
    x = relu(x.reshape(2, 3136) @ first["kernel"] + first["bias"])
    expected = x @ second["kernel"] + second["bias"]
    np.testing.assert_allclose(MnistCNN().apply(variables, images), expected, atol=1e-5)


def test_vgg16_against_numpy():
    images = np.random.default_rng(0).random((2, 32, 32, 3), np.float32)
    variables = random_variables(VGG16(), images)
    params, statistics = variables["params"], variables["batch_stats"]

    def normalise(x, i):
        name = f"BatchNorm_{i}"
        mean, var = statistics[name]["mean"], statistics[name]["var"]
        x = (x - mean) / np.sqrt(var + 1e-3)
        return x * params[name]["scale"] + params[name]["bias"]

    x = images
    for i in range(13):
        x = normalise(relu(convolve(x, **params[f"Conv_{i}"])), i)
        if i in (1, 3, 6, 9, 12):
            x = halve(x)
    first, second = params["Dense_0"], params["Dense_1"]
    x = normalise(relu(x.reshape(2, 512) @ first["kernel"] + first["bias"]), 13)
    expected = x @ second["kernel"] + second["bias"]
    found = jax.jit(VGG16().apply)(variables, images)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "shape"), [(IdcCNN(), (8, 50, 50, 3)), (VGG16(), (2, 32, 32, 3))]
)
def test_training_mode(module, shape):
    images = np.random.default_rng(0).random(shape, np.float32)
    variables = random_variables(module, images)

    @jax.jit
    def train(key):
        return module.apply(
            variables,
            images,
            train=True,
            mutable=["batch_stats"],
            rngs={"dropout": key},
        )

    first, state = train(jax.random.key(2))
    again, _ = train(jax.random.key(2))
    other, _ = train(jax.random.key(3))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0
    # Keras's momentum: a hundredth of the way to the batch's mean.
    before = variables["batch_stats"]["BatchNorm_0"]["mean"]
    x = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    if isinstance(module, IdcCNN):
        x = np.pad(images, ((0, 0), (0, 1), (0, 1), (0, 0)))[..., ::-1]
    stride = 2 if isinstance(module, IdcCNN) else 1
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    windows = windows[:, ::stride, ::stride]
    kernel, bias = (variables["params"]["Conv_0"][key] for key in ("kernel", "bias"))
    mean = relu(np.einsum("bhwcij,ijco->bhwo", windows, kernel) + bias).mean((0, 1, 2))
    np.testing.assert_allclose(
        state["batch_stats"]["BatchNorm_0"]["mean"],
        0.99 * before + 0.01 * mean,
        atol=1e-5,
    )


@pytest.mark.parametrize("module", [MLP(), MnistCNN()])
def test_training_mode_changes_nothing(module):
    images = np.random.default_rng(0).random((2, 28, 28, 1), np.float32)
    variables = random_variables(module, images)
    np.testing.assert_array_equal(
        module.apply(variables, images), module.apply(variables, images, train=True)
    )


@pytest.mark.slow
def test_mnist_cnn_learns():
    """Bright squares in one of two corners are told apart within few steps."""
    labels = np.arange(32) % 2
    images = np.random.default_rng(0).random((32, 28, 28, 1), np.float32) / 4
    images[labels == 0, :8, :8] += 0.5
    images[labels == 1, -8:, -8:] += 0.5
    module = MnistCNN(num_classes=2)
    params = module.init(jax.random.key(0), images)
    optimiser = optax.adam(1e-3)

    def loss(params):
        logits = module.apply(params, images, train=True)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    @jax.jit
    def step(params, state):
        updates, state = optimiser.update(jax.grad(loss)(params), state)
        return optax.apply_updates(params, updates), state

    state = optimiser.init(params)
    for _ in range(20):
        params, state = step(params, state)
    predicted = np.asarray(module.apply(params, images)).argmax(1)
    np.testing.assert_array_equal(predicted, labels)
