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
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrob.alterations import _jpeg_fused, _jpeg_loops, _jpeg_products
from jaxrob.alterations._forms import by_platform


class JpegCoefficients(NamedTuple):
    """DCT coefficients of one image before quantisation, int32, 8 times their value.

    Attributes:
      luma: The N blocks of the grey or Y plane, `[8, 8, N]`; height and width are
        rounded up to multiples of 8. The numbers lie in the order that the platform's
        form reads; on a CPU vertical frequency, horizontal frequency, block.
      chroma: The blocks of the subsampled Cb and of the Cr plane, `[8, 8, 2 N']`, or
        None for grey.
    """

    luma: jax.Array
    chroma: jax.Array | None


class JpegForm(NamedTuple):
    """A way to compute the effect of a JPEG file, for one kind of device.

    Attributes:
      coefficients: maps an image `[H, W, C]` to its `JpegCoefficients` as a tuple.
      decode: maps these two, a quality and the image's shape to the pixels.
    """

    coefficients: Callable[..., tuple[jax.Array, jax.Array | None]]
    decode: Callable[..., jax.Array]


JPEG_FORMS = {
    "loops": JpegForm(_jpeg_loops.coefficients, _jpeg_loops.decode),
    "fused": JpegForm(_jpeg_fused.coefficients, _jpeg_fused.decode),
    "products": JpegForm(_jpeg_products.coefficients, _jpeg_products.decode),
}


def jpeg_coefficients(image: jax.Array) -> JpegCoefficients:
    """Computes the part of JPEG compression that does not depend on the quality."""
    _check_shape("image", jnp.shape(image))
    forms = {name: form.coefficients for name, form in JPEG_FORMS.items()}
    size = max(jnp.shape(image)[:2])
    return JpegCoefficients(*by_platform("jpeg", size, forms, image))


def jpeg_decode(
    coefficients: JpegCoefficients, quality: jax.Array | int, shape: tuple[int, ...]
) -> jax.Array:
    """Quantises coefficients at a quality and decodes them to pixels."""
    _check_shape("shape", shape)
    height, width, channels = shape
    luma_shape = (1, height + -height % 8, width + -width % 8)
    stored = coefficients.luma.shape
    expected = (8, 8, math.prod(luma_shape) // 64)
    if stored != expected or (coefficients.chroma is None) != (channels == 1):
        kind = "grey" if coefficients.chroma is None else "RGB"
        raise ValueError(
            f"coefficients must be those of an image of shape {tuple(shape)}, "
            f"{expected[2]} blocks; got those of a {kind} image of {stored[2]} blocks"
        )
    forms = {
        name: functools.partial(form.decode, shape=(height, width, channels))
        for name, form in JPEG_FORMS.items()
    }
    return by_platform("jpeg", max(height, width), forms, *coefficients, quality)


def _check_shape(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 3 or shape[2] not in (1, 3) or min(shape) < 1:
        raise ValueError(
            f"{name} must be [height, width, channels] with 1 or 3 channels and at "
            f"least one pixel; got shape {tuple(shape)}"
        )
