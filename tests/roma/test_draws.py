"""Plain draws in blocks, beside the same draws one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import roma


def half(variables, images):
    """Class 1 where the weighted mean is positive."""
    mean = (images * variables).sum(axis=(1, 2, 3))
    return jnp.stack([0 * mean, 4 * mean], axis=1)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("channels", [1, 3])
def test_draws_are_those_of_their_keys(norm, channels):
    # Enough pixels for 16 random bits each; an odd number of them.
    shape = (5, 13, channels)
    rng = np.random.default_rng(0)
    weights = rng.normal(size=shape).astype(np.float32)
    images = rng.random((3, *shape), np.float32)
    # So that about half of all draws are on either side.
    weights -= weights.mean() + (images.mean(axis=0) * weights).sum() / images.sum()
    classifier = jaxrob.Classifier(half, weights, "logits")
    key, ball = jax.random.key(5), roma.ball(norm, 0.9, clip=True)
    settings = {"perturbation": ball, "delta": 0.5, "num_samples": 50, "key": key}
    found = roma.assess(classifier, images, estimator="count", **settings)
    for number, image in enumerate(images):
        own = jax.random.fold_in(key, number)
        excluded = half(weights, image[None])[0].argmax()
        hits = 0
        for draw in range(50):
            latent = ball.draw(jax.random.fold_in(own, draw), jnp.asarray(image))
            answer = half(weights, ball.perturbed(image, latent)[None])[0].argmax()
            hits += answer != excluded
        assert found.hits[number] == hits
    assert norm == "l1" or (found.hits > 0).any()
