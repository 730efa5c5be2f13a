"""The common corruptions of images, each driven by one level, its severity.

The fifteen corruptions of ImageNet-C and CIFAR-10-C, and the four that were held back
for validation, as alterations. Level 0 is the identity, 1 to 5 are the
benchmark's severities, and between them the benchmark's parameters are linear in the
level. Random numbers are drawn once for each image and are the same at all levels.

The parameters are for images of 32 px (CIFAR-10-C), 64 px (Tiny ImageNet-C), 224
px (ImageNet-C) or 299 px (for Inception networks). `size` selects them; None takes
those nearest to the shorter side of the image, and rejects an image that is smaller or
larger by more than a factor of 1.5 than all of these. For other sizes there are no
parameters: a ValueError, as is an image of other channels than a corruption takes.

Results are floating, clipped to [0, 1]. The benchmark truncates them to bytes.

Source: Hendrycks and Dietterich, Benchmarking neural network robustness to common
corruptions and perturbations, 2019; github.com/hendrycks/robustness at 8190fe3.
"""

from jaxrob.alterations.corruptions._optics import (
    defocus_blur,
    elastic_transform,
    glass_blur,
    motion_blur,
    zoom_blur,
)
from jaxrob.alterations.corruptions._severity import (
    brightness,
    contrast,
    gaussian_blur,
    gaussian_noise,
    impulse_noise,
    jpeg_compression,
    pixelate,
    saturate,
    shot_noise,
    speckle_noise,
)
from jaxrob.alterations.corruptions._spatter import spatter
from jaxrob.alterations.corruptions._weather import fog, frost, snow

__all__ = (
    "brightness",
    "contrast",
    "defocus_blur",
    "elastic_transform",
    "fog",
    "frost",
    "gaussian_blur",
    "gaussian_noise",
    "glass_blur",
    "impulse_noise",
    "jpeg_compression",
    "motion_blur",
    "pixelate",
    "saturate",
    "shot_noise",
    "snow",
    "spatter",
    "speckle_noise",
    "zoom_blur",
)
