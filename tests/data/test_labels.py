"""Labels: their sources, class names, numbering, and the cropping of pictures."""

import json
import pathlib
import re
import shutil

import numpy as np
import pytest
from PIL import Image

import jaxrob
from jaxrob import Dataset, alterations, data
from jaxrob.data import _classes

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
        Image.fromarray(RANDOM.integers(0, 256, (*shape, 3), dtype=np.uint8)).save(path)
    return tmp_path / "pictures"


def load(folder, **settings):
    return data.image_folder(folder, resize=32, crop=24, **settings)


def test_pictures_are_resized_and_cropped_as_by_hand(folder):
    # dog/1: 70 x 45 becomes 49 x 32, whose central 24 x 24 are kept.
    image = Image.open(folder / "dog" / "1.png")
    for interpolation in ("bicubic", "bilinear"):
        found = load(folder, interpolation=interpolation)
        assert found.images.shape == (4, 24, 24, 3)
        resized = image.resize((32, 49), Image.Resampling[interpolation.upper()])
        np.testing.assert_array_equal(found.images[3], np.asarray(resized)[12:36, 4:28])


def in_file(folder, name, text):
    path = folder.parent / name
    path.write_text(text)
    return path


NAMES = ["dog", "cat", "bee", "ant"]


def test_classes_are_numbered_as_the_network_does(folder):
    indices = {"ant": 3, "bee": 2, "cat": 1, "dog": 0}
    for given in (
        NAMES,
        in_file(folder, "names.txt", "dog\ncat\nbee\n\nant\n"),
        in_file(folder, "list.json", json.dumps(NAMES)),
        in_file(folder, "indices.json", json.dumps(indices)),
    ):
        found = load(folder, class_names=given)
        assert found.class_names == tuple(NAMES)
        assert found.labels.tolist() == [3, 1, 1, 0]


def test_other_labels_than_folders(folder):
    csv = in_file(folder, "labels.csv", "file,label\ndog/1.png,B\ncat/2.png,A\n")
    found = load(folder, labels=csv)
    assert found.class_names == ("A", "B") and found.labels.tolist() == [1, 0]
    np.testing.assert_array_equal(found.images, load(folder).images[[3, 2]])

    spread = "file;label;age\ndog/1.png;B;40,5\ncat/2.png;A;7\n"
    for text in (spread, spread.replace(",", ".").replace(";", "\t")):
        table = in_file(folder, "labels.csv", text)
        found = load(folder, labels=table, metadata=["age"])
        assert found.labels.tolist() == [1, 0]
        assert found.metadata["age"].tolist() == ["40.5", "7"]
    apart = in_file(folder, "labels.csv", "dog/1.png,o\u0308l\ncat/2.png,A\n")
    found = load(folder, labels=apart, class_names=["A", "\xf6l"])
    assert found.labels.tolist() == [1, 0]
    for text in ("12,7", "12.0,7.0", "+12,07", "1.2e+01,7.000e0", "\ufeff12,7"):
        one, other = text.removeprefix("\ufeff").split(",")
        rows = f"{text[: text.index(one)]}cat/1.png,{one}\n./cat/2.png,{other}\n"
        found = load(folder, labels=in_file(folder, "labels.csv", rows))
        assert found.class_names is None and found.labels.tolist() == [12, 7]

    found = load(folder, labels=None)
    assert found.labels is None and len(found) == 4


def test_a_table_has_metadata_and_groups(folder):
    rows = "file,label,scanner,patient\ndog/1.png,B,x,p2\ncat/2.png,A,y,p1\n"
    table = in_file(folder, "labels.csv", rows)
    found = load(folder, labels=table, metadata=["scanner"], groups="patient")
    assert found.metadata["scanner"].tolist() == ["x", "y"]
    assert found.groups == "patient"
    # The label itself is no metadata.
    for more in ({"metadata": ["label"]}, {"metadata": ["site"]}, {"groups": "site"}):
        with pytest.raises(ValueError, match="metadata"):
            load(folder, labels=table, **more)
    bare = in_file(folder, "bare.csv", "dog/1.png,B,p2\ncat/2.png,A,p1\n")
    empty = in_file(folder, "empty.csv", rows.replace("p1", ""))
    twice = in_file(folder, "twice.csv", rows.replace("label", "patient"))
    for labels in (bare, empty, twice, "folders"):
        with pytest.raises(ValueError, match="metadata"):
            load(folder, labels=labels, metadata=["scanner"], groups="patient")


@pytest.mark.parametrize(
    "text, message",
    [
        ("file,y\ncat/9.png,A\n", "row 2: there is no picture 'cat/9.png'"),
        ("cat/1.png,A\n../cat/1.png,A\n", "row 2: there is no picture"),
        ("cat/1.png,A\ncat/1.png,B\n", "row 2: 'cat/1.png' stands there twice"),
        ("cat/1.png\n", "row 1: 'cat/1.png' has no label"),
        ("cat/1.png,0\n\ncat/2.png,-1\n", "row 3: '-1' is no class"),
        ("cat/1.png,0\ncat/2.png,0.5\n", "row 2: '0.5' is no class"),
        ("cat/1.png,4\ncat/2.png,1\n", "count from 1"),
        ("dicom9,0\ncat/1.png,0\n", "row 1: there is no picture"),
        ("", "it names no picture"),
        ('cat/1.png,"A\n', "not a CSV file"),
        ("cat/1.png,Q\n", "its class 'Q' is none of the class_names"),
    ],
)
def test_files_of_labels_that_are_wrong(folder, text, message):
    csv = in_file(folder, "labels.csv", text)
    with pytest.raises(ValueError, match=message):
        load(folder, labels=csv, class_names=NAMES)


def test_what_is_guessed_of_a_file_of_labels_is_said(folder):
    for one, other in (("0", "unknown"), ("cat", "#N/A"), ("cat", "--")):
        csv = in_file(folder, "labels.csv", f"cat/1.png,{one}\ncat/2.png,{other}\n")
        with pytest.raises(ValueError, match=f"row 2: '{other}'"):
            load(folder, labels=csv)
    alike = ("cat", "cat\u200b"), ("caf\xe9", "cafe\u0301"), ("a b", "a\xa0b")
    alike += (("cat", "Cat"),)
    for number, (one, other) in enumerate(alike):
        root = folder / f"of {number}"
        for name in (one, other):
            (root / name).mkdir(parents=True)
            shutil.copy(folder / "cat" / "1.png", root / name)
        with pytest.raises(ValueError, match="look the same"):
            load(root)
        shutil.rmtree(root)
        csv = in_file(folder, "labels.csv", f"cat/1.png,{one}\ncat/2.png,{other}\n")
        with pytest.raises(ValueError, match="look the same"):
            load(folder, labels=csv)
        found = load(folder, labels=csv, class_names=[other, one])
        assert found.labels.tolist() == [1, 0]
    for text in ("who,what\ncat/1.png,A\n", "file,site,y\ncat/1.png,A,0\n"):
        with pytest.warns(jaxrob.RobustnessWarning, match="what|'site'"):
            load(folder, labels=in_file(folder, "labels.csv", text))


def test_folders_that_are_numbers_need_their_order(folder):
    order = [*map(str, range(11)), "unknown"]
    for name in order:
        shutil.copytree(folder / "ant", folder.parent / "numbers" / name)
    with pytest.raises(ValueError) as caught:
        load(folder.parent / "numbers")
    for names in (order, sorted(order)):
        assert f"class_names={names}" in str(caught.value)
        found = load(folder.parent / "numbers", class_names=names)
        assert found.labels[sorted(order).index("10")] == names.index("10")
    for some in map(str.split, ("-1 0", "b_0 a_1", "c_9a C10", "\uff12 \uff11\uff10")):
        for name in some:
            shutil.copytree(folder / "ant", folder.parent / some[0] / name)
        with pytest.raises(ValueError, match="class_names"):
            load(folder.parent / some[0])


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "not a JSON file"),
        ('{"ant": 1, "bee": 2}', "from 0"),
        ('["ant", "ant"]', "'ant' stands there twice"),
        ("7", "expected a list of names"),
        ('["ant", "cat"]', "its class 'dog' is none of the class_names"),
    ],
)
def test_files_of_names_that_are_wrong(folder, text, message):
    with pytest.raises(ValueError, match=message):
        load(folder, class_names=in_file(folder, "names.json", text))


def test_files_that_are_not_there(folder):
    with pytest.raises(FileNotFoundError, match="no.csv: expected a CSV"):
        load(folder, labels="no.csv")
    with pytest.raises(FileNotFoundError, match="no.txt: expected a file of class"):
        load(folder, class_names="no.txt")


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


def test_npz_files(tmp_path):
    images = RANDOM.integers(0, 256, (5, 4, 3), dtype=np.uint8)
    path = tmp_path / "digits.npz"
    np.savez_compressed(
        path, x_test=images, y_test=np.arange(5)[:, None], images=images
    )
    found = data.npz(path, "x_test", "y_test", class_names=list("abcde"))
    np.testing.assert_array_equal(found.images, images[..., None])
    assert found.labels.tolist() == [0, 1, 2, 3, 4] and found.name == "digits"
    assert data.npz(path, labels=None).labels is None
    with pytest.raises(ValueError, match="no array 'labels'; it has images, x_test, y"):
        data.npz(path)
    np.savez(path, images=np.array([print], object))
    with pytest.raises(ValueError, match="digits.npz: not a readable npz"):
        data.npz(path, labels=None)


FORMS = "[{}]", "{},0", "{}\0", "{}L", "{}/12", "class {}", "{:#x}"


@pytest.mark.parametrize(
    "texts",
    [
        *([form.format(number) for number in (10, 2, 1)] for form in FORMS),
        [f"tf.Tensor({number}, shape=(), dtype=int64)" for number in (10, 2, 1)],
        *(["[1, 0, 0]", "[0, 1, 0]"], ["1. 0.", "0. 1."], ["[True, False]", "0 1"]),
    ],
    ids=str,
)
def test_integers_in_another_form_are_no_names(texts):
    with pytest.raises(ValueError, match="class_names"):
        _classes.numbered(texts, None, pathlib.Path("labels.csv"), texts)


@pytest.mark.parametrize("texts", [("2.0", "10.0"), ("02", "10"), ("2", "0")])
def test_a_number_is_not_taken_for_an_index_where_names_are_numbers(texts):
    path, names = pathlib.Path("labels.csv"), ("1", "10", "2")
    for same in names, ("\uff11", "\uff11\uff10", "\uff12"):  # In full width.
        with pytest.raises(ValueError, match="class_names"):
            _classes.numbered(texts, same, path, texts)
    for texts, labels in ((["2", "1"], [2, 0]), (["0", "0"], [0, 0])):
        assert [*_classes.numbered(texts, names, path, texts)[0]] == labels


IMAGES = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 1), dtype=np.uint8)
PETS = ("owl", "cat", "dog")
TEXTS = ["dog", "owl", "cat", "cat", "dog"]
NUMBERS = [2, 0, 1, 1, 2]


class Source(list):
    classes = ["cat", "dog", "owl"]


def pairs(labels):
    return list(zip(IMAGES, labels))


@pytest.mark.parametrize("labels", [TEXTS, np.array(TEXTS), np.array(TEXTS, object)])
def test_names_become_their_numbers(labels):
    for given in (
        Dataset(IMAGES, labels, PETS),
        Dataset.from_items(pairs(labels), PETS),
        next(Dataset.from_items(pairs(labels), PETS, max_bytes=0).batches()),
        next(Dataset.from_batches([(IMAGES, labels)], PETS).batches()),
    ):
        np.testing.assert_array_equal(given.labels, NUMBERS)
        assert given.labels.dtype == np.int32 and given.class_names == PETS


def test_names_that_the_source_carries():
    found = Dataset.from_items(Source(pairs(TEXTS)))
    np.testing.assert_array_equal(found.labels, [1, 2, 0, 0, 1])
    # Letters taken apart, as some file systems do.
    assert Dataset(IMAGES[:1], ["o\u0308l"], ["A", "\xf6l"]).labels.tolist() == [1]


@pytest.mark.parametrize(
    ("labels", "names", "error", "message"),
    [
        (["cat"], None, TypeError, "or the name of a class where class_names= is"),
        (["Cat"], PETS, ValueError, "did you mean 'cat'?"),
        (["cow!"], PETS, ValueError, "(owl, cat, dog); got 'cow!'"),
        (["cat"], [*PETS, "cat"], ValueError, "stands several times in class_names"),
        ([b"cat"], PETS, TypeError, "integer"),
    ],
)
def test_names_that_are_refused(labels, names, error, message):
    images = IMAGES[:1]
    for where, make in (
        ("", lambda: Dataset(images, labels, names)),
        ("", lambda: Dataset.from_items(list(zip(images, labels)), names)),
        (
            "batch 0 of dataset: labels",
            lambda: list(Dataset.from_batches([(images, labels)], names).batches()),
        ),
    ):
        with pytest.raises(error, match=f"{where}.*{re.escape(message)}"):
            make()


@pytest.mark.parametrize("labels", [[2, "2"], ["2", 2]])
def test_names_among_integers_are_refused(labels):
    """Where names are numbers, 2 is the third and "2" may be another."""
    names, batches = ("0", "10", "2"), [(IMAGES[:1], [one]) for one in labels]
    for make in (
        lambda: Dataset(IMAGES[:2], np.array(labels, object), names),
        lambda: Dataset.from_items(pairs(labels), names),
        lambda: list(Dataset.from_batches(batches, names).batches()),
    ):
        with pytest.raises((TypeError, ValueError), match="labels"):
            make()


def test_another_order_than_the_source_s_own():
    """Its numbers would mean other classes."""
    pets, ages = Source(pairs([0, 1, 2])), Source(pairs([0, 1]))
    ages.classes = ["<50", ">50"]  # Their signs alone tell them apart.
    for make in (Dataset.from_items, Dataset.from_batches):
        with pytest.raises(ValueError, match=r"class 0 of Source .* is 'cat', and 'ow"):
            make(pets, PETS)
        for source, names in (pets, map(str.title, PETS)), (ages, ["> 50", "< 50"]):
            with pytest.raises(ValueError, match="class_names"):
                make(source, [*names])
        assert make(Source(pairs([0])), ["Kat", "Hund", "Uhu"]).class_names[0] == "Kat"


def test_the_way_out_of_another_order_than_the_network_s():
    classifier = jaxrob.Classifier(lambda _, x: x[:, :3, 0, 0], class_names=PETS)
    blur = alterations.gaussian_blur(0.0, 1.0)
    sorted_names = Dataset.from_items(Source(pairs([1, 2, 0, 0, 1])))
    with pytest.raises(ValueError, match="numbered by class_names=classifier.class_na"):
        jaxrob.evaluate(classifier, sorted_names, blur, [0.0])
