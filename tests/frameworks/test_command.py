"""The command on files of other frameworks and pictures, as its users have them."""

import os

import numpy as np
import pytest
from PIL import Image

from jaxrob import data, reporting
from jaxrob._command.run import main


@pytest.fixture(scope="module")
def weights():
    """Of the classifier by the nearest mean: scores are `images @ kernel + bias`."""
    train = data.digits("train")
    means = [train.images[train.labels == digit].mean(0) / 255 for digit in range(10)]
    means = np.float32(means).reshape(10, -1)
    return 2 * means.T, -np.square(means).sum(1)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with pictures; some greater, so that they have to be resized."""
    test = data.digits("test")
    for number, (image, label) in enumerate(zip(test.images[:60], test.labels)):
        name = tmp_path / "pictures" / str(label) / f"{number}.png"
        name.parent.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(image[..., 0])
        picture.resize((56, 56), Image.Resampling.NEAREST).save(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def onnx_file(kernel, bias):
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
        [
            onnx.numpy_helper.from_array(kernel, "kernel"),
            onnx.numpy_helper.from_array(bias, "bias"),
        ],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), "net.onnx")
    return "net.onnx"


def keras_file(kernel, bias):
    os.environ.setdefault("KERAS_BACKEND", "jax")
    keras = pytest.importorskip("keras", reason="needs the extra jaxrob[keras]")
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((28, 28, 1)), layers.Flatten(), layers.Dense(10)]
    )
    model.set_weights([kernel, bias])
    model.save("net.keras")
    return "net.keras"


TORCH = """
import numpy as np
import torch

def network():
    layer = torch.nn.Linear(784, 10)
    held = np.load("weights.npz")
    arrays = {"weight": held["kernel"].T.copy(), "bias": held["bias"]}
    layer.load_state_dict({name: torch.tensor(x) for name, x in arrays.items()})
    return torch.nn.Sequential(torch.nn.Flatten(), layer)

module = network()
"""


@pytest.mark.parametrize("framework", ["onnx", "keras", "torch"])
def test_a_network_file_and_pictures(weights, place, framework, capsys):
    if framework == "torch":
        pytest.importorskip("torch", reason="needs the extra jaxrob[torch]")
        np.savez("weights.npz", kernel=weights[0], bias=weights[1])
        (place / "net.py").write_text(TORCH)
        file = "net.py:network"
    else:
        file = {"onnx": onnx_file, "keras": keras_file}[framework](*weights)
    small = (
        "assess", f"--classifier={file}", "--images=pictures", "--noprogress",
        "--alterations=brightness(-0.5,0.2)", "--levels=8", "--threshold=0.6",
    )  # fmt: skip
    right = ("--channels=grey", "--size=28", "--report=report.html")
    assert main([*small, *right, "--require=robustness.low>=0.5"]) == 0
    results = reporting.read_results("results")
    (one,) = results.assessments
    assert one.values[one.levels == 0] > 0.85
    expected = {"onnx": "net.onnx", "keras": "net.keras", "torch": "Sequential"}
    assert results.network == expected[framework]
    assert (place / "report.html").exists()
    assert main([*small, *right, "--require=robustness>=1", "--threshold=1"]) == 1
    capsys.readouterr()
    assert main([*small, "--size=28"]) in (2, 3)
    if framework == "onnx":
        # Only a file of ONNX says what it takes.
        assert "Say --channels=grey" in capsys.readouterr().err
        assert main([*small, "--channels=grey"]) == 2
        assert "Say --size=28,28" in capsys.readouterr().err
    if framework == "torch":
        named = [*small, *right, "--classifier=net.py:module", "--output=again"]
        assert main(named) == 0
        again = reporting.read_results("again").assessments[0]
        np.testing.assert_array_equal(again.values, one.values)
    (place / "damaged.onnx").write_bytes(b"no network")
    assert main([*small, *right, "--classifier=damaged.onnx"]) == 2
