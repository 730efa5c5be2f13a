import numpy as np
import pytest
from PIL import Image

from jaxrob.data import idc_patches


def write(folder, name, shape=(50, 50, 3), value=0):
    Image.fromarray(np.full(shape, value, np.uint8)).save(folder / name, "PNG")


def test_labels_and_order(tmp_path):
    for value, name in enumerate(["b_class0.png", "c_class1.png", "a_class1.PNG"]):
        write(tmp_path, name, value=value)
    (tmp_path / ".DS_Store").write_bytes(b"hidden")
    dataset = idc_patches(str(tmp_path))
    assert dataset.class_names == ("benign", "malignant")
    assert list(dataset.labels) == [1, 0, 1]
    assert list(dataset.images[:, 0, 0, 0]) == [2, 0, 1]
    assert dataset.images.shape == (3, 50, 50, 3)
    assert dataset.images.dtype == np.uint8


@pytest.mark.parametrize(
    "name", ["a.png", "a_class2.png", "a_class1.jpg", "a_class10.png"]
)
def test_name_without_a_class(tmp_path, name):
    write(tmp_path, "a_class0.png")
    write(tmp_path, name)
    with pytest.raises(ValueError, match=f"{name}: expected"):
        idc_patches(tmp_path)


def test_damaged_or_of_another_size(tmp_path):
    write(tmp_path, "a_class0.png", shape=(50, 49, 3))
    with pytest.raises(ValueError, match="a_class0.png: 50x49 pixels"):
        idc_patches(tmp_path)
    (tmp_path / "a_class0.png").write_bytes(b"\x89PNG")
    with pytest.raises(ValueError, match="a_class0.png: not a readable"):
        idc_patches(tmp_path)
    (tmp_path / "a_class0.png").unlink()
    (tmp_path / "a_class0.png").mkdir()
    with pytest.raises(ValueError, match="a_class0.png: not a regular file"):
        idc_patches(tmp_path)


def test_nothing_there(tmp_path):
    with pytest.raises(ValueError, match="empty"):
        idc_patches(tmp_path)
    with pytest.raises(FileNotFoundError, match="_class0.png"):
        idc_patches(tmp_path / "nothing")


def test_real_patches(real_folder):
    dataset = idc_patches(real_folder("idc/images"))
    assert dataset.images.shape == (214, 50, 50, 3)
    assert np.bincount(dataset.labels).tolist() == [99, 115]
    # Stained with haematoxylin and eosin: pink, so green is the lowest.
    red, green, blue = dataset.images.mean((0, 1, 2))
    assert green < blue < red
