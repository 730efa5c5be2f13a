import jax
import numpy as np
import optax
import pytest
from common.timing import compilations
from flax import linen, nnx

import jaxrob
from jaxrob import alterations, bayes
from jaxrob.bayes import _svi
from jaxrob.networks import MLP


def accuracy(posterior, data):
    key = jax.random.key(0)
    classifier = bayes.classifier(posterior, 4, key=key)
    curve = jaxrob.evaluate(classifier, data, alterations.brightness(), [0.0], key=key)
    return curve.accuracy[0]


def same(one, other):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all((a == b).all() for a, b in pairs)


def size(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


@pytest.mark.slow
def test_the_papers_networks_have_the_papers_parameters(train):
    data = jaxrob.Dataset(np.zeros((2, 28, 28, 1), np.uint8), np.arange(2))
    settings = {"head": "heteroscedastic", "epochs": 1, "batch_size": 2}
    posterior = train(MLP(num_classes=20), data, **settings)
    assert posterior.num_parameters == 161_040
    assert size(posterior.location) + size(posterior.scale) == 161_040
    image = np.zeros((1, 28, 28, 1), np.float32)
    assert size(jax.eval_shape(MLP().init, jax.random.key(0), image)) == 79_510


@pytest.mark.parametrize("head", ["plain", "heteroscedastic"])
def test_it_learns_and_the_elbo_rises(posteriors, data, head):
    posterior = posteriors[head]
    assert accuracy(posterior, data) > 0.95
    assert posterior.elbo.shape == (80,)
    first, middle, last = (part.mean() for part in np.split(posterior.elbo[-75:], 3))
    assert first < middle < last < 0


@pytest.mark.slow
def test_an_nnx_module_learns_and_is_not_changed(nnx_posterior, nnx_module, data):
    assert accuracy(nnx_posterior, data) > 0.95
    fresh = nnx.state(type(nnx_module)(nnx.Rngs(0)), nnx.Param)
    assert same(fresh, nnx.state(nnx_module, nnx.Param))
    assert not nnx_module.dropout.deterministic
    assert not nnx_module.norm.use_running_average


@pytest.mark.slow
@pytest.mark.parametrize("head", ["plain", "heteroscedastic"])
def test_the_key_decides(train, head):
    one, two, other = (train(head=head, key=jax.random.key(seed)) for seed in (0, 0, 1))
    assert same(one.location, two.location) and same(one.scale, two.scale)
    assert (one.elbo == two.elbo).all()
    assert not same(one.location, other.location)


@pytest.mark.slow
def test_an_epoch_in_one_call_is_the_same(train, monkeypatch):
    step_by_step = train(head="heteroscedastic")
    monkeypatch.setattr(_svi, "_stride", lambda steps: steps)
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


def test_batches_weigh_as_much_as_the_whole(train):
    # With no step taken, the ELBO's mean over an epoch is that of the whole data set.
    frozen = optax.set_to_zero()
    whole, parts = (
        train(epochs=1, batch_size=size, optimizer=frozen).elbo[0] for size in (64, 16)
    )
    assert abs(parts / whole - 1) < 0.02


@pytest.mark.slow
def test_bytes_and_floats_of_another_shape_are_the_same(train, data):
    vectors = np.reshape(data.images / np.float32(255), (64, 9))
    elbo = train(dataset=jaxrob.Dataset(vectors, data.labels)).elbo
    np.testing.assert_allclose(elbo, train().elbo, rtol=1e-4)


@pytest.mark.slow
def test_progress_is_shown(train, capsys):
    train(progress=True)
    assert "2/2" in capsys.readouterr().err
    train()
    assert not capsys.readouterr().err


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


class Flat(linen.Module):
    width: int = 0

    @linen.compact
    def __call__(self, x):
        x = x.reshape(len(x), -1)
        return linen.Dense(self.width)(x) if self.width else x


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"prior_scale": 0.0}, "prior_scale must be positive and finite; got 0.0"),
        ({"prior_scale": -1.0}, "prior_scale must be positive and finite; got -1.0"),
        ({"prior_scale": np.inf}, "prior_scale must be positive and finite; got inf"),
        ({"epochs": 0}, "epochs must be at least 1; got 0"),
        ({"num_particles": 0}, "num_particles must be at least 1; got 0"),
        ({"batch_size": 0}, r"batch_size must lie in \[1, 64\]; got 0"),
        ({"batch_size": 65}, r"batch_size must lie in \[1, 64\]; got 65"),
        ({"guide": "flow"}, "guide must be one of .*mean_field.*; got 'flow'"),
        ({"head": "poisson", "module": Flat(3)}, "head must be one of .*; got 'pois"),
        ({"noise_draws": 0}, "noise_draws must be at least 1; got 0"),
        ({"module": Flat()}, "module must have parameters; Flat has none"),
        (
            {"module": Flat(3), "head": "heteroscedastic"},
            "even number of outputs, .* the module returns 3",
        ),
        (
            {"module": Flat(2), "head": "heteroscedastic"},
            "at least two classes; its 2 outputs are 1 with the heteroscedastic head",
        ),
        ({"module": Flat(2)}, "labels of dataset must be below .* 2 .*; got 2"),
        (
            {"module": Flat(500), "guide": "full_rank"},
            "at most 4,096 parameters; the module has 5,000",
        ),
    ],
)
def test_bad_values(train, changes, message):
    with pytest.raises(ValueError, match=message):
        train(**changes)


def test_bad_types(train, data):
    with pytest.raises(TypeError, match="module must be a Flax module.*; got function"):
        train(lambda x: x)
    batches = jaxrob.Dataset.from_batches([(data.images, data.labels)])
    with pytest.raises(TypeError, match="jaxrob.Dataset in memory; got BatchedDataset"):
        train(dataset=batches)
    with pytest.raises(TypeError, match="key must be a random key"):
        train(key=0)


@pytest.mark.slow
def test_an_elbo_that_is_no_longer_finite(train):
    with pytest.raises(FloatingPointError, match="the ELBO is .* after epoch 1: lower"):
        train(optimizer=optax.sgd(1e38), epochs=3)
