"""The classifier of digits by the nearest mean, files of it, and gradients."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrob import data


@pytest.fixture(scope="session")
def weights():
    """Its scores are `images @ kernel + bias`."""
    train = data.digits("train")
    means = [train.images[train.labels == digit].mean(0) / 255 for digit in range(10)]
    means = np.float32(means).reshape(10, -1)
    return {"kernel": 2 * means.T, "bias": -np.square(means).sum(1)}


@pytest.fixture(scope="session")
def check_gradients():
    def check(classifier, images):
        """Compares some gradients of a class's log-probability at uint8 images."""
        x = jnp.float32(images) / 255

        def loss(images):
            return classifier.log_probabilities(images)[0, :, 1].sum()

        gradient = np.asarray(jax.jit(jax.grad(loss))(x))
        for index in [(0, 0, 0, 0), (1, 3, 4, 2), (2, 7, 7, 1), (0, 4, 4, 1)]:
            step = np.zeros(x.shape, np.float32)
            step[index] = 0.02
            difference = (loss(x + step) - loss(x - step)) / 0.04
            assert gradient[index] == pytest.approx(
                float(difference), rel=0.02, abs=1e-4
            )

    return check


@pytest.fixture(scope="session")
def onnx_file(weights):
    """Writes net.onnx into the working directory."""

    def write():
        onnx = pytest.importorskip("onnx", reason="needs the extra jaxrob[onnx]")
        pytest.importorskip("onnxruntime", reason="needs the extra jaxrob[onnx]")
        helper, kind = onnx.helper, onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            [
                helper.make_node("Flatten", ["x"], ["flat"]),
                helper.make_node("Gemm", ["flat", "kernel", "bias"], ["y"]),
            ],
            "net",
            [helper.make_tensor_value_info("x", kind, ["N", 1, 28, 28])],
            [helper.make_tensor_value_info("y", kind, ["N", 10])],
            [onnx.numpy_helper.from_array(x, name) for name, x in weights.items()],
        )
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        onnx.save(model, "net.onnx")

    return write


@pytest.fixture(scope="session")
def keras_file(weights):
    """Writes net.keras into the working directory."""

    def write():
        os.environ.setdefault("KERAS_BACKEND", "jax")
        keras = pytest.importorskip("keras", reason="needs the extra jaxrob[keras]")
        layers = [keras.layers.Flatten(), keras.layers.Dense(10)]
        net = keras.Sequential([keras.Input((28, 28, 1)), *layers])
        net.set_weights([weights["kernel"], weights["bias"]])
        net.save("net.keras")

    return write
