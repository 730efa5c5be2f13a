"""Alterations: changes to an image in its acquisition or elaboration, by level.

Each function returns an `Alteration` for a range of levels. `presets` holds those of
the papers.
"""

from jaxrob.alterations import corruptions, presets
from jaxrob.alterations._about import About
from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._brightness import brightness
from jaxrob.alterations._compose import compose, rescale
from jaxrob.alterations._contrast import contrast
from jaxrob.alterations._defocus_blur import defocus_blur
from jaxrob.alterations._elastic_deformation import elastic_deformation
from jaxrob.alterations._followed_by import followed_by
from jaxrob.alterations._gaussian_blur import gaussian_blur
from jaxrob.alterations._gaussian_noise import gaussian_noise
from jaxrob.alterations._impulse_noise import impulse_noise
from jaxrob.alterations._jpeg_compression import jpeg_compression
from jaxrob.alterations._motion_blur import motion_blur
from jaxrob.alterations._moved_boxes import MovedBoxes, move_boxes
from jaxrob.alterations._moved_mask import move_mask
from jaxrob.alterations._moves import Move, unmoved_reason
from jaxrob.alterations._pixelation import pixelation
from jaxrob.alterations._rotation import rotation
from jaxrob.alterations._saturation import saturation
from jaxrob.alterations._shot_noise import shot_noise
from jaxrob.alterations._speckle_noise import speckle_noise
from jaxrob.alterations._translation import (
    horizontal_translation,
    vertical_translation,
)
from jaxrob.alterations._zoom import zoom

__all__ = (
    "About",
    "Alteration",
    "brightness",
    "corruptions",
    "compose",
    "contrast",
    "defocus_blur",
    "elastic_deformation",
    "followed_by",
    "gaussian_blur",
    "gaussian_noise",
    "horizontal_translation",
    "impulse_noise",
    "jpeg_compression",
    "Move",
    "MovedBoxes",
    "motion_blur",
    "move_boxes",
    "move_mask",
    "pixelation",
    "presets",
    "rescale",
    "rotation",
    "saturation",
    "shot_noise",
    "speckle_noise",
    "unmoved_reason",
    "vertical_translation",
    "zoom",
)
