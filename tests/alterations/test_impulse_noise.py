import numpy as np

from jaxrob.alterations import impulse_noise

from .pictures import apply, random_key


def impulses(share):
    image = np.full((100, 100, 3), 0.5, np.float32)
    return np.asarray(apply(impulse_noise(0.0, 1.0), image, share, random_key(5)))


def test_that_share_of_the_values_is_black_or_white():
    for share in (0.0, 0.03, 0.27, 1.0):
        found = impulses(share)
        black, white = (found == 0).mean(), (found == 1).mean()
        error = 4 * np.sqrt(0.25 / found.size)
        assert abs(black - share / 2) < error and abs(white - share / 2) < error
        np.testing.assert_allclose(black + white + (found == 0.5).mean(), 1)


def test_a_value_that_is_hit_stays_hit_and_channels_are_apart():
    low, high = impulses(0.05), impulses(0.2)
    hit = low != 0.5
    np.testing.assert_array_equal(low[hit], high[hit])
    # Independent channels: both are hit with the product of the shares.
    both = hit[..., 0] & hit[..., 1]
    assert both.mean() < 4 * 0.05**2
