"""JPEG round trips against Pillow's own, pixel for pixel."""

import functools
import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, features

from jaxrob.alterations import _jpeg, _jpeg_products, jpeg_compression
from jaxrob.alterations._jpeg import JPEG_FORMS, jpeg_coefficients

if not features.check("libjpeg_turbo"):
    pytest.skip("this Pillow has no libjpeg-turbo", allow_module_level=True)

QUALITIES = (-7, 0, *range(1, 101), 102)


def pillow_round_trip(image: np.ndarray, quality: int) -> np.ndarray:
    grey = image.shape[2] == 1
    file = io.BytesIO()
    Image.fromarray(image[:, :, 0] if grey else image).save(
        file, format="JPEG", quality=int(quality)
    )
    decoded = np.asarray(Image.open(file))
    return decoded[:, :, None] if grey else decoded


def make_batched_round_trip(forms):
    def by_forms(image, quality):
        return {
            form: JPEG_FORMS[form].decode(
                *JPEG_FORMS[form].coefficients(image), quality, image.shape
            )
            for form in forms
        }

    return jax.jit(jax.vmap(jax.vmap(by_forms, (None, 0)), (0, None)))


batched_round_trip = functools.cache(make_batched_round_trip)


def assert_equals_pillow(images, qualities, function):
    """The forms round values to bytes and clip them, and clip qualities."""
    shift = np.random.default_rng(0).uniform(-0.45, 0.45, images.shape)
    shift += np.where(images == 255, 50, 0) - np.where(images == 0, 50, 0)
    expected = np.stack(
        [[pillow_round_trip(i, np.clip(q, 1, 100)) for q in qualities] for i in images]
    ).astype(np.float32) / np.float32(255)
    inputs = np.float32((images + shift) / 255)
    for form, decoded in function(inputs, np.array(qualities)).items():
        decoded = np.asarray(decoded)
        assert decoded.dtype == np.float32
        differing = (decoded != expected).any((2, 3, 4))
        wrong = [(int(n), qualities[q]) for n, q in np.argwhere(differing)]
        assert not wrong, f"{form}: (image, quality) that differ: {wrong[:10]}"


every_form_equals_pillow = functools.partial(
    assert_equals_pillow, function=batched_round_trip(tuple(JPEG_FORMS))
)


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


def test_colours_equal_pillow_at_every_quality():
    # Neither side is of whole blocks.
    every_form_equals_pillow(synthetic_images(17, 23, 3), QUALITIES)


def extreme_blocks() -> np.ndarray:
    """Returns blocks with the largest possible coefficients, in 8x8 images."""
    rng = np.random.default_rng(0)
    basis = np.cos(np.outer(np.arange(8), 2 * np.arange(8) + 1) * np.pi / 16)
    signs = np.einsum("ij,kl->ikjl", basis, basis).reshape(64, 8, 8) > 0
    random = rng.integers(0, 2, (200, 8, 8)) > 0
    return (255 * np.concatenate([signs, ~signs, random])[..., None]).astype(np.uint8)


@pytest.mark.slow
def test_the_largest_coefficients_of_grey_blocks_equal_pillow():
    # Overflows of float32 or int16 would show here first.
    every_form_equals_pillow(extreme_blocks(), (1, 3, 5, 10, 13, 25, 50, 75, 100))


@pytest.mark.slow
def test_products_are_exact_as_a_tpu_multiplies(monkeypatch):
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

    images = np.repeat(extreme_blocks()[::5], 3, axis=-1)
    images = np.concatenate([images, synthetic_images(8, 8, 3)])
    for split in (rounded, cut):
        monkeypatch.setattr(_jpeg_products, "_product", product_by(split))
        # Compiled again.
        function = make_batched_round_trip(["products"])
        assert_equals_pillow(images, (1, 5, 25, 75, 95, 100), function)


def test_many_images_equal_pillow():
    # For a TPU they are laid out in another way.
    images = np.random.default_rng(0).integers(0, 256, (600, 9, 7, 1))
    function = batched_round_trip(("products",))
    assert_equals_pillow(images.astype(np.uint8), (60,), function)


@pytest.mark.slow
def test_chroma_of_few_columns_equals_pillow():
    # It is repeated up to a width of 4, and interpolated for larger ones.
    every_form_equals_pillow(synthetic_images(3, 4, 3), (1, 20, 50, 80, 100))


@pytest.mark.slow
@pytest.mark.parametrize("form", JPEG_FORMS)
def test_the_identity_keeps_values_between_bytes(form, monkeypatch):
    def by_form(part, size, forms, *operands, **static):
        return forms[form](*operands, **static)

    monkeypatch.setattr(_jpeg, "by_platform", by_form)
    images = np.random.default_rng(0).random((2, 9, 12, 3), np.float32)

    alteration = jpeg_compression()

    def compressed(image, level):
        return alteration.at_level(alteration.prepared(image), level)

    # Levels outside, images inside, as `evaluate` nests them.
    levels = np.array([0.0, 0.25, 60.0], np.float32)
    over_images = jax.vmap(compressed, (0, None))
    found = np.asarray(jax.jit(jax.vmap(over_images, (None, 0)))(images, levels))
    np.testing.assert_array_equal(found[0], images)
    expected = batched_round_trip(tuple(JPEG_FORMS))(images, np.array([100, 40]))[form]
    np.testing.assert_array_equal(found[1:].swapaxes(0, 1), expected)


@pytest.mark.parametrize("shape", ((8, 8), (2, 8, 8, 3), (8, 8, 2), (0, 8, 1)))
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match="image must"):
        jpeg_coefficients(np.zeros(shape, np.float32))
