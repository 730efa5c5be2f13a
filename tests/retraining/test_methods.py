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
from jaxrob.retraining import _methods

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


LIMITED = [name for name in METHODS if name.startswith("limited")]


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
        images = grey_and_light(100, 1).images
        log_p = jax.jit(type(classifier).log_probabilities)(classifier, images)
        answers = np.asarray(log_p)[0].argmax(-1)
        assert (answers == np.arange(100) % 2).mean() > 0.95, name
    leaves = {
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(one)]).tobytes()
        for one in retrained.values()
    }
    assert len(leaves) == len(METHODS)


@pytest.mark.slow
def test_parallel_networks_answer_by_the_surer(original, retrained):
    images = jnp.asarray(grey_and_light(50, seed=2).images)
    joined = retrained["network_parallelization"]
    members = joined.variables
    assert members[0] is original
    log_p = jax.jit(type(joined).log_probabilities)
    one, other = (np.exp(log_p(each, images)[0]) for each in members)
    highest = np.maximum(one, other)
    got = np.exp(log_p(joined, images)[0])
    np.testing.assert_allclose(got.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(
        got, highest / highest.sum(1, keepdims=True), rtol=1e-4, atol=1e-6
    )
    gradient = jax.jit(jax.grad(lambda images: log_p(joined, images)[0, :, 0].sum()))
    found = np.asarray(gradient(images))
    assert np.isfinite(found).all() and (found != 0).any()


def test_sigmoid_networks_are_joined_before_they_are_normalised():
    def activations(variables, images):
        return jnp.broadcast_to(variables, (len(images), 2))

    one = Classifier(activations, jnp.array([0.1, 0.3]), "sigmoid")
    other = Classifier(activations, jnp.array([0.9, 0.8]), "sigmoid")
    third = Classifier(activations, jnp.array([0.25, 0.75]), "probabilities")
    images = np.zeros((3, 2, 2, 1), np.float32)
    log_p = jax.jit(Classifier.log_probabilities)
    got = np.exp(log_p(retraining.parallel(one, other), images))
    np.testing.assert_allclose(got[0, 0], [9 / 17, 8 / 17], rtol=1e-5)
    # Normalised first they would be [0.25, 0.75] and [9/17, 8/17].
    got = np.exp(log_p(retraining.parallel(one, third), images))
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
    jax.tree.map(np.testing.assert_array_equal, known.variables, found.variables)
    with pytest.raises(ValueError, match="validation"):
        retrain(name, validation, [BRIGHTNESS], **given)
    name, given["validation"] = "limited_network_parallelization", validation
    with pytest.raises(ValueError, match="below 1"):
        retrain(name, validation, [BLUR], **given)


@pytest.mark.slow
def test_the_original_is_trained_where_none_is_given(tmp_path):
    settings = {"threshold": 0.9, "checkpoint": tmp_path / "second"}
    name, both = "limited_network_parallelization", [BRIGHTNESS, BLUR]
    first, second = retrain(name, grey_and_light(200), both, **settings).variables
    assert robustness(first) < robustness(second)
    assert (tmp_path / "second-original").exists()


@pytest.mark.parametrize(
    ("names", "wrong", "error", "name"),
    [
        (METHODS, {"alterations": BLUR}, TypeError, "alterations"),
        (METHODS, {"alterations": []}, ValueError, "alterations"),
        (METHODS, {"alterations": ["blur"]}, TypeError, "alterations"),
        (METHODS, {"dataset": np.zeros((40, 6, 6, 1))}, TypeError, "dataset"),
        (["worst_level"], {"candidates": 0}, ValueError, "candidates"),
        (METHODS.keys() - {"worst_level"}, {"levels": "best"}, ValueError, "levels"),
        (LIMITED, {"robustness": [0.5, 0.5]}, ValueError, "robustness"),
        (LIMITED, {"robustness": [1.5]}, ValueError, "robustness"),
        (LIMITED, {"threshold": 2}, ValueError, "threshold"),
    ],
)
def test_wrong_arguments(names, wrong, error, name):
    usual = {"dataset": grey_and_light(40), "alterations": [BLUR], "key": KEY}
    for method in names:
        with pytest.raises(error, match=name):
            METHODS[method](SMALL, **(usual | {"batch_size": 20} | wrong))


class SmallNnx(nnx.Module):
    def __init__(self, rngs):
        self.last = nnx.Linear(36, 2, rngs=rngs)

    def __call__(self, images):
        return self.last(images.reshape(len(images), -1))


@pytest.mark.parametrize(("nnx_module", "limited"), [(False, ""), (True, "limited_")])
def test_an_original_of_other_classes_is_refused_before_training(
    monkeypatch, nnx_module, limited
):
    module = SmallNnx(nnx.Rngs(0)) if nnx_module else SMALL
    for name in ("_second", "find_weak"):
        monkeypatch.setattr(_methods, name, None)
    for wrong, outputs, words in (
        (3, "logits", "returns 3"),
        (2, "scores", "classifier must not"),
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
