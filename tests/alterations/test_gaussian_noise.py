import jax
import numpy as np
import pytest
from scipy import stats

from jaxrob.alterations import gaussian_noise

from .pictures import apply, assert_near

# Keys are fixed, so these random tests always give the same result: at these confidence
# levels a correct generator fails for one key in thousands.
KEY = jax.random.key(2020)
SHAPE = (120, 110, 3)
BLACK = np.zeros(SHAPE, np.float32)  # adding to 0 loses no digit of the noise


def noise(level, key=KEY, upper=1.0):
    altered = apply(gaussian_noise(0, upper, clip=False), BLACK, level, key)
    return np.asarray(altered, np.float64)


@pytest.mark.parametrize("level", [1e-6, 200 / 255**2, 0.2, 1.0])
def test_is_normal_with_the_level_as_variance(level):
    drawn = noise(level)
    assert stats.kstest((drawn / np.sqrt(level)).ravel(), "norm").pvalue > 1e-3
    # The sum of squares over the variance is chi-squared distributed.
    low, high = stats.chi2.interval(0.999, drawn.size)
    assert low < (drawn**2).sum() / level < high
    standard_error = np.sqrt(level / drawn.size)
    assert abs(drawn.mean()) < 3.3 * standard_error


def test_pixels_and_channels_are_independent():
    drawn = noise(1.0)
    pairs = {
        "rows": (drawn[1:], drawn[:-1]),
        "columns": (drawn[:, 1:], drawn[:, :-1]),
        "red, green": (drawn[..., 0], drawn[..., 1]),
        "red, blue": (drawn[..., 0], drawn[..., 2]),
        "green, blue": (drawn[..., 1], drawn[..., 2]),
    }
    for name, (one, other) in pairs.items():
        assert stats.pearsonr(one.ravel(), other.ravel()).pvalue > 1e-3, name


def test_keys_are_independent():
    first, second = jax.random.split(KEY)
    one, other = noise(1.0, first), noise(1.0, second)
    assert stats.pearsonr(one.ravel(), other.ravel()).pvalue > 1e-3


def test_same_key_gives_the_same_noise_at_all_levels_up_to_scale():
    unit = noise(1.0)
    for level in (1e-6, 1e-3, 0.04, 0.2):
        # float32's square root and product: two roundings.
        np.testing.assert_allclose(noise(level), np.sqrt(level) * unit, rtol=3e-7)


def test_range_does_not_change_the_noise():
    np.testing.assert_array_equal(noise(0.1, upper=0.2), noise(0.1, upper=1.0))


def test_is_added_to_the_image():
    image = np.random.default_rng(0).random(SHAPE, np.float32)
    altered = apply(gaussian_noise(clip=False), image, 1e-3, KEY)
    # One float32 rounding of a sum below 2.
    assert_near(altered, image + noise(1e-3), atol=2e-7)


def test_clip_saturates():
    grey = np.full(SHAPE, 0.5, np.float32)
    clipped = np.asarray(apply(gaussian_noise(0, 1), grey, 0.25, KEY))
    free = apply(gaussian_noise(0, 1, clip=False), grey, 0.25, KEY)
    np.testing.assert_array_equal(clipped, np.clip(free, 0, 1))
    # Each end is one standard deviation away: 15.9 % of the pixels saturate at each.
    for end in (0, 1):
        saturated = int((clipped == end).sum())
        share = stats.norm.sf(1)
        assert stats.binomtest(saturated, clipped.size, share).pvalue > 1e-3
