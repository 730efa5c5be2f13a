"""The data sets with a name: CIFAR-10, MNIST, digits, IDC patches, IDX files."""

import gzip
import pickle
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image
from sklearn.datasets import load_digits

from jaxrob.data import NAMES, cifar10, digits, idc_patches, load, mnist
from jaxrob.data._named import read_idx

from .files import Trap, encoded, write_folder, write_tar

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
    # Digits are bright on a dark ground.
    assert 30 < dataset.images.mean() < 36


CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def encode(array):
    """Encodes IDX by its definition: zeros, type, rank, big-endian sizes and values."""
    code = CODES[array.dtype.str[1:]]
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("idx") / "file"


def test_hand_written_bytes(scratch):
    scratch.write_bytes(bytes.fromhex("00000b02 00000002 00000003") + bytes(range(12)))
    array = read_idx(scratch)
    assert array.dtype == np.int16
    assert array.dtype.isnative
    expected = [[0x0001, 0x0203, 0x0405], [0x0607, 0x0809, 0x0A0B]]
    np.testing.assert_array_equal(array, expected)
    array[0, 0] = 7  # the result is writable


@settings(max_examples=30, deadline=None)
@given(
    array=st.sampled_from(sorted(CODES)).flatmap(
        lambda code: hnp.arrays(
            np.dtype(code), hnp.array_shapes(max_dims=5, min_side=0, max_side=5)
        )
    ),
    compress=st.booleans(),
)
def test_round_trip(scratch, array, compress):
    data = encode(array)
    scratch.write_bytes(gzip.compress(data) if compress else data)
    read = read_idx(str(scratch))
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize("compress", [False, True])
def test_every_truncation_and_a_byte_more(scratch, compress):
    data = encode(np.arange(12, dtype=np.int32).reshape(3, 2, 2))
    for length in range(len(data)):
        cut = data[:length]
        scratch.write_bytes(gzip.compress(cut) if compress else cut)
        with pytest.raises(ValueError, match=str(scratch)):
            read_idx(scratch)
    stream = data if not compress else gzip.compress(data)
    for length in range(len(stream)):
        scratch.write_bytes(stream[:length])
        with pytest.raises(ValueError, match=str(scratch)):
            read_idx(scratch)
    data += b"\0"
    scratch.write_bytes(gzip.compress(data) if compress else data)
    with pytest.raises(ValueError, match="bytes"):
        read_idx(scratch)


@pytest.mark.parametrize("magic", ["00010801", "00000a01", "00000800", "00000841"])
def test_wrong_magic(scratch, magic):
    scratch.write_bytes(bytes.fromhex(magic) + struct.pack(">I", 1) + b"x")
    with pytest.raises(ValueError, match=r"IDX|shape"):
        read_idx(scratch)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("shape", [(60000, 28, 28), (0, *[2**32 - 1] * 3)])
def test_lying_header_allocates_nothing(scratch, compress, shape):
    data = struct.pack(f">BBBB{len(shape)}I", 0, 0, 0x0E, len(shape), *shape) + b"abc"
    scratch.write_bytes(gzip.compress(data) if compress else data)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="shape"):
            read_idx(scratch)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_the_splits_partition_the_originals():
    original = load_digits()
    test, train = digits("test", size=8), digits("train", size=8)
    assert test.images.shape == (500, 8, 8, 1)
    assert train.images.shape == (1297, 8, 8, 1)
    ours = np.concatenate([test.images, train.images])[..., 0]
    labels = np.concatenate([test.labels, train.labels])

    def rows(images, labels):
        values = np.round(images.reshape(1797, 64) * (16 / images.max())).astype(int)
        return sorted(map(tuple, np.column_stack([values, labels])))

    assert rows(ours.astype(float), labels) == rows(original.images, original.target)


def test_stratified_and_the_same_every_time():
    total = np.bincount(load_digits().target)
    dataset = digits("test", size=8)
    assert list(dataset.labels[:10]) == [1, 2, 4, 5, 6, 9, 4, 7, 8, 9]
    assert np.abs(np.bincount(dataset.labels) - total * 500 / 1797).max() < 1


def test_enlarged():
    dataset = digits()
    assert dataset.images.shape == (500, 28, 28, 1)
    assert dataset.images.dtype == np.uint8
    assert dataset.class_names == tuple("0123456789")
    small = digits("test", size=8).images.astype(float)
    # Enlarging keeps the overall brightness.
    np.testing.assert_allclose(dataset.images.mean(), small.mean(), rtol=0.03)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="split"):
        digits("validation")
    for wrong in (0, 1025):
        with pytest.raises(ValueError, match="size"):
            digits(size=wrong)


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


def test_of_another_size(tmp_path):
    write(tmp_path, "a_class0.png", shape=(50, 49, 3))
    with pytest.raises(ValueError, match="50, 49, 3"):
        idc_patches(tmp_path)


def test_nothing_there(tmp_path):
    with pytest.raises(ValueError, match="no picture"):
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


@pytest.fixture
def root(tmp_path):
    for folder in ("mnist", "cifar10", "idc/images"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "mnist" / IMAGES).write_bytes(images_file(1))
    (tmp_path / "mnist" / LABELS).write_bytes(labels_file([5]))
    (tmp_path / "cifar10" / "test_batch.bin").write_bytes(bytes([5]) + bytes(3072))
    write(tmp_path / "idc" / "images", "a_class1.png")
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


def test_wrong_names_and_splits(root):
    with pytest.raises(ValueError, match="name must be one of .*'imagenet'"):
        load("imagenet", data_dir=root)
    with pytest.raises(ValueError, match="split must be one of"):
        load("digits", "all")
    with pytest.raises(ValueError, match="split must be 'test' for 'idc'"):
        load("idc", "train", root)
