"""Plain draws in blocks, beside the same draws one by one."""

import jax
import numpy as np
import pytest
from scipy import special

import jaxrob
from jaxrob import roma

from .planes import SHAPE, apply


# Below a delta of one half Definition 3 asks for the class as well as for its
# confidence.
@pytest.mark.parametrize(
    "estimator", ["count", pytest.param("auto", marks=pytest.mark.slow)]
)
def test_hits_are_those_of_the_draws_of_each_key(estimator):
    number, delta, rng = 200, 0.3, np.random.default_rng(0)
    planes = np.float32(rng.normal(size=(6, 64)) / 8), np.full(6, -0.2, np.float32)
    variables = *planes, np.bool_(False)
    images = rng.random((3, *SHAPE), np.float32)
    key, ball = jax.random.key(5), roma.ball("linf", 0.9, clip=True)
    settings = {"perturbation": ball, "num_samples": number, "key": key}
    classifier = jaxrob.Classifier(apply, variables)
    found = roma.assess(
        classifier, images, delta=delta, estimator=estimator, **settings
    )

    @jax.jit
    @jax.vmap
    def logits_of(index, image):
        def one(draw):
            own = jax.random.fold_in(jax.random.fold_in(key, index), draw)
            return ball.perturbed(image, ball.draw(own, image))

        return apply(variables, jax.vmap(one)(np.arange(number)))

    logits = logits_of(np.arange(3), images)
    p = special.softmax(np.float64(logits), axis=-1)
    wrong = p.argmax(axis=-1) != found.excluded[:, None]
    # For the cascade they are sums over classes, whose events exclude each other.
    expected = (wrong & (p.max(axis=-1) >= delta)).sum(axis=1)
    np.testing.assert_array_equal(found.hits, expected)
    assert expected.all() and (p.argmax(axis=-1) == 2).any()
