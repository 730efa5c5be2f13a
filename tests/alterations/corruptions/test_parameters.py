"""The benchmark's parameters: by size, between severities, and rejected sizes."""

import jax
import numpy as np
import pytest

from jaxrob.alterations.corruptions._parameters import (
    FROST,
    GAUSSIAN_NOISE,
    at,
    checked_size,
    size_for,
)


def test_severities_are_found_exactly_and_between_them_lines():
    rows = FROST.rows(224)
    found = jax.jit(jax.vmap(lambda level: at(rows, level)))
    found = found(np.float32([0, 1, 2, 3, 4, 5, 2.25, 0.5]))
    np.testing.assert_array_equal(found[:6], np.float32(rows))
    # Severity 3 is (0.7, 0.7), severity 2 (0.8, 0.6); level 0 is (1, 0).
    np.testing.assert_allclose(found[6], [0.775, 0.625], rtol=1e-6)
    np.testing.assert_allclose(found[7], [1.0, 0.2], rtol=1e-6)


def test_the_slope_at_a_level_is_that_of_its_line():
    slope = jax.jit(jax.grad(lambda level: at(GAUSSIAN_NOISE.rows(224), level)[0]))
    np.testing.assert_allclose(slope(3.5), 0.26 - 0.18, rtol=1e-5)
    np.testing.assert_allclose(slope(0.0), 0.08, rtol=1e-5)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((28, 28, 1), 32),
        ((48, 64, 3), 64),
        ((160, 160, 3), 224),
        ((224, 320, 3), 224),
        ((384, 384, 3), 299),
    ],
)
def test_the_nearest_size_is_taken(shape, size):
    assert size_for("fog", shape) == size
    assert size_for("fog", shape, 64) == 64


@pytest.mark.parametrize("side", [16, 120, 512])
def test_a_size_far_from_all_needs_a_choice(side):
    with pytest.raises(ValueError, match=f"fog: .*{side} x {side} px.*size"):
        size_for("fog", (side, side, 3))


@pytest.mark.parametrize(
    ("size", "error"),
    [(0, ValueError), (225, ValueError), (224.0, TypeError), (True, TypeError)],
)
def test_a_size_without_parameters_is_refused(size, error):
    with pytest.raises(error, match="fog: size"):
        checked_size("fog", size)
