"""Sequential comparisons of classifiers whose accuracy is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import jaxrob

from .test_few import DIM, dataset_of

NUM_IMAGES = 3000
LIMITS = np.random.default_rng(5).permutation(NUM_IMAGES) / NUM_IMAGES * 4 / 3
LABELS = np.random.default_rng(6).integers(0, 2, NUM_IMAGES)
DATASET = dataset_of(LIMITS, LABELS)


def classifier(strength):
    """Right at levels below `strength` times an image's limit: 1 - 3/4 level / it."""

    def apply(variables, images):
        limit, level, label = (images[:, 0, 0, i] for i in range(3))
        answer = jnp.where(2 * variables * limit >= level, label, 1 - label)
        return 8 * jax.nn.one_hot(answer.astype(int), 2)

    return jaxrob.Classifier(apply, jnp.float32(strength))


def compare(first, second, seed=0, **settings):
    settings = {"threshold": 0.7, "key": jax.random.key(seed)} | settings
    return jaxrob.compare_sequentially(
        classifier(first), classifier(second), DATASET, DIM, **settings
    )


@pytest.mark.parametrize(
    "first, second",
    [
        (1.0, 1.25),
        pytest.param(1.25, 1.0, marks=pytest.mark.slow),
        pytest.param(0.5, 1.5, marks=pytest.mark.slow),
    ],
)
def test_the_better_one_is_found_from_few_images(first, second):
    truth = 0.4 * (first - second)
    for seed in range(3):
        found = compare(first, second, seed)
        assert found.is_certain
        assert (found.difference > 0) == (truth > 0)
        assert found.dataset_interval.low <= truth <= found.dataset_interval.high
        whole = jaxrob.assess(classifier(first), DATASET, DIM, 0.7)
        assert found.evaluations < 0.4 * 2 * whole.evaluations
        assert {found.first.sampling.status, found.second.sampling.status} <= {
            "compared",
            "precise",
        }


# Of another network, which fails on much the same images.
OTHERS = np.clip(LIMITS * np.random.default_rng(7).uniform(0.7, 1.5, NUM_IMAGES), 0, 2)


def other_network(variables, images):
    """Right at levels below an image's other limit."""
    limit, level, label = (images[:, 0, 0, i] for i in (3, 1, 2))
    answer = jnp.where(2 * limit >= level, label, 1 - label)
    return 8 * jax.nn.one_hot(answer.astype(int), 2)


def first_network(variables, images):
    return classifier(1.0).apply_fn(variables, images[..., :3])


@pytest.mark.slow
def test_differences_of_networks_that_fail_alike_are_known_better_than_both():
    dataset = dataset_of(LIMITS, LABELS, OTHERS / 2)
    first, second = (
        jaxrob.Classifier(one, jnp.float32(1.0))
        for one in (first_network, other_network)
    )
    levels = (np.arange(20_000) + 0.5) / 20_000
    shares = [(one[:, None] >= levels).mean(axis=0) for one in (LIMITS, OTHERS)]
    truth = float(np.subtract(*(np.mean(share >= 0.7) for share in shares)))
    runs, missed, widths, sums = 24, 0, 0.0, 0.0
    for seed in range(runs):
        found = jaxrob.compare_sequentially(
            first, second, dataset, DIM, 0.7, half_width=0.02, key=jax.random.key(seed)
        )
        low, high = found.dataset_interval
        missed += not low - 1 / 1024 <= truth <= high + 1 / 1024
        assert found.is_certain or high - low <= 0.04
        widths += high - low
        for one in (found.first, found.second):
            assert one.dataset_interval is not None
            sums += one.dataset_interval.high - one.dataset_interval.low
    assert missed <= scipy.stats.binom.ppf(0.999, runs, 0.05)
    # They end on a sign as well, some of them wide.
    assert widths < 0.9 * sums and widths < 0.05 * runs


def test_equal_ones_end_at_the_half_width():
    found = compare(1.0, 1.0, half_width=0.04)
    low, high = found.dataset_interval
    assert not found.is_certain and low <= 0 <= high
    assert high - low <= 0.08
    assert found.first.sampling.evaluations == found.second.sampling.evaluations


def test_a_close_pair_takes_more_images_than_a_distant_one():
    assert compare(1.0, 1.1).evaluations > compare(1.0, 1.8).evaluations


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"half_width": 0}, "half_width must"),
        ({"measure": "f1"}, "needs all images"),
        ({"strategy": jaxrob.strategies.Quadrature()}, "go with strategies.ASAP"),
        ({"threshold": 2}, "threshold must"),
    ],
)
def test_what_does_not_go_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        compare(1.0, 1.2, **settings)


def test_labels_are_needed():
    unlabelled = jaxrob.Dataset(DATASET.images)
    with pytest.raises(ValueError, match="dataset must have labels"):
        jaxrob.compare_sequentially(classifier(1.0), classifier(2.0), unlabelled, DIM)


def test_a_surer_difference_takes_more_images():
    usual, sure = (
        compare(1.0, 1.1, confidence_level=level) for level in (0.95, 0.9999)
    )
    assert sure.is_certain and sure.evaluations > usual.evaluations
    assert sure.first.confidence_level == sure.second.confidence_level == 0.9999
    with pytest.raises(ValueError, match=r"confidence_level must lie in \(0, 1\)"):
        compare(1.0, 1.1, confidence_level=1)


@pytest.mark.filterwarnings("ignore::jaxrob.RobustnessWarning")
def test_each_keeps_what_was_warned_of_it():
    captured = np.ones(2000, np.float32)

    def apply(variables, images):
        outputs = classifier(1.0).apply_fn(variables, images)
        return outputs * jnp.asarray(captured).mean()

    first = jaxrob.Classifier(apply, jnp.float32(1.0))
    brighter = jaxrob.Alteration("bright", DIM.fn, 0.0, 1.2)
    found = jaxrob.compare_sequentially(first, classifier(1.25), DATASET, brighter)
    number = [
        {key: sum(key in one for one in result.warnings) for key in ("captures", "[0")}
        for result in found[3:]
    ]
    assert number == [{"captures": 1, "[0": 1}, {"captures": 0, "[0": 1}]
