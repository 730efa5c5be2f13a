import jax
import numpy as np
import optax
import pytest
from common.timing import compilations
from flax import linen, nnx

import jaxrob
from jaxrob import alterations, bayes
from jaxrob.bayes import _inference
from jaxrob.networks import MLP


class Flat(linen.Module):
    width: int = 0

    @linen.compact
    def __call__(self, x):
        x = x.reshape(len(x), -1)
        return linen.Dense(self.width)(x) if self.width else x


def accuracy(posterior, data):
    key = jax.random.key(0)
    classifier = bayes.classifier(posterior, 4, key=key)
    curve = jaxrob.evaluate(classifier, data, alterations.brightness(), [0.0], key=key)
    return curve.accuracy[0]


def same(one, other):
    return jax.tree.all(jax.tree.map(np.array_equal, one, other))


@pytest.mark.slow
def test_the_papers_networks_have_the_papers_parameters(train):
    data = jaxrob.Dataset(np.zeros((2, 28, 28, 1), np.uint8), np.arange(2))
    settings = {"head": "heteroscedastic", "epochs": 1, "batch_size": 2}
    posterior = train(MLP(num_classes=20), data, **settings)
    assert posterior.num_parameters == 161_040
    leaves = jax.tree.leaves((posterior.location, posterior.scale))
    assert sum(leaf.size for leaf in leaves) == 161_040


def test_it_learns_and_the_elbo_rises(learnt, data):
    assert accuracy(learnt, data) > 0.95
    assert learnt.elbo.shape == (80,)
    first, middle, last = (part.mean() for part in np.split(learnt.elbo[-75:], 3))
    assert first < middle < last < 0


@pytest.mark.slow
def test_an_nnx_module_learns_and_is_not_changed(nnx_posterior, nnx_module, data):
    assert accuracy(nnx_posterior, data) > 0.95
    fresh = nnx.state(type(nnx_module)(nnx.Rngs(0)), nnx.Param)
    assert same(fresh, nnx.state(nnx_module, nnx.Param))
    assert not nnx_module.dropout.deterministic
    assert not nnx_module.norm.use_running_average


@pytest.mark.slow
def test_an_epoch_in_one_call_is_the_same(train, monkeypatch):
    step_by_step = train(head="heteroscedastic")
    monkeypatch.setattr(_inference.jax, "default_backend", lambda: "gpu")
    at_once = train(head="heteroscedastic")
    np.testing.assert_allclose(at_once.elbo, step_by_step.elbo, rtol=1e-5)
    for a, b in zip(
        jax.tree.leaves(at_once.location), jax.tree.leaves(step_by_step.location)
    ):
        np.testing.assert_allclose(a, b, atol=1e-4)


@pytest.mark.slow
def test_parameters_without_evidence_keep_their_prior(train, data):
    wide = np.concatenate([data.images, np.zeros_like(data.images)], axis=2)
    posterior = train(
        MLP(features=(), num_classes=3),
        jaxrob.Dataset(wide, data.labels),
        epochs=300,
        prior_scale=0.7,
    )
    location, scale = (
        np.reshape(tree["Dense_0"]["kernel"], (3, 6, 3))[:, 3:]
        for tree in (posterior.location, posterior.scale)
    )
    np.testing.assert_allclose(location, 0, atol=0.02)
    np.testing.assert_allclose(scale, 0.7, atol=0.02)


@pytest.mark.slow
def test_batches_weigh_as_much_as_the_whole(train):
    # With no step taken, the ELBO's mean over an epoch is that of the whole data set.
    frozen = optax.set_to_zero()
    whole, parts = (
        train(Flat(3), epochs=1, batch_size=size, optimizer=frozen).elbo[0]
        for size in (64, 16)
    )
    assert abs(parts / whole - 1) < 0.02


def test_what_the_module_and_the_optimizer_capture_may_change(train):
    scale, rate = np.ones(3), np.full(1, 0.1)
    optimizer = optax.sgd(lambda step: jax.numpy.asarray(rate)[0])

    class Scaled(linen.Module):
        @linen.compact
        def __call__(self, x):
            return Flat(3)(x) * scale

    def fit():
        settings = {"epochs": 1, "batch_size": 64, "optimizer": optimizer}
        return train(Scaled(), **settings).location

    first = fit()
    scale[2] = 3.0
    second = fit()
    rate[:] = 0.2
    assert not same(first, second) and not same(second, fit())


@pytest.mark.slow
def test_another_fit_and_its_curve_compile_nothing(data):
    def fit(seed):
        # The default optimiser, and a module that no other test compiles.
        settings = {"epochs": 2, "batch_size": 16, "num_samples": 4}
        module, key = MLP(features=(7,), num_classes=3), jax.random.key(seed)
        classifier = bayes.fit(module, data, key=key, **settings)
        jaxrob.evaluate(classifier, data, alterations.brightness(), [0.0])

    with compilations() as first:
        fit(0)
    with compilations() as later:
        fit(1)
    assert len(first) >= 1 and len(later) == 0


@pytest.mark.parametrize(
    "changes, error, name",
    [
        ({"prior_scale": 0.0}, ValueError, "prior_scale"),
        ({"epochs": 0}, ValueError, "epochs"),
        ({"num_particles": 0}, ValueError, "num_particles"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"batch_size": 65}, ValueError, "batch_size"),
        ({"guide": "flow"}, ValueError, "guide"),
        ({"head": "poisson", "module": Flat(3)}, ValueError, "head"),
        ({"noise_draws": 0}, ValueError, "noise_draws"),
        ({"module": Flat()}, ValueError, "module must have parameters"),
        ({"module": Flat(3), "head": "heteroscedastic"}, ValueError, "returns 3"),
        ({"module": Flat(2), "head": "heteroscedastic"}, ValueError, "two classes"),
        ({"module": Flat(2)}, ValueError, "labels"),
        ({"module": Flat(1)}, ValueError, "two classes"),
        ({"module": Flat(500), "guide": "full_rank"}, ValueError, "5,000"),
        ({"module": lambda x: x}, TypeError, "module"),
        ({"key": 0}, TypeError, "key"),
    ],
)
def test_bad_arguments(train, changes, error, name):
    with pytest.raises(error, match=name):
        train(**changes)


def test_batches_of_a_loader_are_refused(train, data):
    batches = jaxrob.Dataset.from_batches([(data.images, data.labels)])
    with pytest.raises(TypeError, match="dataset|jaxrob.Dataset"):
        train(dataset=batches)


@pytest.mark.slow
def test_an_elbo_that_is_no_longer_finite(train):
    with pytest.raises(FloatingPointError, match="the ELBO is .* after epoch 1: lower"):
        train(optimizer=optax.sgd(1e38), epochs=3)
