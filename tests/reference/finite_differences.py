"""Gradients held against differences of two values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

STEP = 0.02


def check_gradients(classifier, images):
    """Compares some gradients of a class's log-probability at uint8 images."""
    x = jnp.float32(images) / 255

    def loss(images):
        return classifier.log_probabilities(images)[0, :, 1].sum()

    gradient = np.asarray(jax.jit(jax.grad(loss))(x))
    for index in [(0, 0, 0, 0), (1, 3, 4, 2), (2, 7, 7, 1), (0, 4, 4, 1)]:
        step = np.zeros(x.shape, np.float32)
        step[index] = STEP
        difference = (loss(x + step) - loss(x - step)) / (2 * STEP)
        assert gradient[index] == pytest.approx(float(difference), rel=0.02, abs=1e-4)
