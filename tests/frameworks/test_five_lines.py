"""A network trained elsewhere and a file of images, in five lines of its user's."""

import numpy as np
import pytest
from flax import nnx

from jaxrob import data

USER = """
import jax, jaxrob
classifier = jaxrob.Classifier.{made}
test, key = jaxrob.data.npz("test.npz"), jax.random.key(0)
print(jaxrob.reporting.table(jaxrob.assess(classifier, test, {alterations}, key=key)))
print(jaxrob.roma.assess(classifier, test.images[:3], test.labels[:3], epsilon=0.1, {more}).plr)
"""  # noqa: E501
EIGHT = "jaxrob.alterations.presets.cnn_2020()"
AUTO = 'budget=float("inf"), key=key'


class Scores(nnx.Module):
    def __init__(self, weights):
        self.last = nnx.Linear(784, 10, rngs=nnx.Rngs(0))
        self.last.kernel[...] = weights["kernel"]
        self.last.bias[...] = weights["bias"]

    def __call__(self, images):
        return self.last(images.reshape(len(images), -1))


def of_torch(weights):
    torch = pytest.importorskip("torch", reason="needs the extra jaxrob[torch]")
    layer = torch.nn.Linear(784, 10)
    arrays = {"weight": weights["kernel"].T, "bias": weights["bias"]}
    layer.load_state_dict({name: torch.tensor(x) for name, x in arrays.items()})
    return torch.nn.Sequential(torch.nn.Flatten(), layer)


def of_host(weights):
    def predict(images):
        return images.reshape(len(images), -1) @ weights["kernel"] + weights["bias"]

    return predict


@pytest.mark.slow
@pytest.mark.parametrize(
    "make, made",
    [
        (of_torch, "from_torch(net)"),
        ("onnx_file", 'from_onnx("net.onnx")'),
        ("keras_file", 'from_keras("net.keras")'),
        (Scores, "from_nnx(net)"),
        (of_host, "from_host(net, 10)"),
    ],
    ids=["torch", "onnx", "keras", "nnx", "host"],
)
@pytest.mark.filterwarnings("ignore::jaxrob.RobustnessWarning")
def test_five_lines(make, made, weights, tmp_path, monkeypatch, capsys, request):
    monkeypatch.chdir(tmp_path)
    test = data.digits("test")[:100]
    np.savez("test.npz", images=test.images, labels=test.labels)
    program = USER.format(made=made, alterations=EIGHT, more=AUTO).strip()
    assert len(program.splitlines()) == 5
    of_file = isinstance(make, str)
    net = request.getfixturevalue(make)() if of_file else make(weights)
    exec(program, {"net": net})
    *table, probabilities = capsys.readouterr().out.split("\n[")
    rows = table[0].splitlines()[2:10]
    scores = of_host(weights)(test.images / np.float32(255))
    right = (scores.argmax(1) == test.labels).mean()
    assert [row.split("  ")[0] for row in rows][2:4] == ["rotation", "brightness"]
    assert all(f" {right:.4f} " in row for row in rows)
    found = [float(text) for text in probabilities.strip("]\n").split()]
    assert len(found) == 3 and all(0.99 < plr <= 1 for plr in found)
