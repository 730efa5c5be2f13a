import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from scipy import special

import jaxrob
from jaxrob import alterations, bayes
from jaxrob.networks import MLP

RANDOM = np.random.default_rng(0)
IMAGES = np.float32(RANDOM.random((6, 3, 3, 1)))
MODULE = MLP(features=(4,), num_classes=3)
MEMBERS = [jax.jit(MODULE.init)(jax.random.key(seed), IMAGES) for seed in range(3)]


class NnxLinear(nnx.Module):
    def __init__(self, rngs):
        self.dense = nnx.Linear(9, 3, rngs=rngs)

    def __call__(self, x):
        return self.dense(x.reshape(len(x), -1))


def test_it_is_the_mean_of_the_members_probabilities():
    classifier = bayes.ensemble(MODULE, MEMBERS)
    p = [special.softmax(MODULE.apply(member, IMAGES), axis=1) for member in MEMBERS]
    np.testing.assert_allclose(
        np.exp(classifier.log_probabilities(IMAGES)), p, atol=1e-6
    )
    mean = np.mean(p, axis=0)
    data = jaxrob.Dataset(IMAGES, np.zeros(6, int))
    curve = jaxrob.evaluate(classifier, data, alterations.brightness(), [0.0])
    np.testing.assert_array_equal(curve.predicted[0], mean.argmax(axis=1))
    np.testing.assert_allclose(curve.confidence[0], mean.max(axis=1), atol=1e-6)


def test_functions_and_other_outputs():
    def p_of_class_1(variables, images):
        return jax.nn.sigmoid(images.reshape(len(images), -1) @ variables)[:, None]

    weights = [np.float32(RANDOM.normal(size=9)) for _ in range(2)]
    classifier = bayes.ensemble(p_of_class_1, weights, outputs="sigmoid")
    p = np.exp(classifier.log_probabilities(IMAGES))
    expected = [special.expit(IMAGES.reshape(6, 9) @ w) for w in weights]
    np.testing.assert_allclose(p[..., 1], expected, atol=1e-6)


def test_nnx_modules():
    modules = [NnxLinear(nnx.Rngs(seed)) for seed in range(2)]
    classifier = bayes.ensemble(modules[0], [nnx.state(module) for module in modules])
    expected = [special.log_softmax(m(jnp.asarray(IMAGES)), axis=1) for m in modules]
    np.testing.assert_allclose(
        classifier.log_probabilities(IMAGES), expected, atol=1e-5
    )


def test_members_of_one_nnx_module_that_trains_on_differ():
    module, members, expected = NnxLinear(nnx.Rngs(0)), [], []
    for number in range(3):
        module.dense.kernel[...] = module.dense.kernel[...] * (1 + number)
        # As the docstring says.
        members.append(jaxrob.Classifier.from_nnx(module).variables)
        expected.append(special.log_softmax(module(jnp.asarray(IMAGES)), axis=1))
    found = bayes.ensemble(module, members).log_probabilities(IMAGES)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(np.diff(found, axis=0)).max(axis=(1, 2)).min() > 1e-3


def test_members_that_are_one_are_warned_of():
    module = NnxLinear(nnx.Rngs(0))
    with pytest.warns(jaxrob.RobustnessWarning, match="members 0 and 2 are the same"):
        bayes.ensemble(
            module,
            [nnx.state(module), nnx.state(NnxLinear(nnx.Rngs(1))), nnx.state(module)],
        )


def test_ensembles_of_equal_modules_are_one_program():
    again = bayes.ensemble(MLP(features=(4,), num_classes=3), MEMBERS[::-1])
    assert again.apply_fn == bayes.ensemble(MODULE, MEMBERS).apply_fn


def test_bad_members():
    with pytest.raises(ValueError, match="members is empty"):
        bayes.ensemble(MODULE, [])
    other = jax.jit(MLP(features=(5,), num_classes=3).init)(jax.random.key(0), IMAGES)
    with pytest.raises(ValueError, match="those of member 2 differ"):
        bayes.ensemble(MODULE, [*MEMBERS[:2], other])
    with pytest.raises(TypeError, match="module must be a Flax module.*; got .*str"):
        bayes.ensemble("mlp", MEMBERS)
