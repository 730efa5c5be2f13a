import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import jaxrob
from jaxrob import bayes
from jaxrob.networks import MLP

RANDOM = np.random.default_rng(0)
IMAGES = np.float32(RANDOM.random((5, 3, 4, 1)))
RATE = 0.3
SAME = jaxrob.Alteration(
    name="nothing", fn=lambda image, level: image, lower=0, upper=1, identity=0
)


class Linear(linen.Module):
    @linen.compact
    def __call__(self, x, train=False):
        x = linen.Dropout(RATE, deterministic=not train)(x.reshape(len(x), -1))
        return linen.Dense(3)(x)


class Normalised(linen.Module):
    @linen.compact
    def __call__(self, x, train=False):
        x = linen.BatchNorm(use_running_average=not train)(x.reshape(len(x), -1))
        x = linen.Dropout(RATE)(x, deterministic=not train)
        x = linen.Dropout(RATE, broadcast_dims=(-1,))(x, deterministic=not train)
        return linen.Dense(3)(x)


class NnxLinear(nnx.Module):
    def __init__(self, rngs):
        self.dropout = nnx.Dropout(RATE, rngs=rngs)
        self.dense = nnx.Linear(12, 3, rngs=rngs)

    def __call__(self, x):
        return self.dense(self.dropout(x.reshape(len(x), -1)))


def linen_classifier(num_samples, module=None):
    module = module or Linear()
    variables = jax.jit(module.init)(jax.random.key(0), IMAGES)
    return bayes.mc_dropout(module, variables, num_samples)


def nnx_classifier(num_samples):
    return bayes.mc_dropout(NnxLinear(nnx.Rngs(0)), num_samples=num_samples)


@jax.jit
def raw_outputs(classifier, keys):
    return classifier.raw_outputs(jnp.asarray(IMAGES), keys)


def outputs(classifier, seed=0):
    keys = jax.random.split(jax.random.key(seed), len(IMAGES))
    return np.asarray(raw_outputs(classifier, keys))


@pytest.mark.parametrize("make", [linen_classifier, nnx_classifier])
def test_moments_of_a_linear_layer(make):
    classifier = make(20_000)
    variables = classifier.variables
    layer = variables.get("dense") or variables["params"]["Dense_0"]
    x, kernel = IMAGES.reshape(5, -1), np.asarray(layer["kernel"])
    samples = outputs(classifier)
    assert samples.shape == (20_000, 5, 3)
    mean = x @ kernel + np.asarray(layer["bias"])
    variance = RATE / (1 - RATE) * x**2 @ kernel**2
    error = 5 * np.sqrt(variance / 20_000)
    assert (np.abs(samples.mean(axis=0) - mean) < error).all()
    np.testing.assert_allclose(samples.var(axis=0), variance, rtol=0.06)
    # Images do not share their masks.
    residuals = (samples - mean)[:, :, 0]
    np.testing.assert_allclose(np.corrcoef(residuals.T), np.eye(5), atol=0.04)


@pytest.mark.slow
def test_masks_are_the_image_s_at_every_level_and_in_any_batch():
    classifier, data = linen_classifier(7), jaxrob.Dataset(IMAGES, np.zeros(5, int))
    key = jax.random.key(1)
    curve = jaxrob.evaluate(classifier, data, SAME, [0.0, 0.5, 1.0], key=key)
    np.testing.assert_array_equal(curve.uncertainty[1:], curve.uncertainty[:2])
    single = jaxrob.evaluate(classifier, data, SAME, [0.5], key=key, batch_size=1)
    np.testing.assert_allclose(single.uncertainty[0], curve.uncertainty[0], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("make", [linen_classifier, nnx_classifier])
def test_the_key_decides(make):
    np.testing.assert_array_equal(outputs(make(7)), outputs(make(7)))
    # A sample does not depend on how many there are, but for rounding.
    np.testing.assert_allclose(outputs(make(7))[:3], outputs(make(3)), rtol=1e-6)
    assert (outputs(make(7)) != outputs(make(7), 1)).any()


@pytest.mark.slow
def test_all_else_is_in_evaluation_mode():
    module = Normalised()
    variables = jax.jit(module.init)(jax.random.key(0), IMAGES)
    variables["batch_stats"]["BatchNorm_0"]["mean"] += 0.5
    classifier = bayes.mc_dropout(module, variables, 20_000)
    expected = jax.jit(module.apply)(variables, IMAGES)
    np.testing.assert_allclose(outputs(classifier).mean(0), expected, atol=0.05)


def test_equal_modules_are_one_program():
    assert linen_classifier(3).apply_fn == linen_classifier(3, Linear()).apply_fn
    assert nnx_classifier(3).apply_fn == nnx_classifier(3).apply_fn


class NnxDense(nnx.Module):
    def __init__(self, rngs):
        self.dense = nnx.Linear(12, 3, rngs=rngs)

    def __call__(self, x):
        return self.dense(x.reshape(len(x), -1))


def test_modules_without_dropout():
    with pytest.raises(ValueError, match="NnxDense"):
        bayes.mc_dropout(NnxDense(nnx.Rngs(0)))
    classifier = linen_classifier(3, MLP(num_classes=3))
    with pytest.raises(ValueError, match="MLP"):
        classifier.num_classes(IMAGES.shape[1:])


def test_bad_input():
    with pytest.raises(ValueError, match="num_samples"):
        linen_classifier(0)
    with pytest.raises(TypeError, match="module"):
        bayes.mc_dropout(lambda variables, images: jnp.zeros(3), {})
