"""Classifiers that answer by samples: a posterior's draws, ensembles, dropout."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from scipy import special

import jaxrob
from jaxrob import alterations, bayes
from jaxrob.networks import MLP

KEY = jax.random.key(0)


def draw(classifier, number):
    return jax.tree.map(lambda leaf: leaf[number], classifier.variables["params"])


def test_plain_outputs_are_those_of_each_draw(posterior, modules, images):
    classifier = bayes.classifier(posterior, 4, key=KEY)
    log_p = jax.jit(type(classifier).log_probabilities)(classifier, images)
    assert log_p.shape == (4, 64, 3) and not classifier.stochastic
    for number in range(4):
        params = draw(classifier, number)
        logits = jax.jit(modules["plain"].apply)({"params": params}, images)
        expected = special.log_softmax(logits, axis=1)
        np.testing.assert_allclose(log_p[number], expected, atol=1e-4)


@pytest.mark.slow
def test_heteroscedastic_outputs_average_the_noise_at_each_draw(
    learnt, modules, images
):
    classifier, few = bayes.classifier(learnt, 4, key=KEY), images[:6]
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


def test_the_key_decides(posterior):
    one, two, other = (
        bayes.classifier(posterior, 4, key=jax.random.key(seed)) for seed in (0, 0, 1)
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


def test_bad_arguments(posterior, data):
    with pytest.raises(ValueError, match="num_samples"):
        bayes.classifier(posterior, 0, key=KEY)
    with pytest.raises(ValueError, match="num_samples"):
        bayes.fit(MLP(), data, key=KEY, num_samples=0)
    with pytest.raises(ValueError, match="inference"):
        bayes.fit(MLP(), data, key=KEY, inference="laplace")
    with pytest.raises(TypeError, match="epochs"):
        bayes.fit(MLP(), data, key=KEY, inference="nuts", epochs=3)


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
        other = nnx.state(NnxLinear(nnx.Rngs(1)))
        views = jax.tree.map(np.asarray, nnx.state(module))
        bayes.ensemble(module, [nnx.state(module), other, views])


def test_ensembles_of_equal_modules_are_one_program(members):
    again = bayes.ensemble(MLP(features=(4,), num_classes=3), members[::-1])
    assert again.apply_fn == bayes.ensemble(MODULE, members).apply_fn


def test_bad_members(members):
    with pytest.raises(ValueError, match="members is empty"):
        bayes.ensemble(MODULE, [])
    for change in (lambda leaf: leaf[..., :2], np.int8):
        other = jax.tree.map(change, jax.device_get(members[0]))
        with pytest.raises(ValueError, match="member 2"):
            bayes.ensemble(MODULE, [*members[:2], other])
    with pytest.raises(TypeError, match="module"):
        bayes.ensemble("mlp", members)


DROPPED = np.float32(np.random.default_rng(0).random((5, 3, 4, 1)))
RATE = 0.3
SAME = jaxrob.Alteration(
    name="nothing", fn=lambda image, level: image, lower=0, upper=1, identity=0
)


class Halved(linen.Dropout):
    def __call__(self, x):
        return (x + super().__call__(x)) / 2


class Linear(linen.Module):
    layer: type = linen.Dropout

    @linen.compact
    def __call__(self, x, train=False):
        x = self.layer(RATE, deterministic=not train)(x.reshape(len(x), -1))
        return linen.Dense(3)(x)


class Normalised(linen.Module):
    @linen.compact
    def __call__(self, x, train=False):
        x = linen.BatchNorm(use_running_average=not train)(x.reshape(len(x), -1))
        x = linen.Dropout(RATE)(x, deterministic=not train)
        x = linen.Dropout(RATE, broadcast_dims=(-1,))(x, deterministic=not train)
        return linen.Dense(3)(x)


class Attentive(linen.Module):
    @linen.compact
    def __call__(self, x, train=False):
        attention = linen.MultiHeadAttention(2, qkv_features=4, dropout_rate=RATE)
        return linen.Dense(3)(attention(x[..., 0], deterministic=not train).sum(1))


class NnxAttentive(nnx.Module):
    def __init__(self, rngs, **disabled):
        self.attention = nnx.MultiHeadAttention(
            2, 1, 4, dropout_rate=RATE, decode=False, rngs=rngs
        )
        self.dense, self.disabled = nnx.Linear(1, 3, rngs=rngs), disabled

    def __call__(self, x):
        return self.dense(self.attention(x[:, :, 0], **self.disabled).sum(1))


class NnxDropout(nnx.Module):
    def __init__(self, rngs, **disabled):
        self.dropout, self.disabled = nnx.Dropout(RATE, rngs=rngs), disabled
        self.dense = nnx.Linear(12, 3, rngs=rngs)

    def __call__(self, x):
        return self.dense(self.dropout(x.reshape(len(x), -1), **self.disabled))


def linen_classifier(num_samples, module=None):
    module = module or Linear()
    variables = jax.jit(module.init)(jax.random.key(0), DROPPED)
    return bayes.mc_dropout(module, variables, num_samples)


def nnx_classifier(num_samples):
    return bayes.mc_dropout(NnxDropout(nnx.Rngs(0)), num_samples=num_samples)


@jax.jit
def raw_outputs(classifier, keys):
    return classifier.raw_outputs(jnp.asarray(DROPPED), keys)


def outputs(classifier, seed=0):
    keys = jax.random.split(jax.random.key(seed), len(DROPPED))
    return np.asarray(raw_outputs(classifier, keys))


@pytest.mark.parametrize("make", [linen_classifier, nnx_classifier, "halved"])
def test_moments_of_a_linear_layer(make):
    halved = make == "halved"  # a layer of the user's own
    classifier = linen_classifier(20_000, Linear(Halved)) if halved else make(20_000)
    variables = classifier.variables
    layer = variables.get("dense") or variables["params"]["Dense_0"]
    x, kernel = DROPPED.reshape(5, -1), np.asarray(layer["kernel"])
    samples = outputs(classifier)
    assert samples.shape == (20_000, 5, 3)
    mean = x @ kernel + np.asarray(layer["bias"])
    variance = RATE / (1 - RATE) * x**2 @ kernel**2 / (4 if halved else 1)
    error = 5 * np.sqrt(variance / 20_000)
    assert (np.abs(samples.mean(axis=0) - mean) < error).all()
    np.testing.assert_allclose(samples.var(axis=0), variance, rtol=0.06)
    # Images do not share their masks.
    residuals = (samples - mean)[:, :, 0]
    np.testing.assert_allclose(np.corrcoef(residuals.T), np.eye(5), atol=0.04)


def test_dropout_inside_attention():
    module = Attentive()
    classifier = linen_classifier(20_000, module)
    keys, images = jax.random.split(jax.random.key(3), 20_000), jnp.asarray(DROPPED)

    @jax.jit
    @jax.vmap
    def trained(key):
        return module.apply(classifier.variables, images, True, rngs={"dropout": key})

    expected, found = np.asarray(trained(keys)), outputs(classifier)
    np.testing.assert_allclose(found.std(0), expected.std(0), rtol=0.05)
    assert (np.abs(found.mean(0) - expected.mean(0)) < found.std(0) * 0.05).all()


@pytest.mark.slow
def test_masks_are_the_image_s_at_every_level_and_in_any_batch():
    classifier, data = linen_classifier(7), jaxrob.Dataset(DROPPED, np.zeros(5, int))
    key = jax.random.key(1)
    curve = jaxrob.evaluate(classifier, data, SAME, [0.0, 0.5, 1.0], key=key)
    np.testing.assert_array_equal(curve.uncertainty[1:], curve.uncertainty[:2])
    single = jaxrob.evaluate(classifier, data, SAME, [0.5], key=key, batch_size=1)
    np.testing.assert_allclose(single.uncertainty[0], curve.uncertainty[0], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("make", [linen_classifier, nnx_classifier])
def test_the_key_decides_what_is_dropped(make):
    np.testing.assert_array_equal(outputs(make(7)), outputs(make(7)))
    # A sample does not depend on how many there are, but for rounding.
    np.testing.assert_allclose(outputs(make(7))[:3], outputs(make(3)), rtol=1e-6)
    assert (outputs(make(7)) != outputs(make(7), 1)).any()


@pytest.mark.slow
def test_all_else_is_in_evaluation_mode():
    module = Normalised()
    variables = jax.jit(module.init)(jax.random.key(0), DROPPED)
    variables["batch_stats"]["BatchNorm_0"]["mean"] += 0.5
    classifier = bayes.mc_dropout(module, variables, 20_000)
    expected = jax.jit(module.apply)(variables, DROPPED)
    np.testing.assert_allclose(outputs(classifier).mean(0), expected, atol=0.05)


def test_equal_modules_are_one_program():
    assert linen_classifier(3).apply_fn == linen_classifier(3, Linear()).apply_fn
    assert nnx_classifier(3).apply_fn == nnx_classifier(3).apply_fn


def test_bad_modules_and_arguments():
    with pytest.raises(ValueError, match="NnxLinear"):
        bayes.mc_dropout(NnxLinear(nnx.Rngs(0)))
    for disabling in (NnxDropout, NnxAttentive):
        module = disabling(nnx.Rngs(0), deterministic=True)
        with pytest.raises(ValueError, match=disabling.__name__):
            bayes.mc_dropout(module).num_classes(DROPPED.shape[1:])
    classifier = linen_classifier(3, MLP(num_classes=3))
    with pytest.raises(ValueError, match="MLP"):
        classifier.num_classes(DROPPED.shape[1:])
    with pytest.raises(ValueError, match="num_samples"):
        linen_classifier(0)
    with pytest.raises(TypeError, match="module"):
        bayes.mc_dropout(lambda variables, images: jnp.zeros(3), {})
