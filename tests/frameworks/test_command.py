"""The command on files of other frameworks and pictures, as its users have them."""

import numpy as np
import pytest
from PIL import Image

from jaxrob import data, reporting
from jaxrob._command.run import main


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


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["onnx", "keras", "torch"])
def test_a_network_file_and_pictures(weights, place, framework, capsys, request):
    file = f"net.{framework}"
    if framework == "torch":
        pytest.importorskip("torch", reason="needs the extra jaxrob[torch]")
        np.savez("weights.npz", **weights)
        (place / "net.py").write_text(TORCH)
        file = "net.py:network"
    else:
        request.getfixturevalue(f"{framework}_file")()
    small = (
        "assess", f"--classifier={file}", "--images=pictures", "--noprogress",
        "--alterations=brightness(-0.5,0.2)", "--levels=8", "--threshold=0.6",
    )  # fmt: skip
    right = ("--channels=grey", "--size=28", "--report=report.html")
    assert main([*small, *right, "--require=robustness.low>=0.5"]) == 0
    results = reporting.read_results("results")
    (one,) = results.assessments
    assert one.values[one.levels == 0] > 0.85
    assert results.network == ("Sequential" if framework == "torch" else file)
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
