"""On this machine, every platform's form gives the same result."""

import functools
import itertools
import math

import jax
import numpy as np
import pytest
from scipy import ndimage

from jaxrob.alterations import _forms
from jaxrob.alterations._blur import BLUR
from jaxrob.alterations._geometric import ROTATION
from jaxrob.alterations._lens import OWN_SHIFTS, SHIFTS
from jaxrob.alterations._resample import BILINEAR, GRID

from .pictures import assert_near, by_channel, random_image

# As in the alterations' own tests: positions are off by 1e-7 of the image's size.
TOLERANCE = 2e-5
BLUR_TOLERANCE = 3e-6

PLATFORMS = ("cpu", "gpu", "tpu")
PARTS = {
    "blur": BLUR,
    "grid": GRID,
    "bilinear": BILINEAR,
    "rotation": ROTATION,
    "shifts": SHIFTS,
    "own shifts": OWN_SHIFTS,
}
# By the fill.
MODES = {"edge": "nearest", "crop": "nearest", "constant": "grid-constant"}
sampled_shapes = pytest.mark.parametrize("shape", [(13, 9, 3), (1, 1, 4)])


def by_all(forms, *operands, **static):
    """Returns each form's result; one program compiles faster than one per form."""
    return {name: form(*operands, **static) for name, form in forms.items()}


def sampled(image, rows, columns, mode):
    """Returns SciPy's bilinear values of all channels at the positions."""
    of_one = functools.partial(ndimage.map_coordinates, order=1, mode=mode)
    return by_channel(lambda plane: of_one(plane, [rows, columns]), image)


def correlated(image, kernel):
    """Correlates each channel with the kernel, edge pixels repeated."""
    return by_channel(
        lambda plane: ndimage.correlate(plane, kernel, mode="nearest"), image
    )


@pytest.mark.parametrize("part", PARTS)
def test_every_platform_and_size_has_a_form_and_every_form_a_platform(part):
    for platform, size in itertools.product(PLATFORMS, (1, 28, 32, 33, 50, 51, 10**4)):
        assert _forms.form_for(part, platform, size) in PARTS[part]
    assert {row.name for row in _forms.FORMS if row.part == part} == set(PARTS[part])


def test_a_larger_image_takes_the_next_row():
    assert _forms.form_for("grid", "cpu", 32) != _forms.form_for("grid", "cpu", 33)
    assert math.isinf(max(row.largest for row in _forms.FORMS))


@pytest.mark.parametrize(
    "shape, reach, sigmas",
    [
        # Shifts by all of the reach and by half of it; several blocks of both axes;
        # one row, and a reach beyond the image on all sides.
        ((21, 40, 2), 9, (0.8, 1.8)),
        ((83, 90, 1), 4, (0.8,)),
        ((1, 9, 3), 60, (2.0, 12.0)),
    ],
)
def test_blur_equals_scipys_and_0_is_the_image(shape, reach, sigmas):
    image = random_image(shape)
    blur = jax.jit(functools.partial(by_all, BLUR, reach=reach))
    planes = np.ascontiguousarray(np.moveaxis(image, -1, 0))
    for name, found in blur(planes, 0.0).items():
        np.testing.assert_array_equal(found, image, err_msg=name)
    for sigma in sigmas:
        truth = ndimage.gaussian_filter(
            image.astype(float), (sigma, sigma, 0), mode="nearest", truncate=10
        )
        for name, found in blur(planes, sigma).items():
            assert_near(found, truth, atol=BLUR_TOLERANCE, err_msg=name)


@sampled_shapes
def test_bilinear_equals_scipys_map_coordinates(shape):
    image = random_image(shape)
    generator = np.random.default_rng(1)
    # Also positions beyond all edges, and pixels' centres, whose values are exact.
    rows, columns = (
        np.float32(generator.uniform(-2, size + 1, (17, 11))) for size in shape[:2]
    )
    rows[0], columns[0] = generator.integers(0, shape[:2], (11, 2)).T
    truth = sampled(image, rows, columns, "nearest")
    found = jax.jit(functools.partial(by_all, BILINEAR))(image, rows, columns)
    for name, pixels in found.items():
        assert_near(pixels, truth, atol=TOLERANCE, err_msg=name)
        exact = np.asarray(pixels)[0]
        np.testing.assert_array_equal(exact, np.float32(truth[0]), err_msg=name)


@sampled_shapes
def test_grid_equals_scipys_affine_transform(shape):
    image = random_image(shape)
    height, width, _ = shape
    fills = ("edge", "constant")

    @jax.jit
    def resampled(image, rows, columns):
        return [by_all(GRID, image, rows, columns, fill=fill) for fill in fills]

    scale, start = np.float32(0.7), np.array([-1.6, 0.4], np.float32)
    positions = [
        np.float32(first + (np.arange(size) + 0.5) * scale - 0.5)
        for first, size in zip(start, shape[:2])
    ]
    whole = np.arange(height, dtype=np.float32), np.arange(width, dtype=np.float32)
    for fill, found, same in zip(
        fills, resampled(image, *positions), resampled(image, *whole)
    ):
        truth = ndimage.affine_transform(
            image.astype(float),
            [scale, scale, 1],
            offset=[*(start + 0.5 * scale - 0.5), 0],
            order=1,
            mode=MODES[fill],
        )
        for name in GRID:
            assert_near(found[name], truth, atol=TOLERANCE, err_msg=f"{name} {fill}")
            np.testing.assert_array_equal(same[name], image, err_msg=name)


def test_rotations_equal_scipys_map_coordinates():
    # Several tiles of 8 pixels with windows that move.
    height, width = 17, 20
    image = random_image((height, width, 2))
    y, x = np.mgrid[:height, :width] - np.array([[[height - 1]], [[width - 1]]]) / 2

    @jax.jit
    def rotated(image, crop, whole):
        return {
            fill: by_all(
                ROTATION, image, *(crop if fill == "crop" else whole), fill=fill
            )
            for fill in ("crop", "constant")
        }

    for degrees in (-180.0, -121.0, -90.0, 0.0, 3.0, 45.0):
        cos, sin = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
        side = min(
            width / (width * abs(cos) + height * abs(sin)),
            height / (width * abs(sin) + height * abs(cos)),
        )
        crop, whole = (
            (
                np.float32((cos * y + sin * x) * scale + (height - 1) / 2),
                np.float32((cos * x - sin * y) * scale + (width - 1) / 2),
            )
            for scale in (side, 1.0)
        )
        for fill, forms in rotated(image, crop, whole).items():
            truth = sampled(image, *(crop if fill == "crop" else whole), MODES[fill])
            for name, found in forms.items():
                message = f"{name} {fill} {degrees}"
                assert_near(found, truth, atol=TOLERANCE, err_msg=message)
                if degrees == 0:
                    np.testing.assert_array_equal(found, image, err_msg=message)


@pytest.mark.parametrize("share", [0.2, 0.9])
def test_shifts_equal_scipys_correlation(share):
    image, generator = random_image((13, 9, 3)), np.random.default_rng(2)
    kernel = generator.random((7, 7)) * (generator.random((7, 7)) < share)
    kernel[3, 3] = 0.5
    kernel /= kernel.sum()
    rows, columns = np.argwhere(kernel).T - 3
    padded = np.pad(image, ((3, 3), (3, 3), (0, 0)), mode="edge")
    places = {"rows": rows, "columns": columns, "reach": 3}
    shifted = jax.jit(lambda *operands: by_all(SHIFTS, *operands, **places))
    weights = np.float32(kernel[rows + 3, columns + 3])
    same = shifted(padded, np.float32((rows == 0) & (columns == 0)))
    for name, found in shifted(padded, weights).items():
        assert_near(found, correlated(image, kernel), atol=BLUR_TOLERANCE, err_msg=name)
        np.testing.assert_array_equal(same[name], image, err_msg=name)


def test_images_own_shifts_equal_scipys_correlations():
    images = np.stack([random_image((12, 17, 3), seed) for seed in range(6)])
    weights = np.float32(np.random.default_rng(3).dirichlet(np.ones(6)))
    # Lines in all directions.
    angles = np.deg2rad(60.0 * np.arange(6) + 7)[:, None]
    rows, columns = (
        np.rint(np.arange(6) * along(angles)).astype(int) for along in (np.sin, np.cos)
    )
    padded = np.pad(images, ((0, 0), (5, 5), (5, 5), (0, 0)), mode="edge")
    shifted = functools.partial(by_all, OWN_SHIFTS, reach=5)
    shifted = jax.jit(jax.vmap(shifted, (0, None, 0, 0)))
    same = shifted(padded, np.eye(6, dtype=np.float32)[0], rows, columns)
    for name, found in shifted(padded, weights, rows, columns).items():
        for image, down, right, one in zip(images, rows, columns, found):
            kernel = np.zeros((11, 11))
            np.add.at(kernel, (down + 5, right + 5), weights)
            truth = correlated(image, kernel)
            assert_near(one, truth, atol=BLUR_TOLERANCE, err_msg=name)
        np.testing.assert_array_equal(same[name], images, err_msg=name)
