"""JPEG round trips against Pillow's own, pixel for pixel."""

import functools
import io
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, features

from jaxrob.alterations import (
    _jpeg,
    _jpeg_compression,
    _jpeg_products,
    jpeg_compression,
)
from jaxrob.alterations._jpeg import (
    JPEG_FORMS,
    jpeg_coefficients,
    jpeg_decode,
)

if not features.check("libjpeg_turbo"):
    pytest.skip("this Pillow has no libjpeg-turbo", allow_module_level=True)

QUALITIES = tuple(range(1, 101))
SIZES = (1, 1), (2, 2), (3, 5), (4, 4), (5, 3), (8, 8), (32, 32), (50, 50), (64, 48)
# Grey and coloured images, with sides of whole blocks and without.
IMAGES = [
    ((17, 23), 3),
    ((28, 28), 1),
    *(
        pytest.param(size, channels, marks=pytest.mark.slow)
        for size, channels in [
            ((17, 23), 1),
            ((28, 28), 3),
            *itertools.product(SIZES, (1, 3)),
        ]
    ),
]


def pillow_round_trip(image: np.ndarray, quality: int) -> np.ndarray:
    grey = image.shape[2] == 1
    file = io.BytesIO()
    Image.fromarray(image[:, :, 0] if grey else image).save(
        file, format="JPEG", quality=quality
    )
    decoded = np.asarray(Image.open(file))
    return decoded[:, :, None] if grey else decoded


# Eagerly it takes seconds to compile. Integers do not round.


def jpeg_round_trip(image, quality):
    return jpeg_decode(jpeg_coefficients(image), quality, image.shape)


round_trip = jax.jit(jpeg_round_trip)


def round_trip_by(form: str):
    """Makes a round trip by a form, whatever the platform."""

    def by_form(image, quality):
        coefficients = JPEG_FORMS[form].coefficients(image)
        return JPEG_FORMS[form].decode(*coefficients, quality, image.shape)

    return by_form


@functools.cache
def batched_round_trip(form: str | None = None):
    function = jpeg_round_trip if form is None else round_trip_by(form)
    over_qualities = jax.vmap(function, (None, 0))
    return jax.jit(jax.vmap(over_qualities, (0, None)))


def assert_equals_pillow(
    images: np.ndarray, qualities=QUALITIES, form: str | None = None
) -> None:
    """Compares uint8 images [N, H, W, C] at every quality.

    Args:
      images: the images.
      qualities: the qualities.
      form: a form of the table; by default the platform's.
    """
    inputs = images.astype(np.float32) / np.float32(255)
    decoded = np.asarray(batched_round_trip(form)(inputs, np.array(qualities)))
    expected = np.stack(
        [[pillow_round_trip(i, q) for q in qualities] for i in images]
    ).astype(np.float32) / np.float32(255)
    assert decoded.dtype == np.float32
    differing = (decoded != expected).any((2, 3, 4))
    wrong = [(int(n), qualities[q]) for n, q in np.argwhere(differing)]
    assert not wrong, f"(image, quality) pairs that differ: {wrong[:10]}"


def synthetic_images(height: int, width: int, channels: int) -> np.ndarray:
    rng = np.random.default_rng(height * 1000 + width * 10 + channels)
    shape = (height, width, channels)
    noise = rng.integers(0, 256, shape)
    black_and_white = 255 * rng.integers(0, 2, shape)
    rows, columns = np.mgrid[:height, :width] / max(height, width)
    directions = rng.uniform(-1, 1, (2, channels))
    ramp = rows[..., None] * directions[0] + columns[..., None] * directions[1]
    gradient = np.clip(128 + 180 * ramp, 0, 255)
    checkerboard = np.broadcast_to(np.indices((height, width)).sum(0)[..., None], shape)
    checkerboard = checkerboard % 2 * 255
    return np.stack([noise, black_and_white, gradient, checkerboard]).astype(np.uint8)


def photographs(height: int, width: int, channels: int) -> np.ndarray:
    """Returns six parts of photographs, of that size."""
    datasets = pytest.importorskip(
        "sklearn.datasets", reason="scikit-learn carries the photographs"
    )
    crops = []
    for photograph in datasets.load_sample_images().images:
        if channels == 1:
            photograph = np.asarray(Image.fromarray(photograph).convert("L"))[..., None]
        for top, left in ((20, 30), (150, 400), (370, 90)):
            crops.append(photograph[top : top + height, left : left + width])
    return np.stack(crops)


@pytest.mark.parametrize("form", JPEG_FORMS)
@pytest.mark.parametrize("size, channels", IMAGES, ids=str)
def test_images_equal_pillow_at_every_quality(size, channels, form):
    images = synthetic_images(*size, channels)
    if size in ((28, 28), (50, 50)):
        images = np.concatenate([images, photographs(*size, channels)])
    assert_equals_pillow(images, form=form)


def extreme_blocks() -> np.ndarray:
    """Returns blocks with the largest possible coefficients, in 8x8 images."""
    rng = np.random.default_rng(0)
    basis = np.cos(np.outer(np.arange(8), 2 * np.arange(8) + 1) * np.pi / 16)
    signs = np.einsum("ij,kl->ikjl", basis, basis).reshape(64, 8, 8) > 0
    random = rng.integers(0, 2, (200, 8, 8)) > 0
    blocks = np.concatenate([signs, ~signs, random])
    return (255 * blocks[..., None]).astype(np.uint8)


@pytest.mark.parametrize("form", JPEG_FORMS)
def test_the_largest_coefficients_equal_pillow(form):
    # Overflows of float32 or int16 would show here first.
    qualities = (1, 3, 5, 10, 13, 25, 50, 75, 100)
    assert_equals_pillow(extreme_blocks(), qualities, form)


@pytest.mark.parametrize("channels", (1, 3))
def test_products_are_exact_as_a_tpu_multiplies(channels, monkeypatch):
    """A TPU splits both factors in two bfloat16 parts, and drops the small product.

    It may round the first part or cut it.
    """

    def rounded(x):
        return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)

    def cut(x):
        bits = jax.lax.bitcast_convert_type(x, jnp.uint32) & np.uint32(0xFFFF0000)
        return jax.lax.bitcast_convert_type(bits, jnp.float32)

    def product_by(split):
        def product(a, b, axes):
            b = jnp.asarray(b)
            (a_high, b_high), dot = (split(a), split(b)), jnp.tensordot
            a_low, b_low = rounded(a - a_high), rounded(b - b_high)
            small = dot(a_high, b_low, axes) + dot(a_low, b_high, axes)
            return dot(a_high, b_high, axes) + small

        return product

    images = np.repeat(extreme_blocks()[::5], channels, axis=-1)
    images = np.concatenate([images, synthetic_images(8, 8, channels)])
    # Compiled again.
    monkeypatch.setitem(globals(), "batched_round_trip", batched_round_trip.__wrapped__)
    for split in (rounded, cut):
        monkeypatch.setattr(_jpeg_products, "_product", product_by(split))
        assert_equals_pillow(images, (1, 5, 25, 75, 95, 100), "products")


@pytest.mark.parametrize("channels", (1, 3))
def test_many_images_equal_pillow(channels):
    # For a TPU they are laid out in another way.
    images = np.random.default_rng(0).integers(0, 256, (600, 9, 7, channels))
    assert_equals_pillow(images.astype(np.uint8), (60,), "products")


@pytest.mark.parametrize("form", JPEG_FORMS)
@pytest.mark.parametrize(
    "size",
    [(3, 4), *(pytest.param(one, marks=pytest.mark.slow) for one in ((1, 1), (9, 5)))],
    ids=str,
)
def test_small_and_odd_sizes_equal_pillow(size, form):
    # Chroma is repeated up to a width of 4, and interpolated for larger ones.
    assert_equals_pillow(synthetic_images(*size, 3), (1, 20, 50, 80, 100), form)


@pytest.mark.slow
@pytest.mark.parametrize("form", JPEG_FORMS)
def test_the_identity_keeps_values_between_bytes(form, monkeypatch):
    def by_form(part, size, forms, *operands):
        return forms[form](*operands)

    for module in (_jpeg, _jpeg_compression):
        monkeypatch.setattr(module, "by_platform", by_form)
    rng = np.random.default_rng(0)
    images = rng.random((2, 9, 12, 3), np.float32)

    alteration = jpeg_compression()

    def compressed(image, level):
        return alteration.at_level(alteration.prepared(image), level)

    # Levels outside, images inside, as `evaluate` nests them.
    levels = np.array([0.0, 0.25, 60.0], np.float32)
    over_images = jax.vmap(compressed, (0, None))
    found = np.asarray(jax.jit(jax.vmap(over_images, (None, 0)))(images, levels))
    np.testing.assert_array_equal(found[0], images)
    expected = batched_round_trip(form)(images, np.array([100, 40]))
    np.testing.assert_array_equal(found[1:].swapaxes(0, 1), expected)


def test_digits_equal_pillow_at_every_quality():
    datasets = pytest.importorskip(
        "sklearn.datasets", reason="scikit-learn carries the digits"
    )
    digits = datasets.load_digits().images[:30, :, :, None]
    assert_equals_pillow(np.round(digits * (255 / 16)).astype(np.uint8))


@pytest.mark.slow
def test_whole_photograph_equals_pillow():
    datasets = pytest.importorskip(
        "sklearn.datasets", reason="scikit-learn carries the photographs"
    )
    whole = np.stack(datasets.load_sample_images().images)
    assert_equals_pillow(whole[:, :, :-3], qualities=(10, 75, 95))


@pytest.mark.slow
@pytest.mark.parametrize("form", JPEG_FORMS)
@settings(max_examples=15, deadline=None)
@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    channels=st.sampled_from((1, 3)),
    quality=st.integers(1, 100),
    contrast=st.integers(0, 255),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_image_equals_pillow(
    form, height, width, channels, quality, contrast, seed
):
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 256 - contrast)
    shape = (1, height, width, channels)
    images = rng.integers(low, low + contrast + 1, shape).astype(np.uint8)
    assert_equals_pillow(images, (quality,), form)


@pytest.mark.slow
@pytest.mark.parametrize("channels", (1, 3))
def test_vmapped_equals_one_at_a_time(channels):
    images = synthetic_images(17, 23, channels).astype(np.float32) / 255
    qualities = np.array([3, 40, 77, 100])
    inside = batched_round_trip()(images, qualities)
    outside = jax.vmap(jax.vmap(jpeg_round_trip, (0, None)), (None, 0))
    outside = jax.jit(outside)(images, qualities)
    for n, image in enumerate(images):
        for q, quality in enumerate(qualities):
            expected = round_trip(image, quality)
            np.testing.assert_array_equal(inside[n, q], expected)
            np.testing.assert_array_equal(outside[q, n], expected)


@pytest.mark.slow
@pytest.mark.parametrize("channels", (1, 3))
def test_coefficients_serve_every_quality(channels):
    image = synthetic_images(10, 13, channels)[0].astype(np.float32) / 255
    coefficients = jax.jit(jpeg_coefficients)(image)
    decode = jax.jit(jpeg_decode, static_argnums=2)
    for quality in (1, 50, 100):
        np.testing.assert_array_equal(
            decode(coefficients, quality, image.shape), round_trip(image, quality)
        )


@pytest.mark.parametrize("channels", (1, 3))
def test_pixels_are_rounded_and_clipped_to_bytes_first(channels):
    pixels = synthetic_images(9, 9, channels)[0]
    shift = np.random.default_rng(0).uniform(-0.45, 0.45, pixels.shape)
    shift += np.where(pixels == 255, 50, 0) - np.where(pixels == 0, 50, 0)
    np.testing.assert_array_equal(
        round_trip(jnp.asarray((pixels + shift) / 255, jnp.float32), 80),
        round_trip(jnp.asarray(pixels / 255, jnp.float32), 80),
    )


def test_qualities_out_of_range_count_as_the_nearest():
    image = synthetic_images(8, 8, 1)[0].astype(np.float32) / 255
    for outside, nearest in ((0, 1), (-7, 1), (101, 100)):
        np.testing.assert_array_equal(
            round_trip(image, outside), round_trip(image, nearest)
        )


@pytest.mark.parametrize("shape", ((8, 8), (2, 8, 8, 3), (8, 8, 2), (8, 8, 4)))
@pytest.mark.parametrize("function", (jpeg_coefficients, jpeg_round_trip))
def test_other_shapes_are_refused(function, shape):
    arguments = (75,) if function is jpeg_round_trip else ()
    with pytest.raises(ValueError, match="image must be .*1 or 3 channels") as error:
        function(jnp.zeros(shape), *arguments)
    assert str(shape) in str(error.value)


def test_decode_refuses_other_shapes():
    coefficients = jpeg_coefficients(jnp.zeros((8, 8, 1)))
    with pytest.raises(ValueError, match=r"shape must be .*\(8, 8\)"):
        jpeg_decode(coefficients, 75, (8, 8))


def test_decode_refuses_coefficients_of_another_shape():
    coefficients = jpeg_coefficients(jnp.zeros((8, 8, 1)))
    for shape in ((9, 8, 1), (8, 8, 3)):
        with pytest.raises(ValueError, match="coefficients"):
            jpeg_decode(coefficients, 75, shape)
