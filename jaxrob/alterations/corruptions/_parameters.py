"""The benchmark's parameters by image size and severity, and between severities.

Source: github.com/hendrycks/robustness at commit 8190fe3, ImageNet-C/create_c:
make_imagenet_c.py (224 px), make_imagenet_c_inception.py (299 px),
make_tinyimagenet_c.py (64 px) and make_cifar_c.py (32 px).
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import checked_integer
from jaxrob._identity.digest import hashable_partial
from jaxrob.alterations._alteration import About

SIZES = (32, 64, 224, 299)
# An image's size may differ from a table's by this factor: the same blur in pixels, or
# photons per pixel, has another effect on much larger images.
FARTHEST = 1.5

Row = tuple[float, ...]
Rows = tuple[Row, ...]


@dataclasses.dataclass(frozen=True)
class Table:
    """A corruption's parameters."""

    corruption: str
    identity: Row  # the parameters at level 0
    px32: Rows  # those of severities 1 to 5 for images of 32 px, CIFAR-C's
    px64: Rows  # for images of 64 px, Tiny ImageNet-C's
    px224: Rows  # for images of 224 px, ImageNet-C's
    px299: Rows  # for images of 299 px, the Inception networks'
    # the meaning of the parameters, in words
    sets: str = dataclasses.field(compare=False)

    def about(self, size: int | None) -> About:
        return About(
            f"1 to 5 are the benchmark's severities, which set {self.sets}",
            {"size": functools.partial(size_for, self.corruption, size=size)},
            {"size": "px, for which the benchmark has these parameters"},
            doubt=hashable_partial(_doubt, size=size),
            size_matters=True,
        )

    def rows(self, size: int) -> np.ndarray:
        """Returns the parameters at levels 0 to 5 for a size: `[6, P]`, float64."""
        tables = (self.px32, self.px64, self.px224, self.px299)
        severities = tables[SIZES.index(size)]
        return np.array((self.identity, *severities), np.float64)


def checked_size(name: str, size: int | None) -> int | None:
    """Returns a size that has parameters, or None for the nearest to the image's."""
    if size is None:
        return None
    size = checked_integer(f"{name}: size", size)
    if size not in SIZES:
        raise ValueError(
            f"{name}: size must be one of {SIZES}, the sizes of images in pixels for "
            f"which the benchmark has parameters; got {size}"
        )
    return size


def size_for(name: str, image_shape: tuple[int, ...], size: int | None = None) -> int:
    """The image's entry of `SIZES`: `size`, or the nearest to its shorter side."""
    if size is not None:
        return size
    height, width = image_shape[:2]
    side = min(height, width)
    found = min(SIZES, key=lambda one: max(one / side, side / one))
    if max(found / side, side / found) > FARTHEST:
        raise ValueError(
            f"{name}: the benchmark has no parameters for an image of {height} x "
            f"{width} px, only for sizes near {SIZES}; choose those of one size, "
            f"size={found} for instance"
        )
    return found


def _doubt(
    lower: float, upper: float, image_shape: tuple[int, ...], *, size: int | None
) -> str | None:
    side = min(image_shape[:2])
    if size is None or max(size / side, side / size) <= FARTHEST:
        return None
    return (
        f"its parameters are those for images of {size} px, and these have "
        f"{image_shape[0]} x {image_shape[1]} px, for which as many pixels mean "
        "something else. size=None takes those of the nearest size."
    )


def at(rows: np.ndarray, level: jax.typing.ArrayLike) -> jax.Array:
    """Returns the parameters at a level, float32 `[P]`, linear between the rows."""
    level = jnp.asarray(level, jnp.float32)
    before = jnp.clip(jnp.floor(level), 0, len(rows) - 2).astype(jnp.int32)
    share = level - before
    values = jnp.asarray(rows, jnp.float32)
    return (1 - share) * values[before] + share * values[before + 1]


def _column(*values: float) -> Rows:
    return tuple((value,) for value in values)


GAUSSIAN_NOISE = Table(
    "gaussian noise",
    (0.0,),
    sets="the noise's standard deviation",
    px32=_column(0.04, 0.06, 0.08, 0.09, 0.10),
    px64=_column(0.04, 0.08, 0.12, 0.15, 0.18),
    px224=_column(0.08, 0.12, 0.18, 0.26, 0.38),
    px299=_column(0.09, 0.13, 0.19, 0.27, 0.40),
)

SHOT_NOISE = Table(
    "shot noise",
    (0.0,),
    sets="one over the photons of a white pixel",
    px32=_column(1 / 500, 1 / 250, 1 / 100, 1 / 75, 1 / 50),
    px64=_column(1 / 250, 1 / 100, 1 / 50, 1 / 30, 1 / 15),
    px224=_column(1 / 60, 1 / 25, 1 / 12, 1 / 5, 1 / 3),
    px299=_column(1 / 50, 1 / 20, 1 / 10, 1 / 5, 1 / 3),
)

IMPULSE_NOISE = Table(
    "impulse noise",
    (0.0,),
    sets="the share of values that become 0 or 1",
    px32=_column(0.01, 0.02, 0.03, 0.05, 0.07),
    px64=_column(0.01, 0.02, 0.05, 0.08, 0.14),
    px224=_column(0.03, 0.06, 0.09, 0.17, 0.27),
    px299=_column(0.04, 0.07, 0.10, 0.18, 0.28),
)

# The disk's radius and the standard deviation of the Gaussian that softens it, in px.
DEFOCUS_BLUR = Table(
    "defocus blur",
    (0.0, 0.0),
    sets="the disk's radius and how soft its edge is",
    px32=((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    px64=((0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)),
    px224=((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    px299=((4, 0.1), (5, 0.5), (7, 0.5), (10, 0.5), (12, 0.5)),
)

# The blurs' standard deviation in px, the largest move in px, the number of rounds.
GLASS_BLUR = Table(
    "glass blur",
    (0.0, 0.0, 0.0),
    sets="the blur, and how far and how often pixels move",
    px32=((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    px64=((0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)),
    px224=((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    px299=((0.8, 1, 3), (1, 3, 1), (1.1, 2, 4), (1.2, 4, 2), (1.6, 5, 2)),
)

# The radius (the kernel has 2 radius + 1 taps) and the standard deviation, in px.
MOTION_BLUR = Table(
    "motion blur",
    (0.0, 0.0),
    sets="the blur's length and standard deviation",
    px32=((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    px64=((10, 1), (10, 1.5), (10, 2), (10, 2.5), (12, 3)),
    px224=((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    px299=((12, 4), (17, 6), (17, 9), (17, 13), (22, 16)),
)

# End and step of `np.arange(1, end, step)`, the factors.
ZOOM_BLUR = Table(
    "zoom blur",
    (1.0, 0.01),
    sets="the largest of the zooms that are averaged",
    px32=((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
    px64=((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
    px224=((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    px299=((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
)

# The flakes' mean, standard deviation, zoom and threshold; the motion's radius and
# standard deviation in px; the image's share in the mixture with its whitened self.
SNOW = Table(
    "snow",
    (0.1, 0.3, 1, 0.5, 10, 4, 1),
    sets="the flakes, and how white the image becomes",
    px32=(
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    px64=(
        (0.1, 0.2, 1, 0.6, 8, 3, 0.8),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.8),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.7),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.65),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.6),
    ),
    px224=(
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    px299=(
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
)

# The factors of the image and of the picture of frost.
FROST = Table(
    "frost",
    (1.0, 0.0),
    sets="the shares of the image and of the frost",
    px32=((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    px64=((1, 0.3), (0.9, 0.4), (0.8, 0.45), (0.75, 0.5), (0.7, 0.55)),
    px224=((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
    px299=((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
)
# The factors by which the pictures of frost are shrunk.
FROST_SCALES = {32: 0.2, 64: 0.3, 224: 1.0, 299: 1.0}

# The strength, and the decay of finer details of the map.
FOG = Table(
    "fog",
    (0.0, 2.0),
    sets="the fog's strength and how fine it is",
    px32=((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    px64=((0.4, 3), (0.7, 3), (1, 2.5), (1.5, 2), (2, 1.75)),
    px224=((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    px299=((1.5, 2), (2, 2), (2.5, 1.8), (2.5, 1.6), (3, 1.5)),
)

BRIGHTNESS = Table(
    "brightness",
    (0.0,),
    sets="what is added to V of HSV",
    px32=_column(0.05, 0.1, 0.15, 0.2, 0.3),
    px64=_column(0.1, 0.2, 0.3, 0.4, 0.5),
    px224=_column(0.1, 0.2, 0.3, 0.4, 0.5),
    px299=_column(0.1, 0.2, 0.3, 0.4, 0.5),
)

CONTRAST = Table(
    "contrast",
    (1.0,),
    sets="the factor of the distance to each channel's mean",
    px32=_column(0.75, 0.5, 0.4, 0.3, 0.15),
    px64=_column(0.4, 0.3, 0.2, 0.1, 0.05),
    px224=_column(0.4, 0.3, 0.2, 0.1, 0.05),
    px299=_column(0.4, 0.3, 0.2, 0.1, 0.05),
)

# Displacement, its Gaussian's standard deviation, and the affine map's jitter, in px.
# The source has 244 for images of 224 px ("should have been 224"), and 360 for 299 px.
ELASTIC_TRANSFORM = Table(
    "elastic transform",
    (0.0, 0.0, 0.0),
    sets="how far an affine map and a smooth field move pixels",
    px32=(
        (0, 0, 2.56),
        (1.6, 6.4, 2.24),
        (2.56, 1.92, 1.92),
        (3.2, 1.28, 1.6),
        (3.2, 0.96, 0.96),
    ),
    px64=(
        (0, 0, 5.12),
        (3.2, 19.2, 3.84),
        (6.4, 5.12, 3.84),
        (6.4, 1.92, 1.92),
        (10.24, 1.92, 1.28),
    ),
    px224=(
        (488, 170.8, 24.4),
        (488, 19.52, 48.8),
        (12.2, 2.44, 4.88),
        (17.08, 2.44, 4.88),
        (29.28, 2.44, 4.88),
    ),
    px299=(
        (720, 252, 36),
        (720, 28.8, 72),
        (18, 3.6, 7.2),
        (25.2, 3.6, 7.2),
        (43.2, 3.6, 7.2),
    ),
)

PIXELATE = Table(
    "pixelate",
    (1.0,),
    sets="the pixels along an axis, as a share of the image's",
    px32=_column(0.95, 0.9, 0.85, 0.75, 0.65),
    px64=_column(0.9, 0.8, 0.7, 0.6, 0.5),
    px224=_column(0.6, 0.5, 0.4, 0.3, 0.25),
    px299=_column(0.5, 0.4, 0.3, 0.25, 0.2),
)

JPEG_COMPRESSION = Table(
    "jpeg compression",
    (100.0,),
    sets="the quality",
    px32=_column(80, 65, 58, 50, 40),
    px64=_column(65, 58, 50, 40, 25),
    px224=_column(25, 18, 15, 10, 7),
    px299=_column(23, 16, 13, 8, 5),
)

SPECKLE_NOISE = Table(
    "speckle noise",
    (0.0,),
    sets="the noise's standard deviation, as a share of the value",
    px32=_column(0.06, 0.1, 0.12, 0.16, 0.2),
    px64=_column(0.15, 0.2, 0.25, 0.3, 0.35),
    px224=_column(0.15, 0.2, 0.35, 0.45, 0.6),
    px299=_column(0.16, 0.21, 0.36, 0.46, 0.61),
)

GAUSSIAN_BLUR = Table(
    "gaussian blur",
    (0.0,),
    sets="the Gaussian's standard deviation, in pixels",
    px32=_column(0.4, 0.6, 0.7, 0.8, 1),
    px64=_column(0.5, 0.75, 1, 1.25, 1.5),
    px224=_column(1, 2, 3, 4, 6),
    px299=_column(1.5, 2.5, 3.5, 4.5, 6.5),
)

# The liquid's mean, standard deviation, the blur's in px, the threshold; the water's
# strength or the mud's blur in px; whether it is mud.
SPATTER = Table(
    "spatter",
    (0.65, 0.3, 1, 0.69, 0, 0),
    sets="the drops: water up to 3, then mud",
    px32=(
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    px64=(
        (0.62, 0.1, 0.7, 0.7, 0.6, 0),
        (0.65, 0.1, 0.8, 0.7, 0.6, 0),
        (0.65, 0.3, 1, 0.69, 0.6, 0),
        (0.65, 0.1, 0.7, 0.68, 0.6, 1),
        (0.65, 0.1, 0.5, 0.67, 0.6, 1),
    ),
    px224=(
        (0.65, 0.3, 4, 0.69, 0.6, 0),
        (0.65, 0.3, 3, 0.68, 0.6, 0),
        (0.65, 0.3, 2, 0.68, 0.5, 0),
        (0.65, 0.3, 1, 0.65, 1.5, 1),
        (0.67, 0.4, 1, 0.65, 1.5, 1),
    ),
    px299=(
        (0.65, 0.3, 4, 0.69, 0.9, 0),
        (0.65, 0.3, 3.5, 0.68, 0.9, 0),
        (0.65, 0.3, 3, 0.68, 0.8, 0),
        (0.65, 0.3, 1.2, 0.65, 1.8, 1),
        (0.67, 0.4, 1.2, 0.65, 1.8, 1),
    ),
)

SATURATE = Table(
    "saturate",
    (1.0, 0.0),
    sets="the factor and the offset of S of HSV",
    px32=((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
    px64=((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (30, 0.2)),
    px224=((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
    px299=((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
)
