"""On this machine, every platform's form gives the same result."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from jaxrob.alterations import (
    _forms,
    defocus_blur,
    gaussian_blur,
    horizontal_translation,
    motion_blur,
    rotation,
    vertical_translation,
    zoom,
)
from jaxrob.alterations._gaussian_blur import BLUR
from jaxrob.alterations._resample import BILINEAR, FILLS, GRID, window_positions
from jaxrob.alterations._rotation import ROTATION
from jaxrob.alterations._shifts import OWN_SHIFTS, SHIFTS

from .pictures import assert_near, random_image

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
# One row, one column, one pixel; one, three and other numbers of channels.
SHAPES = [
    (28, 28, 1),
    (3, 5, 3),
    (1, 1, 4),
    *(
        pytest.param(shape, marks=pytest.mark.slow)
        for shape in ((50, 50, 3), (1, 9, 1), (9, 1, 2))
    ),
]

by_form = functools.partial(pytest.mark.parametrize, "form")
shapes = st.tuples(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 2, 3]))


def correlated(image, kernel):
    """Correlates each channel with the kernel, edge pixels repeated."""
    planes = [
        ndimage.correlate(image[..., k].astype(float), kernel, mode="nearest")
        for k in range(image.shape[-1])
    ]
    return np.stack(planes, -1)


@functools.cache
def blurred_by(form, reach):
    def blur(image, level):
        return BLUR[form](jnp.moveaxis(image, -1, 0), level, reach=reach)

    return jax.jit(blur)


@functools.cache
def gathered_by(form):
    return jax.jit(BILINEAR[form])


@functools.cache
def resampled_by(form, fill):
    return jax.jit(functools.partial(GRID[form], fill=fill))


@pytest.mark.parametrize("part", PARTS)
def test_every_platform_and_size_has_a_form(part):
    for platform, size in itertools.product(PLATFORMS, (1, 28, 32, 33, 50, 51, 10**4)):
        assert _forms.form_for(part, platform, size) in PARTS[part]


@pytest.mark.parametrize("part", PARTS)
def test_no_form_is_left_that_no_platform_takes(part):
    assert {row.name for row in _forms.FORMS if row.part == part} == set(PARTS[part])


@by_form(BLUR)
@pytest.mark.parametrize(
    "shape", [*SHAPES, pytest.param((130, 97, 3), marks=pytest.mark.slow)]
)
def test_blur_equals_scipys(form, shape):
    image = random_image(shape)
    # The last one reaches beyond the image on all sides.
    for sigma, reach in ((0.4, 10), (2.0, 10), (12.0, 60)):
        truth = ndimage.gaussian_filter(
            image.astype(np.float64), (sigma, sigma, 0), mode="nearest", truncate=10
        )
        assert_near(blurred_by(form, reach)(image, sigma), truth, atol=BLUR_TOLERANCE)


@by_form(BLUR)
def test_blur_by_a_radius_far_beyond_the_image_is_the_mean_of_its_corners(form):
    image = random_image((5, 4, 2))
    corners = image[[0, 0, -1, -1], [0, -1, 0, -1]].mean(axis=0)
    blurred = blurred_by(form, 50_000)(image, 10_000.0)
    # 4 / 10,000 of the kernel lies on the image itself.
    np.testing.assert_allclose(
        blurred, np.broadcast_to(corners, image.shape), atol=1e-3
    )


@by_form(BILINEAR)
@pytest.mark.parametrize("shape", SHAPES)
def test_bilinear_equals_scipys_map_coordinates(form, shape):
    image = random_image(shape)
    generator = np.random.default_rng(1)
    height, width, channels = shape
    # Also positions beyond all edges.
    rows = generator.uniform(-2, height + 1, (17, 11)).astype(np.float32)
    columns = generator.uniform(-2, width + 1, (17, 11)).astype(np.float32)
    truth = [
        ndimage.map_coordinates(
            image[..., channel].astype(float), [rows, columns], order=1, mode="nearest"
        )
        for channel in range(channels)
    ]
    assert_near(
        gathered_by(form)(image, rows, columns), np.stack(truth, -1), atol=TOLERANCE
    )


@by_form(GRID)
@pytest.mark.parametrize(
    "fill, mode", [("edge", "nearest"), ("constant", "grid-constant")]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_grid_equals_scipys_affine_transform(form, fill, mode, shape):
    image = random_image(shape)
    height, width, _ = shape
    scale, start = np.float32(0.7), np.array([-1.6, 0.4], np.float32)
    truth = ndimage.affine_transform(
        image.astype(float),
        [scale, scale, 1],
        offset=[*(start + 0.5 * scale - 0.5), 0],
        order=1,
        mode=mode,
    )
    found = resampled_by(form, fill)(
        image,
        window_positions(start[0], scale, height),
        window_positions(start[1], scale, width),
    )
    assert_near(found, truth, atol=TOLERANCE)


@by_form(ROTATION)
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("shape", [*SHAPES, (21, 40, 2)])
def test_rotations_equal_scipys_map_coordinates(form, fill, shape):
    image = random_image(shape)
    height, width, channels = shape
    rotate = jax.jit(functools.partial(ROTATION[form], fill=fill))
    mode = "grid-constant" if fill == "constant" else "nearest"
    y, x = np.mgrid[:height, :width] - np.array([[[height - 1]], [[width - 1]]]) / 2
    for degrees in (-180.0, -121.0, -90.0, 0.0, 3.0, 45.0):
        cos, sin = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
        side = 1.0
        if fill == "crop":
            side = min(shape[:2]) / max(shape[:2]) / (abs(cos) + abs(sin))
        rows = (cos * y + sin * x) * side + (height - 1) / 2
        columns = (cos * x - sin * y) * side + (width - 1) / 2
        truth = [
            ndimage.map_coordinates(
                image[..., channel].astype(float), [rows, columns], order=1, mode=mode
            )
            for channel in range(channels)
        ]
        found = rotate(image, rows.astype(np.float32), columns.astype(np.float32))
        assert_near(found, np.stack(truth, -1), atol=TOLERANCE)


@by_form(SHIFTS)
@pytest.mark.parametrize("share", [0.2, 0.9])
@pytest.mark.parametrize(
    "shape", [*SHAPES, pytest.param((37, 20, 3), marks=pytest.mark.slow)]
)
def test_shifts_equal_scipys_correlation(form, share, shape):
    image, generator = random_image(shape), np.random.default_rng(2)
    kernel = generator.random((7, 7)) * (generator.random((7, 7)) < share)
    kernel /= kernel.sum()
    rows, columns = np.argwhere(kernel).T - 3
    weights = kernel[rows + 3, columns + 3].astype(np.float32)
    padded = np.pad(image, ((3, 3), (3, 3), (0, 0)), mode="edge")
    found = jax.jit(
        lambda padded, weights: SHIFTS[form](padded, weights, rows, columns, 3)
    )(padded, weights)
    assert_near(found, correlated(image, kernel), atol=BLUR_TOLERANCE)


@by_form(OWN_SHIFTS)
def test_images_own_shifts_equal_scipys_correlations(form):
    images = np.stack([random_image((12, 17, 3), seed) for seed in range(6)])
    weights = jnp.asarray(np.random.default_rng(3).dirichlet(np.ones(6)), jnp.float32)
    # Lines in all directions.
    angles = np.deg2rad(60.0 * np.arange(6) + 7)[:, None]
    rows, columns = (
        np.rint(np.arange(6) * along(angles)).astype(int) for along in (np.sin, np.cos)
    )
    padded = np.pad(images, ((0, 0), (5, 5), (5, 5), (0, 0)), mode="edge")
    found = jax.jit(
        jax.vmap(
            lambda padded, rows, columns: OWN_SHIFTS[form](
                padded, weights, rows, columns, 5
            )
        )
    )(padded, rows, columns)
    for image, down, right, one in zip(images, rows, columns, found):
        kernel = np.zeros((11, 11))
        np.add.at(kernel, (down + 5, right + 5), weights)
        assert_near(one, correlated(image, kernel), atol=BLUR_TOLERANCE)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(shape=shapes, reach=st.sampled_from([1, 4, 10, 90]), part=st.floats(0, 1))
def test_blurs_forms_agree_on_any_shape(shape, reach, part):
    image = random_image(shape)

    @jax.jit
    def by_all(sigma):
        planes = jnp.moveaxis(image, -1, 0)
        return [form(planes, sigma, reach=reach) for form in BLUR.values()]

    first, *others = by_all(np.float32(part * reach / 5))
    for other in others:
        assert_near(other, first, atol=BLUR_TOLERANCE)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    shape=shapes,
    seed=st.integers(0, 1000),
    fill=st.sampled_from([fill for fill in FILLS if fill != "crop"]),
)
def test_gathers_forms_and_products_agree_on_any_shape(shape, seed, fill):
    image = random_image(shape, seed)
    generator = np.random.default_rng(seed)
    rows, columns = (
        generator.uniform(-3, size + 2, 6).astype(np.float32) for size in shape[:2]
    )

    @jax.jit
    def by_all(rows, columns):
        both = jnp.meshgrid(rows, columns, indexing="ij")
        return (
            [form(image, rows, columns, fill=fill) for form in GRID.values()],
            [form(image, *both) for form in BILINEAR.values()],
        )

    for first, *others in by_all(rows, columns):
        for other in others:
            assert_near(other, first, atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "alteration, level",
    [
        (gaussian_blur(), 1.3),
        (zoom(), 1.3),
        (horizontal_translation(), 1.3),
        (vertical_translation(fill="constant"), -2.4),
        (rotation(fill="crop"), 33.0),
        (rotation(fill="constant"), -100.0),
        (defocus_blur(), 2.6),
        (motion_blur(), 1.7),
    ],
    ids=lambda value: getattr(value, "name", None),
)
@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_every_platforms_form_equals_the_cpus(platform, alteration, level, monkeypatch):
    truth = altered_and_slope(alteration, level)
    # This CPU takes another platform's forms.
    own, taken = _forms.form_for, []

    def form_for(part, _, size):
        taken.append(own(part, platform, size))
        return taken[-1]

    monkeypatch.setattr(_forms, "form_for", form_for)
    found = altered_and_slope.__wrapped__(alteration, level)
    assert taken
    assert_near(found[0], truth[0], atol=TOLERANCE)
    # A sum over 17,000 numbers in float32, of both signs.
    np.testing.assert_allclose(found[1], truth[1], rtol=1e-3)


@functools.cache
def altered_and_slope(alteration, level):
    """Returns images at a level, and the derivative of the sum of their squares."""
    images = random_image((4, 40, 36, 3))

    def altered(level):
        key = (jax.random.key(4),) if alteration.stochastic else ()
        return jax.vmap(lambda image: alteration(image, level, *key))(images)

    def energy(level):
        return (altered(level) ** 2).sum()

    return jax.jit(lambda level: (altered(level), jax.grad(energy)(level)))(level)


def identity_by(part, form, image):
    height, width, _ = image.shape
    rows, columns = (
        np.arange(height, dtype=np.float32),
        np.arange(width, dtype=np.float32),
    )
    if part == "blur":
        return blurred_by(form, 10)(image, 0.0)
    if part == "grid":
        return resampled_by(form, "edge")(image, rows, columns)
    if part == "bilinear":
        return gathered_by(form)(image, *np.meshgrid(rows, columns, indexing="ij"))
    if part == "rotation":
        rotate = jax.jit(functools.partial(ROTATION[form], fill="crop"))
        return rotate(image, *np.meshgrid(rows, columns, indexing="ij"))
    padded = np.pad(image, ((3, 3), (3, 3), (0, 0)))
    if part == "shifts":
        down, right = np.mgrid[-3:4, -3:4].reshape(2, 49)
        shift = jax.jit(lambda *args: SHIFTS[form](*args, down, right, 3))
        return shift(padded, np.eye(49, dtype=np.float32)[24])
    shift = jax.jit(functools.partial(OWN_SHIFTS[form], reach=3))
    weights = np.eye(3, dtype=np.float32)[0]
    return shift(padded, weights, np.array([0, 1, 2]), np.array([0, -1, -1]))


@pytest.mark.parametrize(
    "part, form", [(part, form) for part in PARTS for form in PARTS[part]]
)
def test_identity_is_exact_by_every_form(part, form):
    image = random_image((28, 20, 3))
    np.testing.assert_array_equal(identity_by(part, form, image), image)


def test_a_larger_image_takes_the_next_row():
    assert _forms.form_for("grid", "cpu", 32) != _forms.form_for("grid", "cpu", 33)
    assert math.isinf(max(row.largest for row in _forms.FORMS))
