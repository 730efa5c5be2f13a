"""The same random numbers for a corruption of ours and for the benchmark's own code.

Its code is run from a folder outside the repository: ImageNet-C/create_c of
github.com/hendrycks/robustness at 8190fe3 (Apache-2.0), never part of this repository.
Its scripts make whole data sets when they are imported, and need torch and older
versions of NumPy and scikit-image than today's: their functions are extracted and given
what they need. Their algorithms are not changed.
"""

import ast
import contextlib
import functools
import itertools
import pathlib
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from PIL import Image
from scipy.stats import poisson

from jaxrob.alterations import corruptions
from jaxrob.alterations._geometric import Displacement
from jaxrob.alterations._photometric import ImpulseDraws, shot_draws
from jaxrob.alterations.corruptions._optics import ElasticDraws, moves
from jaxrob.alterations.corruptions._severity import table
from jaxrob.alterations.corruptions._spatter import layers
from jaxrob.alterations.corruptions._weather import (
    FROST_SCALES,
    FogDraws,
    SnowDraws,
    crop,
    frost_pictures,
    scaled,
)

NAMES = (
    "brightness contrast defocus_blur elastic_transform fog frost gaussian_blur "
    "gaussian_noise glass_blur impulse_noise jpeg_compression motion_blur pixelate "
    "saturate shot_noise snow spatter speckle_noise zoom_blur"
).split()
# These need no random numbers.
FIXED = (
    "brightness contrast defocus_blur gaussian_blur jpeg_compression pixelate saturate "
    "zoom_blur"
).split()
# The benchmark has ImageMagick make these.
BY_IMAGEMAGICK = ("motion_blur", "snow")


class Case(NamedTuple):
    """What ours draws of an image, and what the benchmark's code asks for."""

    drawn: Any
    random: Callable[[], dict]


def photograph(size):
    from sklearn.datasets import load_sample_image

    picture = Image.fromarray(load_sample_image("flower.jpg")[:420, 110:530])
    return np.asarray(picture.resize((size, size), Image.Resampling.BICUBIC))


def noise(size):
    return np.random.RandomState(7).randint(0, 256, (size, size, 3)).astype(np.uint8)


def ours(name, image, severities, drawn, folder=None):
    alteration = alteration_of(name, folder)
    image = np.float32(image) / 255
    prepared = (image, drawn) if drawn is not None else alteration.prepared(image)[0]
    altered = jax.jit(jax.vmap(alteration.fn, (None, 0)))
    return np.asarray(altered(prepared, np.float32(severities))) * 255


def theirs(name, image, severity, random, folder):
    """The benchmark's picture of bytes, in 0 to 255, before it truncates."""
    if name in BY_IMAGEMAGICK:
        pytest.importorskip("wand.image", reason="needs Wand and ImageMagick")
    if name == "elastic_transform":
        reason = "OpenCV before 5 takes positions in 32nds of a pixel"
        pytest.importorskip("cv2", minversion="5", reason=reason)
    function = load(folder, len(image), **random)[name]
    return np.asarray(function(Image.fromarray(image), severity), np.float64)


def alteration_of(name, folder=None):
    with_folder = {"folder": folder} if name == "frost" else {}
    return getattr(corruptions, name)(**with_folder)


def feed(name, image, folder=None):
    chance = np.random.RandomState(11)
    if name in FIXED:
        return Case(None, dict)
    return _FEEDS[name](np.float32(image) / 255, chance, folder)


def _normal(image, chance, folder):
    drawn = np.float32(chance.randn(*image.shape))
    return Case(drawn, lambda: {"normal": lambda size, scale: scale * drawn})


def _shots(image, chance, folder):
    uniform = np.float32(chance.randint(1, 2**23, image.shape)) / 2**23

    def counts(mean):
        return poisson.ppf(np.float64(uniform), np.maximum(mean, 1e-300))

    return Case(jax.jit(shot_draws)(uniform), lambda: {"poisson": counts})


def _impulses(image, chance, folder):
    drawn = np.float32(chance.rand(2, *image.shape))
    uniform, shade = drawn
    draws = ImpulseDraws(uniform, shade <= 0.5)
    return Case(draws, lambda: {"rng": Fed(*np.float64(drawn))})


def _fog(image, chance, folder):
    steps = (len(image) - 1).bit_length()
    drawn = [np.float32(chance.rand(3, 2**k, 2**k) * 2 - 1) for k in range(steps)]

    def random():
        numbers = [one for step in drawn for one in step]
        return {"uniform": lambda low, high, shape: high * numbers.pop(0)}

    return Case(FogDraws(tuple(drawn), image.max()), random)


def _frost(image, chance, folder):
    pictures = scaled(frost_pictures(folder), FROST_SCALES[len(image)])
    picture = chance.randint(len(pictures))
    room = [side - len(image) for side in pictures[picture].shape[:2]]
    numbers = (picture, *map(chance.randint, room))

    def random():
        left = list(numbers)
        return {"randint": lambda *limits: left.pop(0)}

    return Case(crop(pictures, numbers, image.shape), random)


def _spatter(image, chance, folder):
    drawn = np.float32(chance.randn(*image.shape[:2]))

    def random():
        return {"normal": lambda size, loc, scale: loc + scale * np.float64(drawn)}

    rows = table("spatter").by_size[len(image)]
    return Case(jax.jit(lambda noise: layers(noise, rows))(drawn), random)


def _motion(image, chance, folder):
    angle = chance.uniform(-45, 45)
    drawn = by_severity("motion_blur", image, np.float32(angle))
    return Case(drawn, lambda: {"uniform": lambda low, high: angle})


def _snow(image, chance, folder):
    flakes, angle = (
        np.float32(chance.randn(*image.shape[:2])),
        chance.uniform(-135, -45),
    )
    draws = SnowDraws(flakes, np.float32(angle))

    def random():
        return {
            "normal": lambda size, loc, scale: loc + scale * np.float64(flakes),
            "uniform": lambda low, high: angle,
        }

    return Case(by_severity("snow", image, draws), random)


def _elastic(image, chance, folder):
    corners = np.float32(chance.uniform(-1, 1, (3, 2)))
    rows, columns = np.float32(chance.uniform(-1, 1, (2, *image.shape[:2])))
    draws = ElasticDraws(corners, Displacement(rows, columns))

    def random():
        numbers = [corners, columns, rows]
        return {"uniform": lambda low, high, size: high * np.float64(numbers.pop(0))}

    return Case(by_severity("elastic_transform", image, draws), random)


def _glass(image, chance, folder):
    uniform = np.float32(chance.rand(4, *image.shape[:2]))
    side = len(image)

    def random():
        calls = itertools.count()

        @functools.cache
        def all_moves(high):
            return np.stack(moves(uniform, high)[::-1], -1)

        def one_move(low, high, size):
            # From the last pixel to the first of those that stay inside.
            turn, place = divmod(next(calls), (side - 2 * high) ** 2)
            row, column = divmod(place, side - 2 * high)
            return all_moves(high)[turn, side - high - row, side - high - column]

        return {"randint": one_move}

    return Case(by_severity("glass_blur", image, uniform), random)


def by_severity(name, image, draws):
    parts = dict(getattr(corruptions, name)().prepare.keywords)
    rows = parts["table"].by_size[len(image)]
    ready = jax.jit(lambda image, draws: parts["prepare"](image, draws, rows))
    return ready(image, draws)


_FEEDS = {
    "elastic_transform": _elastic,
    "fog": _fog,
    "frost": _frost,
    "gaussian_noise": _normal,
    "glass_blur": _glass,
    "impulse_noise": _impulses,
    "motion_blur": _motion,
    "shot_noise": _shots,
    "snow": _snow,
    "spatter": _spatter,
    "speckle_noise": _normal,
}


SCRIPTS = {
    32: "make_cifar_c.py",
    64: "make_tinyimagenet_c.py",
    224: "make_imagenet_c.py",
    299: "make_imagenet_c_inception.py",
}


class Fed(np.random.Generator):
    """A generator that returns given uniform numbers, in the order of the calls."""

    def __init__(self, *numbers):
        super().__init__(np.random.PCG64(0))
        self.numbers = list(numbers)

    def random(self, size=None, *args, **kwargs):
        found = self.numbers.pop(0)
        assert size is None or found.shape == tuple(np.atleast_1d(size))
        return found


def load(folder, size, **random):
    """By name: each takes a picture and a severity, and returns values to 255."""
    folder = pathlib.Path(folder)
    tree = ast.parse((folder / SCRIPTS[size]).read_text())
    wanted = ast.FunctionDef | ast.ClassDef
    skipped = ("DistortImageFolder", "MotionImage")
    tree.body = [
        node
        for node in tree.body
        if isinstance(node, wanted) and node.name not in skipped
    ]
    namespace = _namespace(folder, random)
    exec(compile(tree, SCRIPTS[size], "exec"), namespace)
    return namespace


def parameters(folder, size, name):
    """Returns the table `c` inside the function, as the script has it."""
    tree = ast.parse((pathlib.Path(folder) / SCRIPTS[size]).read_text())
    function = next(
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    kept = []
    for node in function.body:
        if isinstance(node, ast.Assign):
            kept.append(node)
        if isinstance(node, ast.Assign) and node.targets[0].id == "c":
            node.value = node.value.value  # Without [severity - 1].
            break
    namespace = {"np": np}
    exec(compile(ast.Module(kept, []), name, "exec"), namespace)
    return namespace["c"]


def _namespace(folder, random):
    import cv2
    import skimage
    import skimage.color
    import skimage.util
    from PIL import Image
    from scipy.ndimage import map_coordinates, zoom
    from skimage.filters import gaussian

    random = dict(random)
    rng = random.pop("rng", None)
    numpy = _stand_in(
        np,
        random=types.SimpleNamespace(**random),
        float_=np.float64,
        fromstring=np.frombuffer,
    )

    def blur(image, sigma, multichannel=False, **keywords):
        return gaussian(
            image, sigma, channel_axis=-1 if multichannel else None, **keywords
        )

    def noise(image, **keywords):
        return skimage.util.random_noise(image, rng=rng, **keywords)

    namespace = {
        "np": numpy,
        "cv2": _stand_in(cv2, imread=lambda name: cv2.imread(str(folder / name))),
        "sk": types.SimpleNamespace(
            color=skimage.color, util=types.SimpleNamespace(random_noise=noise)
        ),
        "gaussian": blur,
        "scizoom": zoom,
        "map_coordinates": map_coordinates,
        "PILImage": Image,
        "Image": Image,
    }
    from io import BytesIO

    namespace["BytesIO"] = BytesIO
    with contextlib.suppress(ImportError):  # Needs Wand, for two corruptions.
        namespace["MotionImage"] = _motion_image()
    return namespace


def _stand_in(module, **others):
    found = types.ModuleType(module.__name__)
    found.__dict__.update(vars(module))
    found.__dict__.update(others)
    return found


def _motion_image():
    import ctypes

    from wand.api import library
    from wand.image import Image

    library.MagickMotionBlurImage.argtypes = (ctypes.c_void_p, *3 * [ctypes.c_double])

    class MotionImage(Image):
        def motion_blur(self, radius=0.0, sigma=0.0, angle=0.0):
            library.MagickMotionBlurImage(self.wand, radius, sigma, angle)

    return MotionImage
