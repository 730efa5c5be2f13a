"""Pictures that readers treat differently: rotated, transparent, 12 bits in 16."""

import io
import struct
import tarfile
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from jaxrob import RobustnessWarning
from jaxrob.data import image_folder

from .files import deep_png, encoded, write_folder

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (6, 9, 3), dtype=np.uint8)
PICTURE = Image.fromarray(PIXELS)
TURNED = "pictures are stored turned or mirrored.*orientation=.stored"
UNKNOWN = "damaged"


def exif(number):
    found = Image.Exif()
    found[0x112] = number
    # Other entries beside it, as cameras write them.
    found[0x10F], found[0x11A] = "a maker", 72.0
    return found.tobytes()


def with_chunk(png, kind, body, last=False):
    """Returns a PNG with one more chunk below its header, or above its end."""
    at = len(png) - 12 if last else 33
    check = zlib.crc32(kind + body)
    chunk = struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)
    return png[:at] + chunk + png[at:]


def files_of(number):
    plain, exif_of = encoded(PICTURE), exif(number)
    xmp = f'<x tiff:Orientation="{number}"/>'.encode()
    profile = f"\nexif\n{len(exif_of):8}\n{exif_of.hex()}\n".encode()
    return {
        "jpeg": encoded(PICTURE, "JPEG", exif=exif_of),
        "jpeg, little end first": encoded(
            PICTURE,
            "JPEG",
            exif=b"Exif\0\0II*\0"
            + struct.pack("<LHHHLHHL", 8, 1, 0x112, 3, 1, number, 0, 0),
        ),
        "png": encoded(PICTURE, exif=exif_of),
        "png, at its end": with_chunk(plain, b"eXIf", exif_of[6:], last=True),
        "png of ImageMagick": with_chunk(
            plain, b"tEXt", b"Raw profile type exif\0" + profile
        ),
        "png, xmp": with_chunk(plain, b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp),
    }


def folder_of(path, files):
    named = enumerate(files)
    return write_folder(path, {f"class/{at:04}.png": data for at, data in named})


def one(path, data, **options):
    return image_folder(folder_of(path, [data]), **options).images[0]


@pytest.mark.parametrize("number", range(1, 9))
def test_pictures_are_put_upright_as_pillow_does(tmp_path, number):
    for data in files_of(number).values():
        stored = Image.open(io.BytesIO(data))
        expected = np.asarray(ImageOps.exif_transpose(stored))
        if number == 1:
            found = one(tmp_path, data)
        else:
            with pytest.warns(RobustnessWarning, match=f"1 of 1 {TURNED}"):
                found = one(tmp_path, data)
        np.testing.assert_array_equal(found, expected)
        # As torchvision's loader, without a warning, because it was requested.
        found = one(tmp_path, data, orientation="stored")
        np.testing.assert_array_equal(found, np.asarray(stored))


def test_sizes_are_those_of_upright_pictures(tmp_path):
    lying = PICTURE.transpose(Image.Transpose.ROTATE_90)
    files = [encoded(lying, exif=exif(6)), encoded(PICTURE), encoded(PICTURE)]
    folder_of(tmp_path, files)
    with pytest.warns(RobustnessWarning, match=f"1 of 3 {TURNED}") as warned:
        images = image_folder(tmp_path).images
    assert len(warned) == 1
    np.testing.assert_array_equal(images, [PIXELS] * 3)
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.add(tmp_path / "class", "class")
    with pytest.warns(RobustnessWarning, match=f"x.tar: 1 of 3 {TURNED}"):
        images = image_folder(tmp_path / "x.tar", labels=None).images
    np.testing.assert_array_equal(images, [PIXELS] * 3)
    with pytest.raises(ValueError, match="0001.png: 6x9 pixels, expected 9x6"):
        image_folder(tmp_path, orientation="stored")
    with pytest.warns(RobustnessWarning, match="1 of 3"):
        cropped = image_folder(tmp_path, resize=6, crop=(6, 7)).images
    np.testing.assert_array_equal(cropped, [PIXELS[:, 1:8]] * 3)
    with pytest.raises(ValueError, match="orientation must be one of"):
        image_folder(tmp_path, orientation="upright")


def broken():
    """Returns EXIF with an invalid orientation, or damaged before the orientation."""
    whole = exif(6)
    return [
        exif(0),
        exif(9),
        exif(65535),
        b"Exif\0\0",
        whole[:5] + b"\1" + whole[6:],
        whole[:20],
        whole[:36],
        b"Exif\0\0" + b"\xff" * 60,
        b"Exif\0\0" + whole[8:],
        whole[:10] + b"\xff" * 4 + whole[14:],
        # The entry above it has an offset far beyond the file.
        exif(8).replace(b"\0\0\0\x32", b"\0\xff\0\x32"),
    ]


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_broken_exif_is_said_and_not_guessed(tmp_path, kind):
    files = [encoded(PICTURE, kind, exif=one) for one in broken()]
    folder_of(tmp_path, files)
    with warnings.catch_warnings(record=True) as warned:
        # Pillow's own warnings, which would fail in tests that turn warnings into
        # errors.
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("always", RobustnessWarning)
        images = image_folder(tmp_path).images
    (message,) = [str(one.message) for one in warned]
    # No warning without EXIF, nor for a JPEG segment that starts differently.
    silent = 2 if kind == "JPEG" else 1
    assert f"{len(files) - silent} of {len(files)} pictures" in message, message
    assert UNKNOWN in message
    stored = [np.asarray(Image.open(io.BytesIO(encoded(PICTURE, kind))))]
    np.testing.assert_array_equal(images, stored * len(files))
    image_folder(tmp_path, orientation="stored")


def test_many_are_read_once_and_one_warning_counts(tmp_path, opened):
    tiny = Image.fromarray(PIXELS[:1, :2])
    files = [encoded(tiny, exif=exif(1 + number % 8)) for number in range(8)] * 25
    folder_of(tmp_path, files)
    with pytest.warns(RobustnessWarning, match="175 of 200") as warned:
        image_folder(tmp_path, size=(1, 1))
    # The first also shows what all must be.
    assert len(warned) == 1 and len(opened) == 201 == len(set(opened)) + 1


def test_only_transparency_that_shows_is_refused(tmp_path):
    opaque = np.dstack([PIXELS, np.full((6, 9), 255, np.uint8)])
    clear = opaque.copy()
    clear[2, 3, 3] = 254
    palette = PICTURE.convert("P")
    unused = Image.fromarray(np.zeros((6, 9), np.uint8)).convert("P")
    deep = Image.fromarray(np.full((6, 9), 40_000, np.uint16))
    silent = [
        encoded(Image.fromarray(opaque)),
        encoded(Image.fromarray(opaque[..., [0, 3]], "LA")),
        # A colour that no pixel has.
        encoded(unused, transparency=7),
        encoded(deep, transparency=5),
    ]
    seen = [
        encoded(Image.fromarray(clear)),
        encoded(Image.fromarray(clear[..., [0, 3]], "LA")),
        encoded(palette, transparency=palette.getpixel((0, 0))),
        encoded(deep, transparency=40_000),
    ]
    for data in silent:
        one(tmp_path, data)
    for data in seen:
        with pytest.raises(ValueError, match="0000.png: transparent in places"):
            one(tmp_path, data)
        white = one(tmp_path, data, background="white")
    assert (white == 1).all()


def deep_grey(values):
    return encoded(Image.fromarray(values.astype(np.uint16)))


DARK = RNG.integers(0, 4096, (6, 9))
DARK[0, 0] = 4095
COLOURS = np.dstack([DARK, DARK // 2, DARK // 3])


@pytest.mark.parametrize(
    ("encode", "dark"),
    [(deep_grey, DARK), (lambda values: deep_png(values, 2), COLOURS)],
)
def test_12_bits_in_16_are_said_to_be_nearly_black(tmp_path, encode, dark):
    # Dark except for one place, and all black.
    night, black = dark.copy(), np.zeros_like(dark)
    night[3, 4] = 65_535
    folder_of(tmp_path, [encode(one) for one in (night, black, 16 * dark)])
    image_folder(tmp_path)
    folder_of(tmp_path, [encode(one) for one in (night, black, dark, dark)])
    with pytest.warns(RobustnessWarning, match="2 of 4 pictures have 16 bits"):
        assert image_folder(tmp_path).images[2].max() == np.float32(4095 / 65535)
    bright = image_folder(tmp_path, value_range=(0, 65_535))
    assert bright.images[2].max() == np.float32(4095 / 65535)
    # 14 bits in all of them; a single dark picture may have been taken at dusk.
    folder_of(tmp_path, [encode(one) for one in (4 * dark, black, 4 * dark, 3 * dark)])
    with pytest.warns(RobustnessWarning, match="3 of 4 pictures have 16 bits"):
        image_folder(tmp_path)
    folder_of(tmp_path, [encode(night)])
    image_folder(tmp_path)
