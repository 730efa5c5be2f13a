"""JPEG compression."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob.alterations._about import About
from jaxrob.alterations._alteration import Alteration, check_image, in_float32
from jaxrob.alterations._checks import checked_range
from jaxrob.alterations._forms import by_platform
from jaxrob.alterations._jpeg import (
    JPEG_FORMS,
    JpegCoefficients,
    JpegForm,
    jpeg_coefficients,
)

# The level that stands for quality 100; level 0 does not compress at all.
_QUALITY_100 = 0.25


def jpeg_compression(lower: float = 0.0, upper: float = 100.0) -> Alteration:
    """Compresses to a JPEG file and back, bit for bit as libjpeg-turbo and Pillow do.

    Arcaini et al. (2020), table I (JC). The level is 100 - quality, with the quality
    rounded to the nearest integer (halves upwards) and at least 1. At level 0 the
    image is not compressed at all; from there to 0.5 the quality is 100. Grey images
    are coded as they are, RGB ones with chroma halved along both axes (4:2:0). Pixels
    are rounded to bytes first, and no gradient passes.

    Args:
      lower: lowest level, 0: the range must hold the identity.
      upper: highest level, at most 100.

    Returns:
      The alteration; identity 0, resolution 1.

    Raises:
      ValueError: if `lower` is not 0 or `upper` above 100; when applied, if the image
        has neither 1 nor 3 channels.
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
    check_image("jpeg_compression", image)
    if image.shape[-1] not in (1, 3):
        raise ValueError(
            "jpeg_compression: image must be grey or of red, green and blue, which is "
            f"all that JPEG stores; got {image.shape[-1]} channels. Leave it out for "
            "such images"
        )
    image = in_float32(image)
    return image, jpeg_coefficients(image)


def _compress(
    image_and_coefficients: tuple[jax.Array, JpegCoefficients], level: jax.Array
) -> jax.Array:
    image, coefficients = image_and_coefficients
    quality = _quality(level, jnp).astype(jnp.int32)
    forms = {
        name: _decode_or_keep(form, one_choice=name == "loops")
        for name, form in JPEG_FORMS.items()
    }
    operands = (image, *coefficients, quality, level == 0)
    return by_platform("jpeg", max(image.shape[:2]), forms, *operands)


def _decode_or_keep(form: JpegForm, one_choice: bool) -> Callable[..., jax.Array]:
    """Returns a function that decodes by a form, except at the identity's level."""

    def decoded_or_image(
        image: jax.Array,
        luma: jax.Array,
        chroma: jax.Array | None,
        quality: jax.Array,
        is_identity: jax.Array,
    ) -> jax.Array:
        def decoded() -> jax.Array:
            return form.decode(luma, chroma, quality, image.shape)

        if one_choice:
            return jax.lax.cond(is_identity, lambda: image, decoded)
        return jnp.where(is_identity, image, decoded())

    return decoded_or_image
