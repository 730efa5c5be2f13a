import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from jaxrob.networks import max_pool


@pytest.mark.parametrize("size", [2, 3])
def test_value_and_gradient_are_those_of_flax(size):
    # Distinct values: without ties there is one gradient.
    count = 2 * 7 * 8 * 3
    random = np.random.default_rng(0)
    x = random.permutation(np.arange(count, dtype=np.float32)).reshape(2, 7, 8, 3)

    def plain(x):
        return nn.max_pool(x, (size, size), strides=(size, size))

    weights = random.normal(size=(2, 7 // size, 8 // size, 3)).astype(np.float32)

    def value_and_gradient(pool):
        return pool(x), jax.grad(lambda x: (weights * pool(x)).sum())(x)

    pools = [lambda x: max_pool(x, size), plain]
    ours, theirs = jax.jit(lambda: [value_and_gradient(pool) for pool in pools])()
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def test_ties_share_the_gradient():
    gradient = jax.jit(jax.grad(lambda x: max_pool(x, 2).sum()))(jnp.ones((1, 2, 2, 1)))
    np.testing.assert_allclose(gradient, 0.25)
