"""The sources of labels, the numbering of classes, and the cropping of pictures."""

import json

import numpy as np
import pytest
from PIL import Image

import jaxrob
from jaxrob import data

RANDOM = np.random.default_rng(0)


@pytest.fixture
def folder(tmp_path):
    """Four pictures of three classes, in several sizes."""
    for name, shape in {
        "cat/1": (40, 60),
        "cat/2": (50, 33),
        "ant/1": (32, 32),
        "dog/1": (70, 45),
    }.items():
        path = tmp_path / "pictures" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = RANDOM.integers(0, 256, (*shape, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    return tmp_path / "pictures"


def load(folder, **settings):
    return data.image_folder(folder, resize=32, crop=24, **settings)


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
def test_pictures_are_resized_and_cropped_as_by_hand(folder, interpolation):
    found = load(folder, interpolation=interpolation)
    assert found.images.shape == (4, 24, 24, 3)
    # dog/1: 70 x 45 becomes 49 x 32, whose central 24 x 24 are kept.
    image = Image.open(folder / "dog" / "1.png")
    image = image.resize((32, 49), getattr(Image.Resampling, interpolation.upper()))
    np.testing.assert_array_equal(found.images[3], np.asarray(image)[12:36, 4:28])


def in_file(folder, name, text):
    path = folder.parent / name
    path.write_text(text)
    return path


NAMES = ["dog", "cat", "bee", "ant"]


@pytest.mark.parametrize(
    "given",
    [
        lambda folder: NAMES,
        lambda folder: in_file(folder, "names.txt", "dog\ncat\nbee\n\nant\n"),
        lambda folder: in_file(folder, "names.json", json.dumps(NAMES)),
        lambda folder: in_file(
            folder, "names.json", '{"ant": 3, "bee": 2, "cat": 1, "dog": 0}'
        ),
    ],
    ids=["sequence", "text", "list", "object"],
)
def test_classes_are_numbered_as_the_network_does(folder, given):
    found = load(folder, class_names=given(folder))
    assert found.class_names == tuple(NAMES)
    assert found.labels.tolist() == [3, 1, 1, 0]


def test_labels_from_a_file(folder):
    csv = in_file(folder, "labels.csv", "file,label\ndog/1.png,B\ncat/2.png,A\n")
    found = load(folder, labels=csv)
    assert found.class_names == ("A", "B") and found.labels.tolist() == [1, 0]
    np.testing.assert_array_equal(found.images, load(folder).images[[3, 2]])


def test_indices_from_a_file(folder):
    csv = in_file(folder, "labels.csv", "cat/1.png,12\n./cat/2.png,7\n")
    found = load(folder, labels=csv)
    assert found.class_names is None and found.labels.tolist() == [12, 7]


def test_pictures_without_labels(folder):
    found = load(folder, labels=None)
    assert found.labels is None and len(found) == 4


@pytest.mark.parametrize(
    "text, message",
    [
        ("x,y\ncat/9.png,A\n", "row 2: there is no picture 'cat/9.png'"),
        ("cat/1.png,A\n../cat/1.png,A\n", "row 2: there is no picture"),
        ("cat/1.png,A\ncat/1.png,B\n", "row 2: 'cat/1.png' stands there twice"),
        ("cat/1.png\n", "row 1: 'cat/1.png' has no label"),
        ("", "it names no picture"),
        ('cat/1.png,"A\n', "not a CSV file"),
        ("cat/1.png,Q\n", "its class 'Q' is none of the 4 class_names"),
    ],
)
def test_files_of_labels_that_are_wrong(folder, text, message):
    csv = in_file(folder, "labels.csv", text)
    with pytest.raises(ValueError, match=message):
        load(folder, labels=csv, class_names=NAMES)


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "not a JSON file"),
        ('{"ant": 1, "bee": 2}', "got other indices"),
        ('["ant", "ant"]', "'ant' stands there twice"),
        ("7", "expected a list of names"),
        ('["ant", "cat"]', "its class 'dog' is none of the 2 class_names"),
    ],
)
def test_files_of_names_that_are_wrong(folder, text, message):
    with pytest.raises(ValueError, match=message):
        load(folder, class_names=in_file(folder, "names.json", text))


def test_files_that_are_not_there(folder):
    with pytest.raises(
        FileNotFoundError, match="no.csv: expected a CSV file of labels"
    ):
        load(folder, labels="no.csv")
    with pytest.raises(FileNotFoundError, match="no.txt: expected a file of class nam"):
        load(folder, class_names="no.txt")


def test_a_file_that_is_not_a_picture(folder):
    (folder / "dog" / "2.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match="dog/2.png: not a readable picture"):
        load(folder)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"resize": 32}, "crop must be given with resize"),
        ({"resize": 32, "size": (9, 9)}, "resize must be None beside size"),
        ({"crop": 33}, r"ant/1.png: .*32x32 pixels are fewer than crop=\(33, 33\)"),
        ({"size": (9, 9), "interpolation": "best"}, "interpolation must be one of"),
    ],
)
def test_sizes_that_cannot_be(folder, settings, message):
    with pytest.raises(ValueError, match=message):
        data.image_folder(folder, **settings)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_files(tmp_path, save):
    images = RANDOM.integers(0, 256, (5, 4, 3), dtype=np.uint8)
    path = tmp_path / "digits.npz"
    save(path, x_test=images, y_test=np.arange(5)[:, None], images=images)
    found = data.npz(path, "x_test", "y_test", class_names=list("abcde"))
    np.testing.assert_array_equal(found.images, images[..., None])
    assert found.labels.tolist() == [0, 1, 2, 3, 4] and found.name == "digits"
    assert data.npz(path, labels=None).labels is None
    with pytest.raises(ValueError, match="no array 'labels'; it has images, x_test, y"):
        data.npz(path)


def test_npz_files_of_strangers(tmp_path):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, images=np.zeros((300, 1024, 1024, 1), np.uint8))
    with pytest.raises(ValueError, match="bomb.npz: .*may unpack to"):
        data.npz(path, labels=None)
    np.savez(path, images=np.array([print], object))
    with pytest.raises(ValueError, match="bomb.npz: not a readable npz"):
        data.npz(path, labels=None)


def test_photographs_are_assessed_without_labels(folder):
    weights = RANDOM.normal(size=(24 * 24 * 3, 3)).astype(np.float32)
    network = jaxrob.Classifier(lambda w, x: x.reshape(len(x), -1) @ w, weights)
    found = jaxrob.assess(
        network, load(folder, labels=None), jaxrob.alterations.brightness()
    )
    assert found.is_stability
