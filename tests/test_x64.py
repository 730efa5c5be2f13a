"""What the library draws and computes has 32 bits with `jax_enable_x64`, too."""

import re

import jax
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations, bayes, roma
from jaxrob._keys import checked_key
from jaxrob.alterations import corruptions
from jaxrob.domains._levels import checked_profile
from jaxrob.networks import MLP
from jaxrob.retraining._mixture import random_levels

from .linear import linear

KEY = jax.random.key(0)
# Arrays of floats, and random words, in the text of a program.
WIDE = re.compile(r"f64\[\d|bit_width=64|xf64>")
# JPEG's arithmetic is slow to trace, and frost needs pictures.
NAMES = sorted(set(corruptions.__all__) - {"jpeg_compression", "frost"})
ALTERATIONS = [
    *(getattr(corruptions, name)() for name in NAMES),
    alterations.elastic_deformation(),
    alterations.rotation(fill="crop"),
    alterations.horizontal_translation(-2, 2, fill="crop", unit="px"),
    *(alterations.motion_blur(0, 40), alterations.defocus_blur(0, 3)),
]


@pytest.mark.parametrize("alteration", ALTERATIONS, ids=lambda one: one.name)
def test_alterations(alteration):
    image = np.zeros((32, 32, 3), np.float32)
    with jax.enable_x64(True):
        assert not WIDE.search(
            str(jax.make_jaxpr(alteration)(image, alteration.upper, KEY))
        )


@pytest.mark.slow
def test_nuts():
    images = np.random.default_rng(0).random((8, 2, 2, 1), np.float32)
    data, module = jaxrob.Dataset(images, np.arange(8) % 2), MLP((), 2)
    with jax.enable_x64(True):
        found = bayes.nuts(module, data, key=KEY, num_warmup=2, num_draws=3)
    leaves = jax.tree.leaves((found.samples, found.location, found.scale))
    assert {leaf.dtype for leaf in leaves} == {np.dtype("float32")}


def test_keys():
    key = jax.random.key(5, impl="rbg")
    one = jax.random.key_data(checked_key(key))
    with jax.enable_x64(True):
        assert (jax.random.key_data(checked_key(key)) == one).all()
    noise = roma.from_alteration(alterations.gaussian_noise())
    image = np.zeros((2, 2, 1), np.float32)
    with jax.default_prng_impl("rbg"):
        noise.perturbed(image, noise.draw(KEY, image))


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator, norm", [("count", "l1"), ("importance", "l2"), ("splitting", "linf")]
)
def test_roma(estimator, norm):
    weights = np.float32(np.random.default_rng(0).normal(size=(64, 3)))
    images = np.full((2, 8, 8, 1), 0.5, np.float32)
    asked = {"num_samples": 64, "epsilon": 0.5, "norm": norm, "key": KEY, "delta": 0.5}

    def found():
        classifier = jaxrob.Classifier(linear, weights)
        return roma.assess(classifier, images, estimator=estimator, **asked)

    with jax.enable_x64(True):
        wide = found()
    one = found()
    assert wide.status.tolist() == one.status.tolist()
    np.testing.assert_allclose(
        wide.log_adversarial_probability, one.log_adversarial_probability, 1e-3
    )


def test_draws_are_the_same():
    near, image = roma.ball("linf", 0.1), np.full((8, 8, 1), 0.5, np.float32)
    level = alterations.brightness(), (3,)
    recorded = checked_profile(
        jaxrob.Domain(level[:1]), np.linspace(0, 0.5, 99)[:, None]
    )

    def drawn(key):
        latent = near.draw(key, image)
        moved = near.move(key, latent, 0.5), random_levels(*level, key)
        return recorded.draw(key), latent, moved, near.perturbed(image, latent)

    with jax.enable_x64(True):
        found = jax.jit(drawn)(KEY)
    assert abs(found[-1] - image).max() <= 0.1 + 1e-7
    jax.tree.map(np.testing.assert_array_equal, found, jax.jit(drawn)(KEY))


def test_strict_settings_of_jax_are_lifted_as_the_limits_say():
    images = np.random.default_rng(0).random((8, 8, 8, 1), np.float32)
    classifier = jaxrob.Classifier(linear, np.eye(64, 3, dtype=np.float32) - 0.5)
    dataset = jaxrob.Dataset(images, np.arange(8) % 3)
    given = classifier, dataset, alterations.gaussian_blur(), [0.0, 1.0]
    plain = jaxrob.evaluate(*given).predicted
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            np.testing.assert_array_equal(jaxrob.evaluate(*given).predicted, plain)
    with jax.threefry_partitionable(False), pytest.raises(ValueError, match="key"):
        jaxrob.evaluate(*given, key=KEY)
    with jax.debug_nans(True):
        np.testing.assert_array_equal(jaxrob.evaluate(*given).predicted, plain)
