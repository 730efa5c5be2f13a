import numpy as np
from scipy import stats

from jaxrob.alterations import gaussian_noise

from .pictures import apply, assert_near, random_image, random_key

# Keys are fixed, so these random tests always give the same result: at these confidence
# levels a correct generator fails for one key in thousands.
SHAPE = (120, 110, 3)
BLACK = np.zeros(SHAPE, np.float32)  # adding to 0 loses no digit of the noise


def noise(level, image=BLACK, seed=2020):
    free = gaussian_noise(0, 1, clip=False)
    return np.asarray(apply(free, image, level, random_key(seed)), np.float64)


def test_is_normal_with_the_level_as_variance():
    drawn, level = noise(0.2), 0.2
    assert stats.kstest((drawn / np.sqrt(level)).ravel(), "norm").pvalue > 1e-3
    # The sum of squares over the variance is chi-squared distributed.
    low, high = stats.chi2.interval(0.999, drawn.size)
    assert low < (drawn**2).sum() / level < high
    standard_error = np.sqrt(level / drawn.size)
    assert abs(drawn.mean()) < 3.3 * standard_error


def test_pixels_channels_and_keys_are_independent():
    drawn = noise(1.0)
    pairs = {
        "rows": (drawn[1:], drawn[:-1]),
        "columns": (drawn[:, 1:], drawn[:, :-1]),
        "red, green": (drawn[..., 0], drawn[..., 1]),
        "red, blue": (drawn[..., 0], drawn[..., 2]),
        "green, blue": (drawn[..., 1], drawn[..., 2]),
        "keys": (drawn, noise(1.0, seed=2021)),
    }
    for name, (one, other) in pairs.items():
        assert stats.pearsonr(one.ravel(), other.ravel()).pvalue > 1e-3, name


def test_same_key_gives_the_same_noise_at_all_levels_up_to_scale():
    unit = noise(1.0)
    for level in (1e-6, 1e-3, 0.04, 0.2):
        # float32's square root and product: two roundings.
        np.testing.assert_allclose(noise(level), np.sqrt(level) * unit, rtol=3e-7)


def test_is_added_to_the_image_and_clipped_whatever_the_range():
    image = random_image(SHAPE)
    free = noise(0.25, image)
    # One float32 rounding of a sum of a few.
    assert_near(free, image + noise(0.25), atol=5e-7)
    clipped = apply(gaussian_noise(0, 0.5), image, 0.25, random_key(2020))
    np.testing.assert_array_equal(clipped, np.clip(free, 0, 1))
