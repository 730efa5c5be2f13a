"""A posterior's classifier in the engine: levels and batches do not matter."""

import jax
import numpy as np
import pytest
from scipy import special

from jaxrob import bayes
from jaxrob.networks import MLP

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def classifiers(posteriors):
    return {
        head: bayes.classifier(posterior, 4, key=KEY)
        for head, posterior in posteriors.items()
    }


def draw(classifier, number):
    return jax.tree.map(lambda leaf: leaf[number], classifier.variables["params"])


def test_plain_outputs_are_those_of_each_draw(classifiers, modules, images):
    classifier = classifiers["plain"]
    log_p = jax.jit(type(classifier).log_probabilities)(classifier, images)
    assert log_p.shape == (4, 64, 3) and not classifier.stochastic
    for number in range(4):
        params = draw(classifier, number)
        logits = jax.jit(modules["plain"].apply)({"params": params}, images)
        expected = special.log_softmax(logits, axis=1)
        np.testing.assert_allclose(log_p[number], expected, atol=1e-4)


@pytest.mark.slow
def test_heteroscedastic_outputs_average_the_noise_at_each_draw(
    classifiers, modules, images
):
    classifier, few = classifiers["heteroscedastic"], images[:6]
    keys = jax.random.split(jax.random.key(1), (500, 6))
    p = np.exp(jax.jit(jax.vmap(classifier.log_probabilities, (None, 0)))(few, keys))
    assert p.shape == (500, 4, 6, 3)
    noise = np.random.default_rng(0).normal(size=(20_000, 1, 3))
    for number in range(4):
        params = draw(classifier, number)
        outputs = jax.jit(modules["heteroscedastic"].apply)({"params": params}, few)
        mean, raw = np.split(np.asarray(outputs), 2, axis=1)
        slow = special.softmax(mean + np.log1p(np.exp(raw)) * noise, axis=-1)
        np.testing.assert_allclose(p[:, number].mean(0), slow.mean(0), atol=0.015)


def test_the_key_decides(posteriors):
    one, two, other = (
        bayes.classifier(posteriors["plain"], 4, key=jax.random.key(seed))
        for seed in (0, 0, 1)
    )
    kernels = [
        np.asarray(c.variables["params"]["Dense_0"]["kernel"])
        for c in (one, two, other)
    ]
    assert (kernels[0] == kernels[1]).all() and (kernels[0] != kernels[2]).any()
    assert one.apply_fn == two.apply_fn and hash(one.apply_fn) == hash(two.apply_fn)


@pytest.mark.slow
def test_draws_of_samples_are_each_of_them_once(sampled_posterior):
    classifier = bayes.classifier(sampled_posterior, 20, key=KEY)
    draws, samples = (
        np.sort(tree["Dense_0"]["kernel"], axis=0)
        for tree in (classifier.variables["params"], sampled_posterior.samples)
    )
    np.testing.assert_array_equal(draws, samples)
    assert sampled_posterior.num_parameters == 9 * 8 + 8 + 8 * 3 + 3
    with pytest.raises(ValueError, match="num_samples"):
        bayes.classifier(sampled_posterior, 21, key=KEY)


@pytest.mark.slow
def test_fit_composes_inference_and_draws(data, modules, settings):
    head = "heteroscedastic"
    one, two, other = (
        bayes.fit(modules[head], data, num_samples=4, head=head, **settings | changes)
        for changes in ({}, {}, {"key": jax.random.key(1)})
    )
    keys = jax.random.split(KEY, 64)
    images = np.float32(data.images) / 255
    p, again, another = (
        np.exp(classifier.log_probabilities(images, keys))
        for classifier in (one, two, other)
    )
    assert p.shape == (4, 64, 3)
    np.testing.assert_array_equal(p, again)
    assert (p != another).all(axis=(1, 2)).all()


def test_bad_arguments(posteriors, data):
    with pytest.raises(ValueError, match="num_samples"):
        bayes.classifier(posteriors["plain"], 0, key=KEY)
    with pytest.raises(ValueError, match="num_samples"):
        bayes.fit(MLP(), data, key=KEY, num_samples=0)
    with pytest.raises(ValueError, match="inference"):
        bayes.fit(MLP(), data, key=KEY, inference="laplace")
    with pytest.raises(TypeError, match="epochs"):
        bayes.fit(MLP(), data, key=KEY, inference="nuts", epochs=3)
