"""The five methods on digits of 28 x 28 pixels and on synthetic stripes."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import jaxrob
from jaxrob import Classifier, Dataset, alterations, retraining, training
from jaxrob.networks import MLP
from jaxrob.retraining import _parallelization

KEY = jax.random.key(0)
SMALL = MLP(features=(16,), num_classes=2)
BRIGHTNESS = alterations.brightness(-0.9, 0.9)
BLUR = alterations.gaussian_blur(0.0, 0.5)
SETTINGS = {"batch_size": 32, "images_seen": 1600, "optimizer": optax.adam(0.02)}
METHODS = {
    name: getattr(retraining, name)
    for name in (
        "data_augmentation",
        "limited_data_augmentation",
        "network_parallelization",
        "limited_network_parallelization",
        "worst_level",
    )
}


def retrain(name, dataset, alterations, **given):
    given |= SETTINGS
    return METHODS[name](SMALL, dataset, alterations, key=KEY, **given)


def grey_and_light(n, seed=0):
    """Uniform images: class 0 about 0.3, class 1 about 0.7, with one fixed dark row.

    A network can tell them by the absolute level, which brightness upsets, or by the
    ratio of the middle row to the others, which it does not.
    """
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    level = np.where(labels, 0.7, 0.3) + rng.uniform(-0.05, 0.05, n)
    images = np.ones((n, 6, 6, 1)) * level[:, None, None, None]
    images[:, 3] *= np.where(labels, 0.2, 0.9)[:, None, None]
    return Dataset(images.astype(np.float32), labels)


def robustness(classifier, alteration=BRIGHTNESS):
    return jaxrob.assess(
        classifier,
        grey_and_light(100, seed=1),
        alteration,
        0.9,
        strategy=jaxrob.strategies.Uniform(21),
        key=KEY,
    ).robustness


@pytest.fixture(scope="module")
def original():
    return training.fit(SMALL, grey_and_light(200), key=KEY, **SETTINGS)


@pytest.fixture(scope="module")
def retrained(original):
    given = {"limited": {"classifier": original, "robustness": [0.5, 1.0]}}
    given["network"] = {"classifier": original}
    return {
        name: retrain(
            name,
            grey_and_light(200),
            [BRIGHTNESS, BLUR],
            **given.get(name.split("_")[0], {}),
        )
        for name in METHODS
    }


@pytest.mark.slow
def test_every_method_helps_and_keeps_the_accuracy(original, retrained):
    before = robustness(original)
    assert before < 0.9
    for name, classifier in retrained.items():
        after = robustness(classifier)
        assert after >= before, name
        if "parallelization" not in name:
            assert after > before + 0.05, name
        images = jnp.asarray(grey_and_light(100, 1).images)
        answers = classifier.log_probabilities(images)[0].argmax(-1)
        assert (answers == np.arange(100) % 2).mean() > 0.95, name


@pytest.mark.slow
def test_methods_differ(retrained):
    leaves = {
        name: np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(classifier)])
        for name, classifier in retrained.items()
    }
    names = list(leaves)
    for i, one in enumerate(names):
        for other in names[:i]:
            assert not np.array_equal(leaves[one], leaves[other])


@pytest.mark.slow
def test_parallel_networks_answer_by_the_surer(original, retrained):
    images = jnp.asarray(grey_and_light(50, seed=2).images)
    joined = retrained["network_parallelization"]
    members = joined.variables
    assert members[0] is original
    one, other = (np.exp(each.log_probabilities(images)[0]) for each in members)
    highest = np.maximum(one, other)
    got = np.exp(joined.log_probabilities(images)[0])
    np.testing.assert_allclose(got.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(
        got, highest / highest.sum(1, keepdims=True), rtol=1e-4, atol=1e-6
    )
    gradient = jax.grad(lambda images: joined.log_probabilities(images)[0, :, 0].sum())
    assert np.isfinite(gradient(images)).all() and (gradient(images) != 0).any()


def test_sigmoid_networks_are_joined_before_they_are_normalised():
    def activations(variables, images):
        return jnp.broadcast_to(variables, (len(images), 2))

    one = Classifier(activations, jnp.array([0.1, 0.3]), "sigmoid")
    other = Classifier(activations, jnp.array([0.9, 0.8]), "sigmoid")
    third = Classifier(activations, jnp.array([0.25, 0.75]), "probabilities")
    images = jnp.zeros((3, 2, 2, 1))
    got = np.exp(retraining.parallel(one, other).log_probabilities(images))
    np.testing.assert_allclose(got[0, 0], [9 / 17, 8 / 17], rtol=1e-5)
    # Normalised first they would be [0.25, 0.75] and [9/17, 8/17].
    got = np.exp(retraining.parallel(one, third).log_probabilities(images))
    np.testing.assert_allclose(got[0, 0], [0.25, 0.75], rtol=1e-5)
    scores = Classifier(activations, jnp.zeros(2), "scores")
    with pytest.raises(ValueError, match="scores"):
        retraining.parallel(one, scores)


@pytest.mark.slow
def test_the_limited_methods_find_what_is_weak(original, retrained):
    validation = grey_and_light(60, seed=3)
    given = {"classifier": original, "threshold": 0.9}
    both, name = [BRIGHTNESS, BLUR], "limited_data_augmentation"
    found = retrain(name, grey_and_light(200), both, validation=validation, **given)
    # Brightness alone, as the robustness said of the other one.
    known = retrained[name]
    for a, b in zip(jax.tree.leaves(known), jax.tree.leaves(found)):
        assert (a == b).all()
    with pytest.raises(ValueError, match="validation must be given"):
        retrain(name, validation, [BRIGHTNESS], **given)
    name, given["validation"] = "limited_network_parallelization", validation
    with pytest.raises(ValueError, match="nothing to mend"):
        retrain(name, validation, [BLUR], **given)


@pytest.mark.slow
def test_the_original_is_trained_where_none_is_given(tmp_path):
    settings = {"threshold": 0.9, "checkpoint": tmp_path / "second"}
    name, both = "limited_network_parallelization", [BRIGHTNESS, BLUR]
    joined = retrain(name, grey_and_light(200), both, **settings)
    first, second = joined.variables
    assert robustness(first) < robustness(second)
    assert (tmp_path / "second-original").exists()


@pytest.mark.parametrize("name", METHODS)
def test_wrong_arguments(name):
    dataset = grey_and_light(40)
    refused = [
        ({"alterations": BLUR}, TypeError, "alterations must be a sequence"),
        ({"alterations": []}, ValueError, "alterations is empty"),
        ({"alterations": ["blur"]}, TypeError, "of jaxrob.Alteration; got .*str"),
        ({"dataset": dataset.images}, TypeError, "dataset must be a jaxrob.Dataset"),
    ]
    if name == "worst_level":
        message = "candidates must be at least 1; got 0"
        refused.append(({"candidates": 0}, ValueError, message))
    else:
        refused.append(({"levels": "best"}, ValueError, "levels must be one of"))
    if name.startswith("limited"):
        refused += [
            ({"robustness": [0.5, 0.5]}, ValueError, "robustness must"),
            ({"robustness": [1.5]}, ValueError, "robustness must"),
            ({"threshold": 2}, ValueError, "threshold must lie in"),
        ]
    usual = {"dataset": dataset, "alterations": [BLUR], "key": KEY, "batch_size": 20}
    for wrong, error, message in refused:
        with pytest.raises(error, match=message):
            METHODS[name](SMALL, **(usual | wrong))


class SmallNnx(nnx.Module):
    def __init__(self, rngs):
        self.last = nnx.Linear(36, 2, rngs=rngs)

    def __call__(self, images):
        return self.last(images.reshape(len(images), -1))


@pytest.mark.parametrize("limited", ["", "limited_"])
@pytest.mark.parametrize("module", [SMALL, SmallNnx(nnx.Rngs(0))], ids=["linen", "nnx"])
def test_an_original_of_other_classes_is_refused_before_training(
    monkeypatch, module, limited
):
    for name in ("_second", "find_weak"):
        monkeypatch.setattr(_parallelization, name, None)
    for wrong, outputs, words in (
        (3, "logits", "which returns 2 .* it returns 3"),
        (2, "scores", 'classifier must not have outputs="scores"'),
    ):
        original = Classifier(lambda v, x: x[:, 0, :1, 0] * v, jnp.ones(wrong), outputs)
        with pytest.raises(ValueError, match=words):
            METHODS[f"{limited}network_parallelization"](
                module,
                grey_and_light(40),
                [BRIGHTNESS],
                key=KEY,
                classifier=original,
                **SETTINGS,
            )
