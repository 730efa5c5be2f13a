import pathlib
import pickle

import numpy as np
import pytest

from jaxrob.data import cifar10

from .files import encoded, write_folder, write_tar

CLASSES = "airplane automobile bird cat deer dog frog horse ship truck".split()
RECORD = 3073


def batch(labels, seed=0):
    """Returns records by the official description, and their images."""
    images = np.random.default_rng(seed).integers(
        0, 256, (len(labels), 32, 32, 3), dtype=np.uint8
    )
    data = b""
    for label, image in zip(labels, images, strict=True):
        data += bytes([label])
        for channel in range(3):  # all red, then all green, then all blue
            data += image[:, :, channel].tobytes()
    return data, images


def write_train(folder):
    folder.mkdir(exist_ok=True)
    images = []
    for number in range(1, 6):
        data, pixels = batch([number, number - 1], seed=number)
        (folder / f"data_batch_{number}.bin").write_bytes(data)
        images.append(pixels)
    return np.concatenate(images)


def test_one_record_by_hand(tmp_path):
    data = bytes([6]) + bytes([255] * 1024) + bytes([10] * 1024) + bytes(range(256)) * 4
    (tmp_path / "test_batch.bin").write_bytes(data)
    # Is not read where there are batches.
    (tmp_path / "data_batch_1").write_bytes(b"\x80\x02.")
    dataset = cifar10(tmp_path, "test")
    assert list(dataset.labels) == [6]
    assert dataset.class_names == tuple(CLASSES)
    assert dataset.class_names[6] == "frog"
    assert dataset.images.shape == (1, 32, 32, 3)
    np.testing.assert_array_equal(dataset.images[0, 2, 5], [255, 10, 69])


@pytest.mark.parametrize("folder", [".", "cifar-10-batches-bin"])
def test_train_batches_in_order(tmp_path, folder):
    images = write_train(tmp_path / folder)
    dataset = cifar10(tmp_path, "train")
    np.testing.assert_array_equal(dataset.images, images)
    assert list(dataset.labels) == [1, 0, 2, 1, 3, 2, 4, 3, 5, 4]


def test_archive_of_batches(tmp_path):
    data, images = batch([3, 9, 0])
    write_tar(
        tmp_path / "cifar-10-binary.tar.gz",
        {
            "cifar-10-batches-bin/readme.html": b"<p>",
            "cifar-10-batches-bin/test_batch.bin": data,
        },
    )
    dataset = cifar10(tmp_path, "test")
    np.testing.assert_array_equal(dataset.images, images)
    assert list(dataset.labels) == [3, 9, 0]
    with pytest.raises(ValueError, match="data_batch_1.bin .* data_batch_5.bin in it"):
        cifar10(tmp_path, "train")


@pytest.mark.parametrize("length", [0, RECORD - 1, 2 * RECORD + 1])
def test_length_is_not_a_multiple_of_a_record(tmp_path, length):
    (tmp_path / "test_batch.bin").write_bytes(bytes(length))
    with pytest.raises(ValueError, match=f"test_batch.bin: {length} bytes"):
        cifar10(tmp_path)


def test_label_out_of_range(tmp_path):
    (tmp_path / "test_batch.bin").write_bytes(batch([1, 10])[0])
    with pytest.raises(ValueError, match="label 10 in record 1, above 9"):
        cifar10(tmp_path)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="cifar-10-binary.tar.gz"):
        cifar10(tmp_path)
    with pytest.raises(ValueError, match="split"):
        cifar10(tmp_path, "all")
    write_train(tmp_path)
    (tmp_path / "data_batch_4.bin").unlink()
    with pytest.raises(FileNotFoundError, match="data_batch_4.bin"):
        cifar10(tmp_path, "train")


class Trap:
    """An object that leaves a trace when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path(self.path),)


@pytest.mark.parametrize(
    "name",
    ["cifar-10-python.tar.gz", "cifar-10-batches-py/test_batch", "test_batch.bin"],
)
def test_pickles_are_refused(tmp_path, name):
    trace = tmp_path / "trace"
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pickle.dumps(Trap(trace)))
    with pytest.raises(ValueError, match="never loaded.*cifar-10-binary.tar.gz"):
        cifar10(tmp_path, "test")
    assert not trace.exists()
    pickle.loads(path.read_bytes())
    assert trace.exists()  # the trap does work


@pytest.mark.parametrize("packed", [True, False])
def test_folders_of_images(tmp_path, packed):
    pixels = batch(range(10))[1]
    members = {
        f"test/{name}/0000.png": encoded(image)
        for name, image in zip(CLASSES, pixels, strict=True)
    }
    if packed:
        write_tar(tmp_path / "test.tar.gz", members)
    else:
        write_folder(tmp_path, members)
    dataset = cifar10(tmp_path, "test")
    np.testing.assert_array_equal(dataset.images, pixels)
    assert list(dataset.labels) == list(range(10))


def test_folders_of_other_classes_or_sizes(tmp_path):
    write_tar(tmp_path / "test.tar.gz", {"cat/1.png": encoded(batch([0])[1][0])})
    with pytest.raises(ValueError, match="class folders"):
        cifar10(tmp_path)
    small = encoded(np.zeros((16, 32, 3), np.uint8))
    write_tar(tmp_path / "test.tar.gz", {f"{name}/1.png": small for name in CLASSES})
    with pytest.raises(ValueError, match=r"\(16, 32, 3\)"):
        cifar10(tmp_path)
