import gzip
import io
import os
import tarfile

import numpy as np
import pytest
from PIL import Image

from jaxrob import Classifier, RobustnessWarning, assess
from jaxrob._dataset import check_labels_below
from jaxrob.alterations import brightness
from jaxrob.data import image_folder

from .files import encoded, write_folder, write_tar

RNG = np.random.default_rng(0)
ORDER = ["ant/z.png", "cat/a.PNG", "cat/b.png", "dog/10.png", "dog/2.png"]
PIXELS = {name: RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8) for name in ORDER[::-1]}
SOME = PIXELS[ORDER[0]]


def one(tmp_path, data, name="x.png", **options):
    write_folder(tmp_path, {f"class/{name}": data})
    return image_folder(tmp_path, **options).images[0]


def check(dataset):
    assert dataset.class_names == ("ant", "cat", "dog")
    assert list(dataset.labels) == [0, 1, 1, 2, 2]
    np.testing.assert_array_equal(dataset.images, [PIXELS[name] for name in ORDER])


def files(prefix=""):
    return {prefix + name: encoded(pixels) for name, pixels in PIXELS.items()}


def test_folder(tmp_path, monkeypatch):
    others = {"README.md": b"about", ".hidden/x.txt": b"", "cat/.DS_Store": b"hidden"}
    others |= {"cat/Thumbs.db": b"x", "dog/desktop.ini": b"x"}
    monkeypatch.chdir(write_folder(tmp_path / "of", files() | others))
    check(image_folder("."))
    check(image_folder(write_tar(tmp_path / "b", files() | others)))


@pytest.mark.parametrize(
    ("prefix", "mode", "form"),
    [
        ("", "w", tarfile.USTAR_FORMAT),
        ("./", "w:gz", tarfile.GNU_FORMAT),
        ("train/", "w", tarfile.PAX_FORMAT),
        ("./a/b/", "w:gz", tarfile.USTAR_FORMAT),
    ],
)
def test_tar(tmp_path, prefix, mode, form):
    members = {f"{prefix}cat": None} | files(prefix)
    members |= {f"{prefix}LICENSE": b"text", f"{prefix}cat/._a.png": b"hidden"}
    check(image_folder(write_tar(tmp_path / "data.bin", members, mode, form)))


def test_jpeg_and_grey(tmp_path):
    data = encoded(SOME, "JPEG")
    expected = np.asarray(Image.open(io.BytesIO(data)))
    write_folder(tmp_path, {"a/1.jpeg": data, "b/2.JPG": data})
    np.testing.assert_array_equal(image_folder(tmp_path).images, [expected, expected])
    grey = image_folder(tmp_path, grey=True).images
    assert grey.shape == (2, 5, 7, 1)
    luma = expected @ np.array([0.299, 0.587, 0.114])
    assert np.abs(grey[0, ..., 0] - luma).max() <= 0.51


def test_sizes(tmp_path):
    shapes = {"a/1.png": (6, 8, 70), "a/2.png": (12, 16, 90)}
    made = {n: encoded(np.full((h, w, 3), v, "u1")) for n, (h, w, v) in shapes.items()}
    write_folder(tmp_path, made)
    with pytest.raises(ValueError, match=r"a/2.png: 12x16 .*6x8, as .*1.png"):
        image_folder(tmp_path)
    images = image_folder(tmp_path, size=(3, 4)).images
    assert images.shape == (2, 3, 4, 3)
    assert (images[0] == 70).all() and (images[1] == 90).all()


@pytest.mark.parametrize("size", [0, (0, 4), (3,), "ab", (3, None)])
def test_wrong_size(tmp_path, size):
    with pytest.raises((ValueError, TypeError), match="size must be"):
        image_folder(tmp_path, size=size)


def test_transparency_needs_a_background(tmp_path):
    pixels = np.zeros((1, 3, 4), np.uint8)
    pixels[0, :, :3] = [200, 100, 0]
    pixels[0, :, 3] = [255, 0, 51]  # 51 is a fifth
    data = encoded(pixels)
    with pytest.raises(ValueError, match="x.png: transparent in places.*background="):
        one(tmp_path, data)
    expected = [[200, 100, 0], [255, 255, 255], [244, 224, 204]]
    np.testing.assert_array_equal(one(tmp_path, data, background="white")[0], expected)
    # A mistake of the call, not of the picture.
    with pytest.raises(ValueError, match="transparent in places"):
        one(tmp_path, data, unreadable="leave_out")
    for wrong in ("whitish", "#ffffff80", ""):
        with pytest.raises(ValueError, match="background must be an opaque colour"):
            one(tmp_path, data, background=wrong)
    with pytest.raises(TypeError, match="background must be a colour"):
        one(tmp_path, data, background=(1, 1, 1))


def test_modes(tmp_path):
    grey = np.array([[0, 128, 255]], np.uint8)
    three = grey[..., None].repeat(3, -1)
    image = Image.fromarray(grey)
    np.testing.assert_array_equal(one(tmp_path, encoded(grey)), three)
    np.testing.assert_array_equal(one(tmp_path, encoded(image.convert("LA"))), three)
    black = one(tmp_path, encoded(image.convert("1", dither=Image.Dither.NONE)))
    np.testing.assert_array_equal(black[0, :, 0], [0, 255, 255])

    palette = Image.fromarray(np.array([[0, 1, 2]], np.uint8), "L")
    palette = palette.convert("P")
    palette.putpalette([255, 0, 0, 0, 255, 0, 9, 8, 7])
    colours = [[255, 0, 0], [0, 255, 0], [9, 8, 7]]
    np.testing.assert_array_equal(one(tmp_path, encoded(palette))[0], colours)
    data = encoded(palette, transparency=1)
    colours[1] = [255, 255, 255]
    np.testing.assert_array_equal(one(tmp_path, data, background="white")[0], colours)

    data = encoded(Image.new("CMYK", (4, 4), (0, 255, 255, 0)), "JPEG")
    with pytest.warns(RobustnessWarning, match="1 of 1 .* CMYK.* class/x.png"):
        cmyk = one(tmp_path, data)
    assert np.abs(cmyk.astype(int) - [255, 0, 0]).max() < 5


def test_first_frame_of_an_animation(tmp_path):
    frames = [Image.new("RGB", (3, 2), colour) for colour in ("red", "lime", "blue")]
    data = encoded(frames[0], save_all=True, append_images=frames[1:])
    assert Image.open(io.BytesIO(data)).n_frames == 3
    with pytest.warns(RobustnessWarning, match="1 of 1 .* animations"):
        assert (one(tmp_path, data) == [255, 0, 0]).all()


def test_flipped_bits_in_a_png_never_give_other_pixels(tmp_path):
    data = encoded(SOME)
    for index in range(0, len(data), 2):
        damaged = bytearray(data)
        damaged[index] ^= 0x04
        try:
            image = one(tmp_path, bytes(damaged))
        except ValueError as error:
            assert "class/x.png" in str(error)
        else:
            np.testing.assert_array_equal(image, SOME)


def test_contents_of_another_kind_are_named_without_an_address(tmp_path):
    for data in (b"hello", encoded(SOME, "GIF")):
        with pytest.raises(ValueError, match="x.png: not a readable picture: its con"):
            one(tmp_path, data)


@pytest.mark.parametrize("name", ["cat/x.gif", "cat/sub/notes.txt"])
def test_other_file_in_a_class_folder(tmp_path, name):
    write_folder(tmp_path / "folder", files() | {name: b"hello"})
    with pytest.raises(ValueError, match=f"{name}: no picture by its name"):
        image_folder(tmp_path / "folder")
    members = files("test/") | {f"test/{name}": b"hello"}
    with pytest.raises(ValueError, match=f"{name}: no picture by its name"):
        image_folder(write_tar(tmp_path / "data.tar.gz", members))


@pytest.mark.parametrize("name", ["cat/sub/x.png", "x.png", "more/elephant/x.png"])
def test_image_in_another_place(tmp_path, name):
    write_folder(tmp_path, files() | {name: encoded(SOME)})
    with pytest.raises(ValueError, match="outside a class folder|no sibling"):
        image_folder(tmp_path)


def test_no_images(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        image_folder(tmp_path / "nothing")
    with pytest.raises(ValueError, match="no picture in it"):
        image_folder(tmp_path)
    write_folder(tmp_path, files())
    (tmp_path / "bee").mkdir()
    with pytest.raises(ValueError, match="bee: class folder without an image"):
        image_folder(tmp_path)


def test_links_on_disk(tmp_path):
    write_folder(tmp_path / "elsewhere", {"z.png": encoded(SOME)})
    some = {name: data for name, data in files().items() if not name.startswith("ant")}
    write_folder(tmp_path / "data", some)
    os.symlink(tmp_path / "elsewhere", tmp_path / "data" / "ant")
    check(image_folder(tmp_path / "data"))
    os.symlink(tmp_path / "nothing", tmp_path / "data" / "cat" / "c.png")
    with pytest.raises(ValueError, match="c.png: not a regular file"):
        image_folder(tmp_path / "data")
    os.unlink(tmp_path / "data" / "cat" / "c.png")
    os.symlink(tmp_path / "data", tmp_path / "data" / "cat" / "loop")
    with pytest.raises(ValueError, match="loop: a link to a folder"):
        image_folder(tmp_path / "data")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_tar_with_a_link_or_device(tmp_path, kind):
    path = write_tar(tmp_path / "data.tar", files(), "w")
    with tarfile.open(path, "a") as archive:
        info = tarfile.TarInfo("cat/zz.png")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(ValueError, match="'cat/zz.png' is not a regular file"):
        image_folder(path)


@pytest.mark.parametrize("name", ["/cat/1.png", "cat/../../1.png"])
def test_tar_that_leads_outside(tmp_path, name):
    path = write_tar(tmp_path / "data.tar.gz", {name: encoded(SOME)})
    with pytest.raises(ValueError, match="leads outside"):
        image_folder(path)


def test_tar_with_one_name_twice(tmp_path):
    path = write_tar(tmp_path / "data.tar", {"./a/1.png": encoded(SOME)}, "w")
    with tarfile.open(path, "a") as archive:
        archive.addfile(tarfile.TarInfo("a/1.png"))
    with pytest.raises(ValueError, match="a/1.png: twice"):
        image_folder(path)


@pytest.mark.parametrize("pack", [bytes, lambda data: gzip.compress(data, 1)])
def test_tars_cut_short_never_lose_an_image(tmp_path, pack):
    path = write_tar(tmp_path / "data.tar", files(), "w", tarfile.USTAR_FORMAT)
    data = path.read_bytes()
    # Two blocks of zeros end an archive; one is enough to detect its end.
    end = len(data.rstrip(b"\0"))
    end += -end % 512
    for cut in range(0, end + 1, 512):
        path.write_bytes(pack(data[:cut]))
        with pytest.raises(ValueError, match="data.tar"):
            image_folder(path)
    path.write_bytes(pack(data[: end + 512]))
    check(image_folder(path))


def test_not_a_tar(tmp_path):
    for data in (b"", b"hello", b"\x1f\x8b", bytes(1024), b"x" * 2048):
        (tmp_path / "data.tar").write_bytes(data)
        with pytest.raises(ValueError, match="data.tar"):
            image_folder(tmp_path / "data.tar")


def test_a_picture_that_links_to_itself(tmp_path):
    write_folder(tmp_path, files())
    (tmp_path / "cat" / "c.png").symlink_to("c.png")
    with pytest.raises(ValueError, match="cat/c.png: .* a link that leads to itself"):
        image_folder(tmp_path)


def test_a_surplus_class_folder_is_named(tmp_path):
    dataset = image_folder(write_folder(tmp_path / "pets", files()))
    with pytest.raises(ValueError, match="got 2, the class 'dog' of 3"):
        check_labels_below(dataset.labels, 2, "labels", dataset.class_names)
    two = Classifier(lambda variables, images: np.zeros((len(images), 2)), None)
    with pytest.raises(ValueError, match="pets has 3 class names.*for 'dog'"):
        assess(two, dataset, brightness(0, 0.5))
