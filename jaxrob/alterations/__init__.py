"""Alterations: what the acquisition and elaboration of an image do to it, by level.

Each function returns an `Alteration` for a range of levels. `presets` holds those of
the papers.
"""

from jaxrob.alterations import presets
from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._brightness import brightness
from jaxrob.alterations._compose import compose, rescale
from jaxrob.alterations._gaussian_blur import gaussian_blur
from jaxrob.alterations._gaussian_noise import gaussian_noise
from jaxrob.alterations._jpeg_compression import jpeg_compression
from jaxrob.alterations._rotation import rotation
from jaxrob.alterations._translation import (
    horizontal_translation,
    vertical_translation,
)
from jaxrob.alterations._zoom import zoom

__all__ = (
    "Alteration",
    "brightness",
    "compose",
    "gaussian_blur",
    "gaussian_noise",
    "horizontal_translation",
    "jpeg_compression",
    "presets",
    "rescale",
    "rotation",
    "vertical_translation",
    "zoom",
)
