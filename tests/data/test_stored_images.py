"""Pictures that are read when they are needed: as if they were in memory."""

import os
import tarfile
import threading
import time
import warnings

import jax
import numpy as np
import pytest
from PIL import Image

import jaxrob
from jaxrob import Classifier, Dataset, RobustnessWarning, alterations
from jaxrob._dataset import given_images
from jaxrob._stored_images import StoredImages
from jaxrob.data import image_folder, tar_shards

from .files import encoded, write_folder, write_tar

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (60, 6, 6, 3), dtype=np.uint8)
FILES = {f"{i // 20}/{i:02}.png": encoded(one) for i, one in enumerate(PIXELS)}
# Less than all pictures take.
FEW = PIXELS[0].size * 10
WEIGHTS = jax.random.normal(jax.random.key(0), (PIXELS[0].size, 3))
BRIGHTNESS = alterations.brightness(-0.5, 0.5)


def linear(weights, images):
    return (images - 0.5).reshape(len(images), -1) @ weights


CLASSIFIER = Classifier(linear, WEIGHTS)


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "pictures", FILES)


def answers(dataset, **options):
    found = jaxrob.evaluate(CLASSIFIER, dataset, BRIGHTNESS, [-0.5, 0], **options)
    return found.predicted


def pixels_of(dataset):
    images = dataset.images
    return images if isinstance(images, np.ndarray) else next(images.read([slice(60)]))


@pytest.fixture(scope="module")
def expected():
    return answers(Dataset(PIXELS, np.repeat([0, 1, 2], 20)))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "batch_size"), [("folder", 7), ("tar", None)])
def test_answers_are_those_of_pictures_in_memory(
    folder, tmp_path, kind, batch_size, expected
):
    if kind == "tar":
        folder = write_tar(tmp_path / "pictures.tar", FILES, "w")
    dataset = image_folder(folder, max_bytes=FEW)
    assert isinstance(dataset.images, StoredImages)
    np.testing.assert_array_equal(answers(dataset, batch_size=batch_size), expected)
    packed = write_tar(tmp_path / "pictures.tar.gz", FILES)
    with pytest.raises(ValueError, match="uncompress it to a .tar"):
        image_folder(packed, max_bytes=PIXELS.size - 1)


def test_parts_and_single_pictures(folder):
    dataset = image_folder(folder, max_bytes=FEW)
    chosen = np.array([40, 3, 3, 11])
    np.testing.assert_array_equal(dataset[::7].images[2], PIXELS[14])
    np.testing.assert_array_equal(dataset[chosen].images, PIXELS[chosen])
    np.testing.assert_array_equal(dataset[chosen].labels, chosen // 20)
    is_first = np.arange(60) < 5
    np.testing.assert_array_equal(dataset.images[is_first], PIXELS[:5])
    with pytest.raises(ValueError, match="larger max_bytes"):
        np.asarray(dataset.images)
    with pytest.raises(IndexError, match="a slice, an integer, or one array"):
        dataset.images[..., 0]
    with pytest.raises(ValueError, match="empty"):
        dataset[:0]


def test_few_images_read_few_files(folder, opened):
    dataset = image_folder(folder, max_bytes=FEW)
    np.asarray(dataset[::20].images)
    # Beside the first, whose size all must have.
    assert {path.name for path in opened} == {"00.png", "20.png", "40.png"}
    # A provenance reads the others once, and decodes none.
    opened.clear()
    jaxrob.provenance(CLASSIFIER, dataset)
    assert len(opened) <= 60


def test_calls_that_need_arrays(folder):
    dataset = image_folder(folder, max_bytes=FEW, labels=None)
    few = given_images(dataset[::30], None, may_lack_labels=True)
    np.testing.assert_array_equal(few.images, PIXELS[::30])
    with pytest.raises(ValueError, match="larger max_bytes"):
        jaxrob.roma.assess(CLASSIFIER, dataset, epsilon=0.1, key=jax.random.key(0))


def test_the_fingerprint_follows_names_bytes_and_preparation(folder, tmp_path):
    def fingerprint(path=folder, **options):
        options = {"max_bytes": FEW, "resize": 6, "crop": 6, **options}
        found = jaxrob.provenance(CLASSIFIER, image_folder(path, **options))
        return found["dataset"]["fingerprint"]

    first = fingerprint()
    assert first == fingerprint()
    elsewhere = write_folder(tmp_path / "elsewhere", FILES)
    assert first == fingerprint(elsewhere)
    others = {fingerprint(interpolation="bilinear"), fingerprint(orientation="stored")}
    (folder / "0/00.png").rename(folder / "0/0.png")
    others.add(fingerprint())
    # The same pixels in other bytes.
    (elsewhere / "1/30.png").write_bytes(encoded(PIXELS[30], compress_level=0))
    others.add(fingerprint(elsewhere))
    assert len(others) == 4 and first not in others


def test_a_file_that_changes_between_rounds_is_named(folder):
    dataset = image_folder(folder, max_bytes=FEW)
    answers(dataset)
    (folder / "1/33.png").write_bytes(FILES["1/34.png"])
    for use in (answers, lambda some: some.images[33]):
        with pytest.raises(ValueError, match="1/33.png: the file has changed"):
            use(dataset)
    (folder / "1/33.png").unlink()
    with pytest.raises(ValueError, match="1/33.png: not a regular file"):
        answers(dataset)


def test_an_error_in_a_thread_names_the_file_and_ends_the_threads(folder):
    dataset = image_folder(folder, max_bytes=FEW)
    name = list(FILES)[31]
    (folder / name).write_bytes(FILES[name][:50])
    with pytest.raises(ValueError, match=f"{name}: not a readable"):
        answers(dataset, batch_size=7)
    assert not [one for one in threading.enumerate() if "jaxrob" in one.name]


def test_an_early_end_stops_reading(folder):
    images = image_folder(folder, max_bytes=FEW).images
    decoded, decode = [], images.store.decode

    def slow(index, data):
        time.sleep(0.02)
        decoded.append(index)
        return decode(index, data)

    object.__setattr__(images.store, "decode", slow)
    stopped = threading.Event()
    parts = images.read([slice(0, 1), slice(1, 60)], stopped)
    next(parts)
    stopped.set()
    assert not list(parts)
    assert not [one for one in threading.enumerate() if "jaxrob" in one.name]


def test_the_order_does_not_depend_on_the_threads(folder, monkeypatch):
    monkeypatch.setattr("jaxrob._stored_images._num_threads", lambda: 5)
    monkeypatch.setattr("jaxrob._stored_images._BYTES_AT_ONCE", 300)
    images = image_folder(folder, max_bytes=FEW).images
    decode = images.store.decode

    def uneven(index, data):
        time.sleep(0.003 * (index % 3))
        return decode(index, data)

    object.__setattr__(images.store, "decode", uneven)
    order = np.random.default_rng(1).permutation(60)
    parts = [order[:11], order[11:11], order[11:12], order[12:]]
    for part, found in zip(parts, images.read(parts), strict=True):
        np.testing.assert_array_equal(found, PIXELS[part])


def test_odd_pictures_are_counted_when_the_run_ends(tmp_path):
    turned = Image.fromarray(PIXELS[0])
    exif = Image.Exif()
    exif[0x112] = 3
    files = FILES | {"2/59.png": encoded(turned, exif=exif)}
    dataset = image_folder(write_folder(tmp_path, files), max_bytes=FEW)
    with pytest.warns(RobustnessWarning, match="1 of 60 .* turned .* 2/59.png"):
        result = jaxrob.assess(CLASSIFIER, dataset, BRIGHTNESS, threshold=0.2)
    assert any("2/59.png" in one for one in result.warnings)


@pytest.mark.parametrize("limit", [FEW, 2**20])
def test_unreadable_pictures_are_left_out_as_asked(tmp_path, limit):
    bad = {
        "0/03.png": b"",
        "1/20.png": b"hello",
        "1/25.jpg": FILES["1/25.png"],  # A PNG by its contents.
        "2/59.png": FILES["2/59.png"][:-20],
    }
    folder = write_folder(tmp_path, FILES | bad | {"0/.DS_Store": b"x"})
    with pytest.raises(ValueError, match="0/03.png: not a readable"):
        pixels_of(image_folder(folder, max_bytes=limit))
    with pytest.warns(RobustnessWarning, match="3 of 61 .* 0/03.png, 1/20.png, 2/59"):
        dataset = image_folder(folder, max_bytes=limit, unreadable="leave_out")
    kept = [*range(3), *range(4, 20), *range(21, 26), 25, *range(26, 59)]
    np.testing.assert_array_equal(dataset.labels, np.array(kept) // 20)
    np.testing.assert_array_equal(pixels_of(dataset), PIXELS[kept])
    reading = jaxrob.provenance(CLASSIFIER, dataset[::2])["dataset"]["reading"]
    names = ["0/03.png", "1/20.png", "2/59.png"]
    assert reading == {
        "skipped_files": 1,
        "skipped_names": ["0/.DS_Store"],
        "left_out": {"number": 3, "of": 61, "names": names},
    }


def test_a_class_without_a_readable_picture_is_named(tmp_path):
    folder = write_folder(tmp_path / "some", {"a/1.png": FILES["0/00.png"]})
    write_folder(folder, {"b/1.png": b"", "b/2.png": b""})
    with pytest.warns(RobustnessWarning, match="No picture is left of b"):
        dataset = image_folder(folder, unreadable="leave_out")
    assert dataset.class_names == ("a", "b") and len(dataset) == 1
    write_folder(folder, {"a/1.png": b""})
    with pytest.raises(ValueError, match="a/1.png: not a readable|none of its 3"):
        image_folder(folder, unreadable="leave_out", size=(3, 3))
    # A mistake of the call, and not left out.
    files = {"a/1.png": FILES["0/00.png"], "b/1.png": encoded(PIXELS[0, 1:])}
    write_folder(folder, files)
    with pytest.raises(ValueError, match="b/1.png: 5x6 pixels"):
        image_folder(folder, unreadable="leave_out")


def test_system_files_are_skipped_and_counted(tmp_path):
    junk = ["0/Thumbs.db", "1/._20.png", ".git/x", "__MACOSX/0/._00.png", "desktop.ini"]
    folder = write_folder(tmp_path / "folder", FILES | dict.fromkeys(junk, b"x"))
    found = image_folder(folder)
    assert len(found) == 60 and found._reading["skipped_files"] == 5
    # Folders by their name, without what is in them.
    assert found._reading["skipped_names"] == [
        *(".git", "__MACOSX", "desktop.ini", "0/Thumbs.db", "1/._20.png")
    ]
    # A class folder of its own name only.
    write_folder(folder, {"empty/.DS_Store": b"x"})
    with pytest.raises(ValueError, match="empty: class folder without an image"):
        image_folder(folder)


def test_arguments_of_reading_are_checked(tmp_path):
    with pytest.raises(ValueError, match=r"unreadable must be one of .*'skip'"):
        image_folder(tmp_path, unreadable="skip")
    with pytest.raises(TypeError, match="dct_scaling must be True or False"):
        image_folder(tmp_path, dct_scaling=1)
    with pytest.raises(ValueError, match="dct_scaling"):
        image_folder(tmp_path, dct_scaling=True, crop=3)


def photograph(height, width, mode="RGB"):
    y, x = np.mgrid[:height, :width]
    waves = [128 + 100 * np.sin(x / 31 + y / 47 + k) for k in range(3)]
    return Image.fromarray(np.uint8(np.dstack(waves))).convert(mode)


@pytest.mark.parametrize(
    ("mode", "orientation", "size"),
    [
        ("RGB", 1, (403, 301)),
        ("L", 6, (160, 641)),
        ("CMYK", 3, (160, 641)),
        ("RGB", 6, (20, 31)),
    ],
)
def test_dct_scaling_shows_the_same_picture(tmp_path, mode, orientation, size):
    exif = Image.Exif()
    exif[0x112] = orientation
    data = encoded(photograph(*size, mode), "JPEG", quality=95, exif=exif)
    folder = write_folder(tmp_path, {"a/1.jpg": data})
    options = {"resize": 33, "crop": (33, 33)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RobustnessWarning)
        whole = image_folder(folder, **options).images.astype(int)
        scaled = image_folder(folder, **options, dct_scaling=True).images.astype(int)
        small = image_folder(folder, size=(17, 40), dct_scaling=True).images
    assert scaled.shape == whole.shape and small.shape == (1, 17, 40, 3)
    # Means of blocks, not Pillow's weights: alike in a smooth picture, shifted nowhere.
    assert np.abs(scaled - whole).mean() < 2 and np.abs(scaled - whole).max() < 24
    if min(size) < 2 * 33:
        np.testing.assert_array_equal(scaled, whole)
    else:
        assert (scaled != whole).any()


def test_dct_scaling_leaves_png_whole_and_is_said(tmp_path):
    folder = write_folder(tmp_path, {"a/1.png": encoded(photograph(100, 120))})
    options = {"resize": 20, "crop": 20}
    dataset = image_folder(folder, **options, dct_scaling=True)
    again = image_folder(folder, **options)
    np.testing.assert_array_equal(dataset.images, again.images)
    assert "DCT scaling" in dataset._reading["decoding"]


def shard(path, start, stop):
    files = {}
    for i in range(start, stop):
        files[f"./x/{i:02}.png"] = FILES[f"{i // 20}/{i:02}.png"]
        files[f"./x/{i:02}.json"] = b'{"label": %d, "name": "n%d"}' % (i // 20, i // 20)
        files[f"./x/{i:02}.seg.png"] = b"another field"
        files[f"./x/{i:02}.cls"] = b"%d\n" % (i // 20)
    files["./._x"] = files["./Thumbs.db"] = b"of a system"
    return write_tar(path, files, "w")


@pytest.fixture
def shards(tmp_path):
    (tmp_path / "shards").mkdir()
    for number, start in enumerate(range(0, 60, 15)):
        shard(tmp_path / "shards" / f"s-{number:02}.tar", start, start + 15)
    return tmp_path / "shards"


def test_shards(shards, expected):
    for given, limit in (
        (shards, FEW),
        (os.fspath(shards / "s-{00..03}.tar"), 2**20),
        ([shards / f"s-{number:02}.tar" for number in range(4)], FEW),
    ):
        dataset = tar_shards(given, max_bytes=limit)
        assert isinstance(dataset.images, StoredImages) == (limit == FEW)
        np.testing.assert_array_equal(pixels_of(dataset), PIXELS)
        np.testing.assert_array_equal(dataset.labels, np.arange(60) // 20)
        assert dataset._reading["skipped_files"] == 8
        names = ["s-00.tar/._x", "s-00.tar/Thumbs.db"]
        assert dataset._reading["skipped_names"][:2] == names
    np.testing.assert_array_equal(answers(dataset), expected)


def test_labels_of_shards(shards):
    labels = np.arange(60) // 20
    np.testing.assert_array_equal(tar_shards(shards, labels="json").labels, labels)
    named = tar_shards(shards, labels="json:name", class_names=["n2", "n1", "n0"])
    np.testing.assert_array_equal(named.labels, 2 - labels)
    assert tar_shards(shards, labels=None).labels is None
    for wrong in ("json:none", "json:", "txt", "folders"):
        with pytest.raises(ValueError, match=r"00.json: expected an obj|labels must"):
            tar_shards(shards, labels=wrong)


def test_shards_that_are_none(shards, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"s-04.tar: expected"):
        tar_shards(os.fspath(shards / "s-{00..04}.tar"))
    with pytest.raises(ValueError, match="must ascend"):
        tar_shards("s-{9..1}.tar")
    with pytest.raises(ValueError, match="comes twice"):
        tar_shards([shards / "s-00.tar", shards / "." / "s-00.tar"])
    with pytest.raises(TypeError, match="shards must be a path"):
        tar_shards(3)
    packed = write_tar(tmp_path / "packed.tar", {"1.png": FILES["0/00.png"]})
    with pytest.raises(ValueError, match="packed.tar: compressed.*gunzip"):
        tar_shards(packed)
    (shards / "s-04.tar.xz").write_bytes(b"\xfd7zXZ\0")
    with pytest.raises(ValueError, match=r"s-04.tar.xz: compressed"):
        tar_shards(shards)


@pytest.mark.parametrize(
    "extra, message",
    [
        ({"y.cls": b"0"}, "sample y has no picture"),
        ({"y.png": FILES["0/00.png"]}, "sample y has no label"),
        ({"y.png": b"", "y.jpg": b"", "y.cls": b"0"}, "second image of sample y"),
        ({"y.png": b"", "y.cls": b"0", "./y.cls": b"1"}, "second label of the sampl"),
        ({"y.png": b"", "y.cls": b""}, r"y.cls: expected a class"),
        ({"y.png": b"", "y.cls": b"\xff"}, r"y.cls: "),
        ({"y.png": b"", "y.cls": b"9" * 40}, "is no class's index"),
        ({"../y.png": b"", "y.cls": b"0"}, "leads outside"),
        ({"y.png": b"", "y.cls": b"0"}, r"y.png: not a readable"),
    ],
)
def test_shards_with_odd_samples(tmp_path, extra, message):
    path = write_tar(tmp_path / "x.tar", {"a.png": FILES["0/00.png"], "a.cls": b"0"})
    write_tar(path, {"a.png": FILES["0/00.png"], "a.cls": b"0"} | extra, "w")
    with pytest.raises(ValueError, match=message):
        tar_shards(path)


def test_shards_with_links_and_truncated_ones(shards):
    with tarfile.open(shards / "s-02.tar", "a") as archive:
        info = tarfile.TarInfo("x/99.png")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(ValueError, match="s-02.tar.*not a regular file"):
        tar_shards(shards)
    whole = (shards / "s-01.tar").read_bytes()
    (shards / "s-01.tar").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"s-01.tar: not a readable tar"):
        tar_shards(shards)


def test_a_shard_that_changes_is_named(shards):
    dataset = tar_shards(shards, max_bytes=FEW)
    answers(dataset)
    path = shards / "s-02.tar"
    whole = bytearray(path.read_bytes())
    path.write_bytes(whole[:600])
    with pytest.raises(ValueError, match=r"s-02.tar.*become shorter"):
        answers(dataset)
    at = whole.find(b"IDAT")
    whole[at + 9] ^= 1
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=r"s-02.tar/x/30.png: the file has changed"):
        answers(dataset)
