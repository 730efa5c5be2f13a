"""The alterations of the papers, with their ranges and units of level."""

from jaxrob._runtime.checks import check_choice
from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._brightness import brightness
from jaxrob.alterations._compose import rescale
from jaxrob.alterations._gaussian_blur import gaussian_blur
from jaxrob.alterations._gaussian_noise import gaussian_noise
from jaxrob.alterations._jpeg_compression import jpeg_compression
from jaxrob.alterations._rotation import rotation
from jaxrob.alterations._translation import (
    horizontal_translation,
    vertical_translation,
)
from jaxrob.alterations._zoom import zoom


def cnn_2020() -> tuple[Alteration, ...]:
    """The eight alterations of Arcaini et al. (2020), table I, in its order.

    Pixels are in [0, 1] here, so that the noise variance [0, 200] of the paper is
    [0, 200 / 255**2], brightness is relative, and zoom a factor. The translations of
    4 px are of images of 50 px.
    """
    return (
        horizontal_translation(-4.0, 4.0, fill="crop"),
        vertical_translation(-4.0, 4.0, fill="crop"),
        rotation(-180.0, 180.0),
        brightness(-0.5, 0.5),
        zoom(1.0, 2.0),
        gaussian_noise(0.0, 200 / 255**2),
        gaussian_blur(0.0, 2.0),
        jpeg_compression(0.0, 100.0),
    )


def asap_2022(benchmark: str = "mnist") -> tuple[Alteration, ...]:
    """The seven alterations of Arcaini et al. (2022), table I, in its order.

    All ranges have a length of 1 or 2: a translation of 1 is a tenth of the size, a
    blur of 1 a radius of 2 px, a zoom of 1 a factor of 2, and a compression of 1 a
    quality of 0 (taken as 1).

    Args:
      benchmark: "mnist", where a noise of 1 is a variance of 0.01, or "idc", where it
        is 200 / 255**2.

    Raises:
      ValueError: if the benchmark is neither.
    """
    variances = {"mnist": 0.01, "idc": 200 / 255**2}
    check_choice("benchmark", benchmark, variances)
    tenth = "10 % of the size"
    right, down = _a_tenth_of_the_size()
    return (
        rescale(gaussian_noise(0.0, variances[benchmark]), 0.0, 1.0),
        rescale(jpeg_compression(), 0.0, 1.0),
        rescale(down, -1.0, 1.0, tenth),
        rescale(right, -1.0, 1.0, tenth),
        rescale(gaussian_blur(0.0, 2.0), 0.0, 1.0),
        brightness(-0.5, 0.5),
        rescale(zoom(1.0, 2.0), 0.0, 1.0),
    )


def bnn_2024() -> tuple[Alteration, ...]:
    """The seven alterations of the 2024 paper on Bayesian networks, table 1.

    Translations are in steps of a canvas of 200 pixels, for images of any size: 20
    steps are a tenth of the size.
    """
    steps = "steps of 200"
    right, down = _a_tenth_of_the_size()
    return (
        gaussian_noise(0.0, 0.20),
        gaussian_blur(0.0, 2.0),
        brightness(-0.5, 0.5),
        rescale(right, -20.0, 20.0, steps),
        rescale(down, -20.0, 20.0, steps),
        jpeg_compression(0.0, 100.0),
        zoom(1.0, 2.0),
    )


def _a_tenth_of_the_size() -> tuple[Alteration, Alteration]:
    """Translations right and down, cropped so that no border appears."""
    return (
        horizontal_translation(-0.1, 0.1, fill="crop", unit="relative"),
        vertical_translation(-0.1, 0.1, fill="crop", unit="relative"),
    )
