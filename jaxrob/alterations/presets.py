"""The alterations of the papers and benchmarks, with their ranges and units."""

import dataclasses
import os
from collections.abc import Callable

import jax

from jaxrob._arguments.checks import check_choice, checked_flag
from jaxrob._arguments.texts import warn
from jaxrob.alterations import corruptions
from jaxrob.alterations._alteration import Alteration
from jaxrob.alterations._blur import gaussian_blur
from jaxrob.alterations._compose import followed_by, rescale
from jaxrob.alterations._geometric import (
    horizontal_translation,
    rotation,
    vertical_translation,
    zoom,
)
from jaxrob.alterations._jpeg import jpeg_compression
from jaxrob.alterations._photometric import brightness, gaussian_noise
from jaxrob.alterations.corruptions._severity import (
    checked_size,
    truncation_to_bytes,
    truncation_to_bytes_and_jpeg_85,
)

__all__ = (
    "CORRUPTIONS",
    "SEVERITIES",
    "VALIDATION_CORRUPTIONS",
    "asap_2022",
    "bnn_2024",
    "cifar_c",
    "cnn_2020",
    "imagenet_c",
)

#: The levels at which the benchmarks are measured: 0, the clean images, and the
#: five severities.
SEVERITIES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
#: The corruptions of ImageNet-C and CIFAR-10-C in the benchmark's order, as
#: `jaxrob.alterations.corruptions` names them.
CORRUPTIONS = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
)
#: The corruptions held back for validation, which do not count in any mean.
VALIDATION_CORRUPTIONS = ("speckle_noise", "gaussian_blur", "spatter", "saturate")


def cnn_2020() -> tuple[Alteration, ...]:
    """The eight alterations of Arcaini et al. (2020), table I, in its order."""
    # Pixels are in [0, 1] here: the paper's noise variance [0, 200] is [0, 200 /
    # 255**2]. Brightness is relative, zoom a factor, 4 px are of images of 50 px.
    return (
        horizontal_translation(-4.0, 4.0, fill="crop"),
        vertical_translation(-4.0, 4.0, fill="crop"),
        rotation(-180.0, 180.0, fill="crop"),
        brightness(-0.5, 0.5),
        zoom(1.0, 2.0),
        gaussian_noise(0.0, 200 / 255**2),
        gaussian_blur(0.0, 2.0),
        jpeg_compression(0.0, 100.0),
    )


def asap_2022(benchmark: str = "mnist") -> tuple[Alteration, ...]:
    """The seven alterations of Arcaini et al. (2022), table I, in its order."""
    # Of length 1 or 2: a translation of 1 is a tenth of the size, a blur of 1 a radius
    # of 2 px, a zoom of 1 a factor of 2, compression of 1 a quality of 0 (taken as 1).
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
    """The seven alterations of the 2024 paper on Bayesian networks, table 1."""
    # Translations are in steps of a canvas of 200 pixels, for images of any size: 20
    # steps are a tenth of the size.
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


def imagenet_c(
    size: int | None = None,
    *,
    published: bool = False,
    validation: bool = False,
    frost_folder: str | os.PathLike[str] | None = None,
) -> tuple[Alteration, ...]:
    """The fifteen corruptions of ImageNet-C, by severity."""
    # Level 0 is the identity, 1 to 5 are the benchmark's severities (`SEVERITIES`), at
    # which `jaxrob.metrics.mean_corruption_error` takes curves.
    size = checked_size("imagenet_c", size)
    stored = checked_flag("imagenet_c: published", published)
    found = _common(size, validation, frost_folder)
    return _stored(found, truncation_to_bytes_and_jpeg_85) if stored else found


def cifar_c(
    *,
    published: bool = False,
    validation: bool = False,
    frost_folder: str | os.PathLike[str] | None = None,
) -> tuple[Alteration, ...]:
    """The fifteen corruptions of CIFAR-10-C and CIFAR-100-C, by severity."""
    stored = checked_flag("cifar_c: published", published)
    found = _common(32, validation, frost_folder)
    return _stored(found, truncation_to_bytes) if stored else found


def _common(
    size: int | None, validation: bool, frost_folder: str | os.PathLike[str] | None
) -> tuple[Alteration, ...]:
    names = CORRUPTIONS
    if checked_flag("validation", validation):
        names += VALIDATION_CORRUPTIONS
    found = []
    for name in names:
        if name != "frost":
            found.append(getattr(corruptions, name)(size))
            continue
        try:
            found.append(corruptions.frost(size, frost_folder))
        except (FileNotFoundError, ImportError) as error:
            if frost_folder is not None:
                raise
            warn(
                f"frost is left out, and a mean over the other {len(CORRUPTIONS) - 1} "
                f"corruptions is not the benchmark's. {error}"
            )
    return tuple(found)


def _stored(
    corruptions: tuple[Alteration, ...], fixed: Callable[[jax.Array], jax.Array]
) -> tuple[Alteration, ...]:
    """Adds storage in files, and keeps the names that the means require."""
    return tuple(
        dataclasses.replace(
            followed_by(one, fixed, one.name),
            geometry=one.geometry,
            moves_pixels=one.moves_pixels,
        )
        for one in corruptions
    )


def _a_tenth_of_the_size() -> tuple[Alteration, Alteration]:
    """Translations right and down by a tenth, cropped so that no border appears."""
    return (
        horizontal_translation(-0.1, 0.1, fill="crop", unit="relative"),
        vertical_translation(-0.1, 0.1, fill="crop", unit="relative"),
    )
