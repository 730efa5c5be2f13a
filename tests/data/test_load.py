import struct

import numpy as np
import pytest
from PIL import Image

from jaxrob.data import NAMES, load


@pytest.fixture
def root(tmp_path):
    """Makes a data folder with one image in each test split."""
    for folder in ("mnist", "cifar10", "idc/images"):
        (tmp_path / folder).mkdir(parents=True)
    mnist = tmp_path / "mnist"
    (mnist / "t10k-images-idx3-ubyte").write_bytes(
        struct.pack(">IIII", 0x803, 1, 28, 28) + bytes(784)
    )
    (mnist / "t10k-labels-idx1-ubyte").write_bytes(struct.pack(">IIB", 0x801, 1, 5))
    (tmp_path / "cifar10" / "test_batch.bin").write_bytes(bytes([5]) + bytes(3072))
    Image.fromarray(np.zeros((50, 50, 3), np.uint8)).save(
        tmp_path / "idc" / "images" / "a_class1.png"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("name", "shape", "label"),
    [
        ("mnist", (1, 28, 28, 1), 5),
        ("cifar10", (1, 32, 32, 3), 5),
        ("idc", (1, 50, 50, 3), 1),
    ],
)
def test_folder_from_the_argument_or_the_environment(
    monkeypatch, root, name, shape, label
):
    monkeypatch.delenv("JAXROB_DATA_DIR", raising=False)
    dataset = load(name, "test", root)
    assert dataset.images.shape == shape
    assert list(dataset.labels) == [label]
    monkeypatch.setenv("JAXROB_DATA_DIR", str(root))
    assert load(name).images.shape == shape
    with pytest.raises(FileNotFoundError):
        load(name, data_dir=root / "elsewhere")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "digits"])
def test_missing_data_are_explained(monkeypatch, tmp_path, name):
    monkeypatch.delenv("JAXROB_DATA_DIR", raising=False)
    assert len(load("digits", "train").labels) == 1297
    with pytest.raises(FileNotFoundError, match="JAXROB_DATA_DIR.*digits"):
        load(name)
    with pytest.raises(FileNotFoundError) as caught:
        load(name, data_dir=tmp_path)
    message = str(caught.value)
    assert str(tmp_path / name) in message
    assert "expected" in message
    assert "'digits' needs nothing" in message


def test_wrong_arguments(root):
    with pytest.raises(ValueError, match="name must be one of .*'imagenet'"):
        load("imagenet", data_dir=root)
    with pytest.raises(ValueError, match="split must be one of"):
        load("digits", "all")
    with pytest.raises(ValueError, match="split must be 'test' for 'idc'"):
        load("idc", "train", root)
