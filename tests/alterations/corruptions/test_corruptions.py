"""Corruptions by severity: identity, continuity, gradients, bad input."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fed_corruptions import NAMES, noise, photograph

import jaxrob
from jaxrob.alterations import corruptions

KEY = jax.random.key(3)
# Frost needs pictures that are not part of this package: tests/alterations/corruptions/
# test_frost.py.
OURS = sorted(set(NAMES) - {"frost"})
# Pictures that move by steps: moves, rounds, numbers of pixels, quality, photons, hits.
BY_STEPS = ("glass_blur", "impulse_noise", "jpeg_compression", "pixelate", "shot_noise")
IN_COLOUR = ("frost", "saturate", "spatter")


def make(name, **keywords):
    return getattr(corruptions, name)(**keywords)


def picture():
    """A photograph with a black, a white and a grey patch."""
    image = np.array(photograph(32))
    image[:4, :4], image[:4, 4:8], image[4:8, :4] = 0, 255, 128
    return np.float32(image) / 255


def prepared(alteration, image):
    return compiled_prepare(alteration)(image, KEY if alteration.stochastic else None)


@functools.cache
def compiled(alteration):
    """Compiled functions for one level, and for a batch of levels."""
    many = jax.vmap(alteration.at_level, (None, 0))
    return jax.jit(alteration.at_level), jax.jit(many)


@functools.cache
def whole(alteration):
    return jax.jit(alteration)


@functools.cache
def compiled_prepare(alteration):
    return jax.jit(alteration.prepared)


def at_levels(alteration, image, levels):
    _, many = compiled(alteration)
    return np.asarray(many(prepared(alteration, image), jnp.float32(levels)))


@pytest.mark.parametrize("name", OURS)
def test_level_0_is_the_image_bit_for_bit(name):
    black = np.zeros((32, 32, 3), np.float32)
    for image in (picture(), np.float32(noise(32)) / 255, black):
        found = whole(make(name))(image, 0.0, KEY)
        np.testing.assert_array_equal(found, image)
        assert found.dtype == jnp.float32


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_results_lie_in_the_range_and_differ_from_the_image(name):
    image = picture()
    found = at_levels(make(name), image, [1, 3.3, 5])
    assert found.min() >= 0 and found.max() <= 1 and np.isfinite(found).all()
    assert (np.abs(found - image).max((1, 2, 3)) > 0.05).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(OURS) - set(BY_STEPS)))
def test_no_pixel_jumps(name):
    image = picture()
    for start in range(5):
        found = at_levels(make(name), image, np.linspace(start, start + 1, 101))
        steps = np.abs(np.diff(found, axis=0))
        assert steps.max() < 0.04
        # A step is a fraction of the way; a jump would be most of it.
        way = np.abs(found[-1] - found[0]).max()
        assert steps.max() <= 0.1 * way + 0.01


@pytest.mark.parametrize("name", ["impulse_noise", "shot_noise"])
def test_few_values_move_in_a_small_step(name):
    found = at_levels(make(name), picture(), np.linspace(0, 5, 501))
    assert np.abs(np.diff(found, axis=0)).mean((1, 2, 3)).max() < 0.004


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_gradients_are_finite(name):
    alteration = make(name)
    weights = jnp.asarray(np.random.RandomState(0).randn(32, 32, 3), jnp.float32)

    def value(image, level):
        return (alteration.at_level(prepared(alteration, image), level) * weights).sum()

    gradient = jax.jit(jax.grad(value, (0, 1)))
    for image in (picture(), jnp.zeros((32, 32, 3)), jnp.ones((32, 32, 3))):
        for level in (0.0, 0.5, 2.0, 5.0):
            for part in gradient(image, level):
                assert np.isfinite(part).all()


@pytest.mark.parametrize("name", ["brightness", "contrast", "fog", "gaussian_blur"])
def test_the_slope_in_the_level_is_a_difference_quotient(name):
    alteration, image = make(name), 0.25 + picture() / 4
    ready = prepared(alteration, image)

    def energy(level):
        return jnp.square(alteration.at_level(ready, level)).sum()

    energy_and_slope = jax.jit(jax.value_and_grad(energy))
    _, found = energy_and_slope(2.4)
    (above, _), (below, _) = energy_and_slope(2.5), energy_and_slope(2.3)
    expected = (above - below) / 0.2
    np.testing.assert_allclose(found, expected, rtol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_many_levels_at_once_are_what_each_is_alone(name):
    alteration, image = make(name), picture()
    levels = np.float32([0, 0.4, 1, 2.7, 4, 5])
    ready = prepared(alteration, image)
    alone, _ = compiled(alteration)
    together = at_levels(alteration, image, levels)
    for level, found in zip(levels, together):
        np.testing.assert_allclose(found, alone(ready, level), atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(OURS) - set(IN_COLOUR)))
def test_grey_images_are_altered(name):
    image = picture()[..., :1]
    found = at_levels(make(name), image, [0, 1, 5])
    assert found.shape == (3, 32, 32, 1)
    np.testing.assert_array_equal(found[0], image)
    assert np.abs(found[1:] - image).max() > 0.02


def test_a_grey_image_is_brightened_as_the_same_in_colour():
    image = picture()[..., :1]
    brighten = jax.jit(corruptions.brightness())
    grey = np.asarray(brighten(image, 4.0))
    colour = brighten(image.repeat(3, -1), 4.0)
    np.testing.assert_allclose(grey.repeat(3, -1), colour, atol=1e-7)
    np.testing.assert_allclose(grey, np.clip(image + 0.2, 0, 1), atol=1e-6)


@pytest.mark.parametrize("name", ["saturate", "spatter"])
def test_grey_is_refused_where_colour_is_needed(name):
    title = make(name).name
    with pytest.raises(ValueError, match=f"{title}: image must have three channels"):
        make(name)(jnp.zeros((32, 32, 1)), 1.0, KEY)


@pytest.mark.parametrize("name", OURS)
def test_bad_input_is_refused_in_words(name):
    alteration = make(name)
    with pytest.raises(ValueError, match=r"level must lie in \[0, 5\]; got 5.5"):
        alteration(picture(), 5.5, KEY)
    with pytest.raises(ValueError, match=r"level must lie in \[0, 5\]; got -1"):
        alteration(picture(), -1, KEY)
    with pytest.raises(ValueError, match="100 x 120 px.*size="):
        alteration(jnp.zeros((100, 120, 3)), 1.0, KEY)
    with pytest.raises(ValueError, match="size must be one of"):
        make(name, size=100)
    with pytest.raises(ValueError, match="the axis of the channels is missing"):
        alteration(jnp.zeros((32, 32)), 1.0, KEY)


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_any_size_and_proportion_with_a_choice(name):
    image = jnp.asarray(np.random.RandomState(1).rand(20, 27, 3), jnp.float32)
    found = at_levels(make(name, size=64), image, [0, 2, 5])
    assert found.shape == (3, 20, 27, 3) and np.isfinite(found).all()
    np.testing.assert_array_equal(found[0], image)


def test_qualities_are_evaluated_once_where_the_size_is_known():
    levels = corruptions.jpeg_compression(size=32).canonical(np.linspace(0, 5, 1001))
    # Level 0, and the qualities from 100 to 40.
    assert len(np.unique(levels)) == 62
    np.testing.assert_allclose(
        corruptions.jpeg_compression(size=32).canonical([1, 2, 3, 4, 5]),
        [1, 2, 3, 4, 5],
    )


@pytest.mark.parametrize("name", OURS)
def test_it_is_an_alteration_in_severities(name):
    alteration = make(name)
    assert isinstance(alteration, jaxrob.Alteration)
    assert (alteration.lower, alteration.upper, alteration.identity) == (0, 5, 0)
    assert alteration.unit == "severity"
    # Equal ones share a compiled program.
    assert alteration == make(name) and hash(alteration) == hash(make(name))
    assert alteration != make(name, size=64)
    assert (
        inspect.signature(getattr(corruptions, name)).parameters["size"].default is None
    )
