"""The effect of a JPEG file on an image, bit for bit.

Entropy coding is lossless, so writing and reading a baseline JPEG file is integer
arithmetic alone: colour conversion, chroma subsampling, DCT, quantisation, and back.
The functions below do that arithmetic as libjpeg-turbo does (its "islow" DCT and
"fancy" chroma upsampling), which Pillow's ``Image.save(format="JPEG")`` uses at its
defaults: grey, or YCbCr with 4:2:0 chroma.

Each one-dimensional DCT pass of libjpeg is exactly ``(M x + 2^(n-1)) >> n`` for an
integer matrix M. There is a form for each kind of device (`_jpeg_loops`, `_jpeg_fused`,
`_jpeg_products`); all give the same bits.
"""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob.alterations import _jpeg_fused, _jpeg_loops, _jpeg_products
from jaxrob.alterations._alteration import (
    About,
    Alteration,
    check_image,
    checked_range,
    in_float32,
)
from jaxrob.alterations._forms import by_platform

# The level that stands for quality 100; level 0 does not compress at all.
_QUALITY_100 = 0.25


# DCT coefficients, int32, 8 times their value, in the form's order: grey or Y `[8, 8,
# N]`, and the subsampled Cb and Cr planes `[8, 8, 2 N']`, None for grey.
JpegCoefficients = tuple[jax.Array, jax.Array | None]


class JpegForm(NamedTuple):
    """A way to compute the effect of a JPEG file, for one kind of device."""

    coefficients: Callable[..., JpegCoefficients]  # of an image `[H, W, C]`
    # maps these two, a quality and the image's shape to the pixels
    decode: Callable[..., jax.Array]


JPEG_FORMS = {
    "loops": JpegForm(_jpeg_loops.coefficients, _jpeg_loops.decode),
    "fused": JpegForm(_jpeg_fused.coefficients, _jpeg_fused.decode),
    "products": JpegForm(_jpeg_products.coefficients, _jpeg_products.decode),
}


def jpeg_compression(lower: float = 0.0, upper: float = 100.0) -> Alteration:
    """Compresses to a JPEG file and back, bit for bit as libjpeg-turbo and Pillow do.

    Arcaini et al. (2020), table I (JC). The level, from 0 to at most 100, is 100 -
    quality, with the quality rounded to the nearest integer (halves upwards) and at
    least 1. At level 0 the image is not compressed at all; from there to 0.5 the
    quality is 100. Grey images are coded as they are, RGB ones with chroma halved along
    both axes (4:2:0); others are a ValueError. Pixels are rounded to bytes first, and
    no gradient passes. Of the range and errors see `jaxrob.alterations`.
    """
    lower, upper = checked_range(
        "jpeg_compression", lower, upper, 0.0, at_least=0, at_most=100
    )
    return Alteration(
        "jpeg compression",
        _compress,
        lower,
        upper,
        identity=0.0,
        unit="100 - quality",
        resolution=1.0,
        prepare=_transform,
        representative=_representative,
        about=About(
            "0 is no compression", range_from="100 less the quality, as in the papers"
        ),
    )


def _quality(level: Any, xp: ModuleType) -> Any:
    return xp.clip(xp.floor(100.5 - level), 1, 100)


def _representative(levels: np.ndarray) -> np.ndarray:
    compressed = np.maximum(100 - _quality(levels, np), _QUALITY_100)
    return np.where(levels == 0, 0.0, compressed)


def _transform(image: jax.Array) -> tuple[jax.Array, JpegCoefficients]:
    coefficients = jpeg_coefficients(image)
    return in_float32(image), coefficients


def _compress(
    image_and_coefficients: tuple[jax.Array, JpegCoefficients], level: jax.Array
) -> jax.Array:
    image, coefficients = image_and_coefficients
    quality = _quality(level, jnp).astype(jnp.int32)
    forms = {
        name: functools.partial(_decoded_or_image, form.decode, name == "loops")
        for name, form in JPEG_FORMS.items()
    }
    size = max(image.shape[:2])
    return by_platform("jpeg", size, forms, image, *coefficients, quality, level == 0)


def _decoded_or_image(
    decode: Callable[..., jax.Array],
    one_choice: bool,
    image: jax.Array,
    luma: jax.Array,
    chroma: jax.Array | None,
    quality: jax.Array,
    is_identity: jax.Array,
) -> jax.Array:
    decoded = functools.partial(decode, luma, chroma, quality, image.shape)
    if one_choice:
        return jax.lax.cond(is_identity, lambda: image, decoded)
    return jnp.where(is_identity, image, decoded())


def jpeg_coefficients(image: jax.Array) -> JpegCoefficients:
    """Computes the part of JPEG compression that does not depend on the quality."""
    check_image("jpeg_compression", image)
    if image.shape[-1] not in (1, 3):
        raise ValueError(
            "jpeg_compression: image must be grey or of red, green and blue, which is "
            f"all that JPEG stores; got {image.shape[-1]} channels. Leave it out for "
            "such images"
        )
    forms = {name: form.coefficients for name, form in JPEG_FORMS.items()}
    return by_platform("jpeg", max(image.shape[:2]), forms, image)


def jpeg_decode(
    coefficients: JpegCoefficients, quality: jax.Array | int, shape: tuple[int, ...]
) -> jax.Array:
    """Quantises coefficients at a quality and decodes them to pixels."""
    forms = {name: form.decode for name, form in JPEG_FORMS.items()}
    size = max(shape[:2])
    return by_platform("jpeg", size, forms, *coefficients, quality, shape=shape)
