"""TIFF, WebP, BMP and arrays, of 16 bits and floating, of any number of channels."""

import contextlib
import io
import struct
import sys

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageOps

from jaxrob import RobustnessWarning
from jaxrob.data import image_folder

from .files import bare_tiff, deep_png, encoded, npy, tiff, write_folder

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (20, 33, 3), dtype=np.uint8)
DEEP = RNG.integers(0, 65_536, (20, 33, 3), dtype=np.uint16)


def one(path, data, name="x.tif", **options):
    write_folder(path, {f"class/{name}": data})
    return np.asarray(image_folder(path, **options).images)[0]


@pytest.mark.parametrize("ending", ["bmp", "webp", "tiff", "ppm", "pgm", "jfif", "jpe"])
def test_bytes_are_those_that_pillow_decodes(tmp_path, ending):
    kind = Image.registered_extensions()[f".{ending}"]
    options = {"lossless": True} if kind == "WEBP" else {}
    for image in (Image.fromarray(BYTES), Image.fromarray(BYTES[..., 0])):
        data = encoded(image, kind, **options)
        found = one(tmp_path, data, f"x.{ending}")
        assert found.dtype == np.uint8
        image = Image.open(io.BytesIO(data))
        np.testing.assert_array_equal(found, np.asarray(image.convert("RGB")))
        grey = one(tmp_path, data, f"x.{ending}", grey=True, size=(7, 9))
        resized = image.convert("RGB").convert("L").resize((9, 7), 3)
        np.testing.assert_array_equal(grey[..., 0], np.asarray(resized))


@pytest.mark.filterwarnings("ignore::jaxrob.RobustnessWarning")
@pytest.mark.parametrize("number", range(1, 9))
def test_tiffs_are_put_upright_once(tmp_path, number):
    exif = Image.Exif()
    exif[0x112] = number
    png = encoded(Image.fromarray(BYTES), exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(png))))
    extra = [(274, "H", 1, number, True)]
    low = tiff(BYTES, photometric="rgb", extratags=extra)
    np.testing.assert_array_equal(one(tmp_path, low), expected)
    # The same picture in 16 bits.
    deep = tiff(BYTES.astype(np.uint16) * 257, photometric="rgb", extratags=extra)
    np.testing.assert_array_equal(one(tmp_path, deep), np.float32(expected / 255))
    for data in (low, deep):
        assert one(tmp_path, data, orientation="stored").shape == BYTES.shape


@pytest.mark.parametrize("colours, channels", [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_pngs_of_16_bits_keep_them(tmp_path, colours, channels):
    values = RNG.integers(0, 65_536, (20, 33, channels), dtype=np.uint16)
    if channels in (2, 4):
        values[..., -1] = 65_535  # Opaque.
    found = one(tmp_path, deep_png(values, colours), "x.png")
    assert found.dtype == np.float32
    shown = values[..., : 1 if channels < 3 else 3]
    np.testing.assert_array_equal(found, np.float32(shown / 65_535) * np.ones(3, "f4"))


def test_transparency_of_16_bits_is_laid_on_the_background(tmp_path):
    values = RNG.integers(0, 65_536, (20, 33, 4), dtype=np.uint16)
    with pytest.raises(ValueError, match="x.png: transparent in places"):
        one(tmp_path, deep_png(values, 6), "x.png")
    alpha = values[..., 3:] / 65_535
    expected = values[..., :3] / 65_535 * alpha + np.array([1, 128 / 255, 0]) * (
        1 - alpha
    )
    options = {"background": "#ff8000"}
    found = one(tmp_path, deep_png(values, 6), "x.png", **options)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    found = one(
        tmp_path,
        tiff(values, photometric="rgb", extrasamples=["unassalpha"]),
        **options,
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)
    multiplied = values.copy()
    multiplied[..., :3] = np.round(values[..., :3] * alpha)
    data = tiff(multiplied, photometric="rgb", extrasamples=["assocalpha"])
    np.testing.assert_allclose(one(tmp_path, data, **options), expected, atol=1e-4)


LAYOUTS = (
    {"planarconfig": "separate"},
    {"rowsperstrip": 7},
    {"tile": (32, 16), "planarconfig": "separate"},
    {"compression": "lzw", "predictor": True, "rowsperstrip": 3},
    {"compression": "zstd", "predictor": True, "tile": (16, 16)},
    {"bigtiff": True, "compression": "lzma"},
)


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "f2", "f4", "f8"])
def test_samples_are_those_written(tmp_path, dtype):
    scale = np.iinfo(dtype).max if dtype[0] == "u" else 1
    for number, layout in enumerate(LAYOUTS, int(dtype[1])):
        # Each layout at several numbers of channels and in both orders.
        channels, order = (1, 2, 3, 5, 16)[number % 5], "<>"[number % 2]
        values = (RNG.random((20, 33, channels)) * scale).astype(dtype)
        stored, layout = values, dict(layout)
        if dtype == "u1" and layout.get("compression") == "zstd":
            layout["compression"] = "zlib"  # Pillow 11 has no Zstandard.
        if channels == 1:
            stored, _ = values[..., 0], layout.pop("planarconfig", None)
        elif layout.get("planarconfig") == "separate":
            stored = np.moveaxis(values, -1, 0)
        extra = {"photometric": "rgb"} if channels == 3 else {}
        data = tiff(stored, byteorder=order, **layout, **extra)
        found = one(tmp_path, data, grey=channels == 1)
        is_bytes = dtype == "u1"
        expected = values if is_bytes else np.float32(values.astype("f8") / scale)
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize(
    ("channels", "dtype"), [(1, "u1"), (2, "f4"), (3, "u2"), (16, "u1")]
)
def test_arrays_in_files(tmp_path, channels, dtype):
    values = RNG.random((6, 5, channels))
    values = (values * (np.iinfo(dtype).max if dtype[0] == "u" else 1)).astype(dtype)
    if channels == 3:
        values = np.asfortranarray(values)
    found = one(tmp_path, npy(values), "x.npy", grey=channels == 1)
    scale = {"u1": 1, "u2": 65_535, "f4": 1}[dtype]
    np.testing.assert_array_equal(found, np.float32(values / scale))
    assert found.dtype == (np.uint8 if dtype == "u1" else np.float32)


def test_12_bits_by_a_tag_or_an_argument(tmp_path):
    dark = RNG.integers(0, 4096, (9, 9), dtype=np.uint16)
    dark[0, :2] = 0, 4095
    expected = np.float32(dark / 4095)
    for tag in (281, 341):
        data = tiff(dark, extratags=[(tag, "H", 1, 4095, True)])
        np.testing.assert_array_equal(one(tmp_path, data, grey=True)[..., 0], expected)
    for data, name in (
        (npy(dark), "x.npy"),
        # The largest value of this picture, not that of its camera.
        (tiff(dark, extratags=[(281, "H", 1, 4000, True)]), "x.tif"),
    ):
        with pytest.warns(RobustnessWarning, match=r"value_range=\(0, 4095\) for 12"):
            one(tmp_path / name, data, name)
        found = one(tmp_path / name, data, name, grey=True, value_range=(0, 4095))
        np.testing.assert_array_equal(found[..., 0], expected)
        with pytest.raises(ValueError, match=r"lie in \[0, 4095\], not .* \[0, 4094\]"):
            one(tmp_path / name, data, name, value_range=(0, 4094))
    with pytest.raises(ValueError, match="8 bits.*value_range"):
        one(tmp_path / "bytes", encoded(BYTES), "x.png", value_range=(0, 4095))


def test_packed_12_bits(tmp_path):
    values = RNG.integers(0, 4096, (4, 6), dtype=np.uint16)
    bits = (values[..., None] >> np.arange(11, -1, -1) & 1).astype(np.uint8)
    packed = np.packbits(bits.reshape(4, -1), axis=1).tobytes()
    tags = [(256, 6), (257, 4), (258, 12), (259, 1), (262, 1), (277, 1)]
    found = one(tmp_path, bare_tiff([*tags, (278, 4)], packed), grey=True)
    np.testing.assert_array_equal(found[..., 0], np.float32(values / 4095))


def test_floats_have_a_range(tmp_path):
    values = RNG.random((5, 6, 3)).astype(np.float32) * 200
    values[0, 0] = 0, 100, 200
    message = r"lie in \[0, 200\], not .* \[0, 1\].*value_r"
    with pytest.raises(ValueError, match=message):
        one(tmp_path, tiff(values, photometric="rgb"))
    found = one(tmp_path, tiff(values, photometric="rgb"), value_range=(0, 200))
    np.testing.assert_allclose(found, values / 200, rtol=1e-6)
    extra = [(340, "f", 1, -100.0, True), (341, "f", 1, 300.0, True)]
    found = one(tmp_path, tiff(values, photometric="rgb", extratags=extra))
    np.testing.assert_allclose(found, (values + 100) / 400, rtol=1e-6)
    signed = RNG.integers(-1000, 1000, (5, 6), dtype=np.int16)
    with pytest.raises(ValueError, match="signed integers.*value_range"):
        one(tmp_path, tiff(signed))
    found = one(tmp_path, tiff(signed), value_range=(-1000, 1000), grey=True)[..., 0]
    np.testing.assert_allclose(found, (signed + 1000) / 2000, atol=1e-7)
    for bad in (np.nan, np.inf):
        values[2, 2, 2] = bad
        with pytest.raises(ValueError, match="x.tif: .* NaN or infinity"):
            one(tmp_path, tiff(values, photometric="rgb"), value_range=(0, 200))


@pytest.mark.parametrize("wrong", [1, (1,), (1, 1), (0, np.inf), ("a", 2)])
def test_a_wrong_range_is_named(tmp_path, wrong):
    with pytest.raises((TypeError, ValueError), match="value_range"):
        one(tmp_path, encoded(DEEP[..., 0]), "x.png", value_range=wrong)


def test_resizing_does_not_reduce_to_bytes(tmp_path):
    # A ramp of 2,000 values, halved: bytes would leave 8 of them.
    ramp = np.arange(30_000, 32_000, dtype=np.uint16)[None].repeat(4, 0)
    found = one(tmp_path, encoded(ramp), "x.png", size=(2, 1000), grey=True)[0, :, 0]
    expected = (30_000.5 + 2 * np.arange(1000)) / 65_535
    np.testing.assert_allclose(found[5:-5], expected[5:-5], atol=1e-6)
    # As bytes are resized, up to their rounding. In the middle of their range, because
    # some versions of Pillow cut what is beyond it between rows and columns.
    middle = BYTES // 2 + 64
    values = middle.astype(np.uint16) * 257
    small, data = encoded(middle), deep_png(values, 2)
    for options in (
        {"size": (9, 50)},
        {"resize": 13, "crop": (9, 8), "interpolation": "bilinear"},
        {"size": (9, 50), "grey": True},
    ):
        said = pytest.warns(RobustnessWarning, match="1 of 1 .* enlarged")
        with said if "size" in options else contextlib.nullcontext():
            expected = one(tmp_path, small, "x.png", **options) / 255
            found = one(tmp_path, data, "x.png", **options)
        assert found.min() >= 0 and found.max() <= 1
        assert np.abs(found - expected).max() < 2 / 255


def test_pictures_must_be_of_one_kind(tmp_path):
    files = {"a/1.png": encoded(BYTES), "a/2.png": encoded(BYTES)}
    write_folder(tmp_path, files | {"a/3.tif": tiff(BYTES[..., :2])})
    with pytest.raises(ValueError, match=r"a/3.tif: read as 2 channels .*a/1.png has"):
        image_folder(tmp_path, size=(4, 4))
    with pytest.raises(ValueError, match="a/3.tif: it has 2 channels"):
        image_folder(tmp_path, grey=True)


@pytest.mark.parametrize(
    ("odd", "unreadable", "value_range"),
    [
        ("z.png", "leave_out", None),
        ("z.png", "error", (0, 65535)),
        ("a.png", "leave_out", (0, 10)),
    ],
)
def test_the_odd_picture_is_named_and_not_left_out(
    tmp_path, odd, unreadable, value_range
):
    """Wherever it stands; a range for it is no reason to drop all the others."""
    files = {f"a/{name}.png": encoded(BYTES) for name in "bcdef"} | {"a/g.png": b""}
    if unreadable == "error":
        del files["a/g.png"]
    write_folder(tmp_path, files | {f"a/{odd}": deep_png(DEEP, 2)})
    with pytest.raises(ValueError, match=r"a/[a-z].png: .*(8 bits|value_range)"):
        image_folder(tmp_path, unreadable=unreadable, value_range=value_range)


def test_what_no_argument_suits_is_not_left_out(tmp_path):
    write_folder(tmp_path, {f"a/{name}.png": encoded(BYTES) for name in "ab"})
    with pytest.raises(ValueError, match="a.png: its values have 8 bits.*leave it out"):
        image_folder(tmp_path, unreadable="leave_out", value_range=(0, 4095))
    write_folder(tmp_path, {f"a/{name}.png": deep_png(DEEP, 2) for name in "ab"})
    with pytest.raises(ValueError, match=r"a.png: its values lie in .* \[0, 9\]"):
        image_folder(tmp_path, unreadable="leave_out", value_range=(0, 9))


def test_only_the_first_page_is_read_with_a_warning(tmp_path):
    pages = [Image.fromarray(BYTES), Image.fromarray(255 - BYTES)]
    data = encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    with pytest.warns(RobustnessWarning, match="1 of 1 .* several pages"):
        np.testing.assert_array_equal(one(tmp_path, data), BYTES)
    deep = io.BytesIO()
    with tifffile.TiffWriter(deep) as writer:
        writer.write(DEEP, photometric="rgb", metadata=None)
        # A thumbnail is no page.
        writer.write(DEEP[::2, ::2], photometric="rgb", subfiletype=1, metadata=None)
    found = one(tmp_path, deep.getvalue())
    np.testing.assert_array_equal(found, np.float32(DEEP / 65_535))


@pytest.mark.parametrize("head", [b"P5 2 1 65535\n", b"P6 1 1 65535\n", b"P5 4 1 9\n"])
def test_more_or_less_than_8_bits_of_a_pixmap_are_refused(tmp_path, head):
    with pytest.raises(ValueError, match="class/x.tif"):
        one(tmp_path, head + bytes(6))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "data",
    [
        encoded(BYTES),
        encoded(BYTES, "JPEG"),
        *(encoded(Image.fromarray(BYTES), kind) for kind in ("BMP", "PPM")),
        encoded(Image.fromarray(BYTES), "WEBP", lossless=True),
        encoded(Image.fromarray(BYTES), "TIFF", compression="tiff_lzw"),
        tiff(DEEP, photometric="rgb", compression="zlib", predictor=True),
        tiff(DEEP[..., :2], tile=(16, 16)),
    ],
)
def test_truncated_files_are_named(tmp_path, data):
    whole = one(tmp_path, data)
    for length in range(0, len(data), len(data) // 40):
        try:
            found = one(tmp_path, data[:length])
        except ValueError as error:
            assert "class/x.tif: not a readable picture" in str(error)
        else:
            # What follows the pixels may be missing.
            np.testing.assert_array_equal(found, whole)
            assert length > 0.9 * len(data)


def test_truncated_files_are_not_filled_up(tmp_path, monkeypatch):
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(ValueError, match="LOAD_TRUNCATED_IMAGES"):
        one(tmp_path, encoded(BYTES, "JPEG")[:-9], unreadable="leave_out")


def test_samples_need_the_extra_and_bytes_do_not(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imagecodecs", None)
    np.testing.assert_array_equal(one(tmp_path, tiff(BYTES, photometric="rgb")), BYTES)
    with pytest.raises(ImportError, match="tiff"):
        one(tmp_path, tiff(DEEP, photometric="rgb"))


TAGS = [256, 257, 258, 259, 262, 273, 277, 278, 279, 284, 338, 339]


@pytest.mark.parametrize("tag", TAGS)
def test_tiffs_whose_tags_lie_are_named(tmp_path, tag):
    values = DEEP[:4, :6, 0].copy()
    right = {256: 6, 257: 4, 258: 16, 259: 1, 262: 1, 277: 1, 278: 4}
    data = bare_tiff(right, values.tobytes())
    found = one(tmp_path, data, grey=True)[..., 0]
    np.testing.assert_array_equal(found, np.float32(values / 65_535))
    for number in (0, 2, 7, 12, 1000, 2**32 - 1):
        data = bare_tiff(right | {tag: number}, values.tobytes())
        try:
            found = one(tmp_path, data)
        except ValueError as error:
            assert "class/x.tif: " in str(error)
        else:
            # Fewer pixels, or other numbers, but all from the file.
            assert found.size <= 3 * 8 * values.size
    no_type = data.replace(struct.pack("<HH", tag, 4), struct.pack("<HH", tag, 0))
    with pytest.raises(ValueError, match=f"tag {tag}"):
        one(tmp_path, no_type)
