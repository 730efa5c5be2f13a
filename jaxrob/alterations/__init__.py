"""Alterations: changes to an image in its acquisition or elaboration, by level.

Each function returns an `Alteration` for a range of levels, `lower` to `upper`, which
holds the identity, the level at which images stay as they are: 0 unless it says
otherwise. A range that does not hold it, is empty or goes beyond the levels named, and
any other argument outside its values, is a ValueError. So is, when applied, an image
that is not `[H, W, C]` or lacks the channels needed. `presets` holds the alterations of
the papers.
"""

from jaxrob.alterations import corruptions, presets
from jaxrob.alterations._alteration import About, Alteration
from jaxrob.alterations._blur import gaussian_blur, pixelation
from jaxrob.alterations._compose import compose, followed_by, rescale
from jaxrob.alterations._geometric import (
    elastic_deformation,
    horizontal_translation,
    rotation,
    vertical_translation,
    zoom,
)
from jaxrob.alterations._jpeg import jpeg_compression
from jaxrob.alterations._lens import defocus_blur, motion_blur
from jaxrob.alterations._moves import (
    Move,
    MovedBoxes,
    move_boxes,
    move_mask,
    unmoved_reason,
)
from jaxrob.alterations._photometric import (
    brightness,
    contrast,
    gaussian_noise,
    impulse_noise,
    saturation,
    shot_noise,
    speckle_noise,
)
from jaxrob.alterations._recorded import recorded, recorded_in

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
    "recorded",
    "recorded_in",
    "rescale",
    "rotation",
    "saturation",
    "shot_noise",
    "speckle_noise",
    "unmoved_reason",
    "vertical_translation",
    "zoom",
)
