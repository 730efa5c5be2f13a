import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrob.alterations import impulse_noise

IMAGE = jnp.full((100, 100, 3), 0.5)
KEY = jax.random.key(5)


@pytest.mark.parametrize("share", [0.0, 0.03, 0.27, 1.0])
def test_that_share_of_the_values_is_black_or_white(share):
    found = np.asarray(impulse_noise(0.0, 1.0)(IMAGE, share, KEY))
    black, white = (found == 0).mean(), (found == 1).mean()
    error = 4 * np.sqrt(0.25 / found.size)
    assert abs(black - share / 2) < error and abs(white - share / 2) < error
    np.testing.assert_allclose(black + white + (found == 0.5).mean(), 1)


def test_a_value_that_is_hit_stays_hit_and_channels_are_apart():
    low, high = (np.asarray(impulse_noise()(IMAGE, x, KEY)) for x in (0.05, 0.2))
    hit = low != 0.5
    np.testing.assert_array_equal(low[hit], high[hit])
    # Independent channels: both are hit with the product of the shares.
    both = hit[..., 0] & hit[..., 1]
    assert both.mean() < 4 * 0.05**2
