import gzip
import struct

import numpy as np
import pytest

from jaxrob.data import mnist

IMAGES, LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


def images_file(number, side=28):
    pixels = np.arange(number * side * side) % 251
    return struct.pack(">IIII", 0x803, number, side, side) + bytes(pixels.tolist())


def labels_file(labels):
    return struct.pack(">II", 0x801, len(labels)) + bytes(labels)


def test_plain_and_compressed_files(tmp_path):
    (tmp_path / IMAGES).write_bytes(images_file(3))
    (tmp_path / f"{LABELS}.gz").write_bytes(gzip.compress(labels_file([7, 0, 9])))
    dataset = mnist(tmp_path, "test")
    assert dataset.images.shape == (3, 28, 28, 1)
    assert dataset.images.dtype == np.uint8
    assert dataset.images[0, 1, 2, 0] == 30  # row by row
    assert list(dataset.labels) == [7, 0, 9]
    assert dataset.class_names == tuple("0123456789")


@pytest.mark.parametrize(
    ("images", "labels", "match"),
    [
        (images_file(2, side=27), labels_file([1, 2]), "27"),
        (images_file(2), labels_file([1]), "uint8"),
        (images_file(2), labels_file([1, 10]), "label 10"),
        (labels_file([1, 2]), images_file(2), "expected uint8"),
        (images_file(0), labels_file([]), r"\(0, 28, 28\)"),
        (images_file(2)[:-1], labels_file([1, 2]), "1568 bytes"),
    ],
)
def test_wrong_contents(tmp_path, images, labels, match):
    (tmp_path / IMAGES).write_bytes(images)
    (tmp_path / LABELS).write_bytes(labels)
    with pytest.raises(ValueError, match=match):
        mnist(tmp_path)


def test_missing_file_is_named(tmp_path):
    (tmp_path / IMAGES).write_bytes(images_file(1))
    with pytest.raises(FileNotFoundError, match=LABELS):
        mnist(tmp_path, "test")
    with pytest.raises(FileNotFoundError, match="train-images-idx3-ubyte"):
        mnist(tmp_path, "train")
    with pytest.raises(ValueError, match="split"):
        mnist(tmp_path, "valid")


def test_official_files(real_folder):
    dataset = mnist(real_folder("mnist"))
    assert dataset.images.shape == (10_000, 28, 28, 1)
    assert list(dataset.labels[:10]) == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    assert dataset.images.max() == 255
    # Digits are bright on a dark ground, and do not touch the border.
    assert 30 < dataset.images.mean() < 36
    assert dataset.images[:, 0, 0].max() == 0
