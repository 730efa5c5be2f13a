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


@pytest.fixture(scope="module")
def members():
    init = jax.jit(MODULE.init)
    return [init(jax.random.key(seed), IMAGES) for seed in range(3)]


def log_probabilities(classifier):
    return jax.jit(type(classifier).log_probabilities)(classifier, IMAGES)


class NnxLinear(nnx.Module):
    def __init__(self, rngs):
        self.dense = nnx.Linear(9, 3, rngs=rngs)

    def __call__(self, x):
        return self.dense(x.reshape(len(x), -1))


@pytest.mark.slow
def test_it_is_the_mean_of_the_members_probabilities(members):
    classifier, apply = bayes.ensemble(MODULE, members), jax.jit(MODULE.apply)
    p = [special.softmax(apply(member, IMAGES), axis=1) for member in members]
    np.testing.assert_allclose(np.exp(log_probabilities(classifier)), p, atol=1e-6)
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
    p = np.exp(log_probabilities(classifier))
    expected = [special.expit(IMAGES.reshape(6, 9) @ w) for w in weights]
    np.testing.assert_allclose(p[..., 1], expected, atol=1e-6)


@pytest.mark.slow
def test_members_of_one_nnx_module_that_trains_on_differ():
    module, members, expected = NnxLinear(nnx.Rngs(0)), [], []
    for number in range(3):
        kernel = np.asarray(module.dense.kernel[...]) * np.float32(1 + number)
        module.dense.kernel[...] = jnp.asarray(kernel)
        # As the docstring says.
        members.append(jaxrob.Classifier.from_nnx(module).variables)
        logits = IMAGES.reshape(6, 9) @ kernel  # The bias is 0.
        expected.append(special.log_softmax(logits, axis=1))
    found = log_probabilities(bayes.ensemble(module, members))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(np.diff(found, axis=0)).max(axis=(1, 2)).min() > 1e-3


def test_members_that_are_one_are_warned_of():
    module = NnxLinear(nnx.Rngs(0))
    with pytest.warns(jaxrob.RobustnessWarning, match="members 0 and 2"):
        bayes.ensemble(
            module,
            [nnx.state(module), nnx.state(NnxLinear(nnx.Rngs(1))), nnx.state(module)],
        )


def test_ensembles_of_equal_modules_are_one_program(members):
    again = bayes.ensemble(MLP(features=(4,), num_classes=3), members[::-1])
    assert again.apply_fn == bayes.ensemble(MODULE, members).apply_fn


def test_bad_members(members):
    with pytest.raises(ValueError, match="members is empty"):
        bayes.ensemble(MODULE, [])
    other = jax.tree.map(lambda leaf: leaf[..., :2], jax.device_get(members[0]))
    with pytest.raises(ValueError, match="member 2"):
        bayes.ensemble(MODULE, [*members[:2], other])
    with pytest.raises(TypeError, match="module"):
        bayes.ensemble("mlp", members)
