"""Operating domains: levels of several alterations at once."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy
from common.timing import compilations

import jaxrob
from jaxrob import Alteration, Domain, alterations, strategies
from jaxrob.domains._levels import by_distribution

from .engine.interrupted import classifier, images, learnt
from .engine.interrupted import weights as WEIGHTS

KEY = jax.random.key(7)
BRIGHTNESS = alterations.brightness(-0.5, 0.5)
NOISE = alterations.gaussian_noise(0.0, 0.1)
ROTATION = alterations.rotation(-30, 30)
SMALL = images[:37]
DATASET = jaxrob.Dataset(SMALL, np.arange(37) % 3)
LEVELS = np.array(
    [[0.5, 0.2, 0.02, 0.3], [0, 0, 0, 0], [1, -0.5, 0.1, 0], [0.5, 0.2, 0.02, 0.3]]
)


def mixed(image, level, key):
    return image + level * jax.random.uniform(key, image.shape) * (1 - image)


OWN = Alteration("mixed", mixed, 0.0, 1.0, stochastic=True)


MIXED = Domain([OWN, BRIGHTNESS, NOISE, OWN])


def evaluate(domain, levels, dataset=DATASET, **settings):
    settings = {"key": KEY} | settings
    return jaxrob.evaluate(classifier, dataset, domain, levels, **settings)


def same(one, other):
    np.testing.assert_array_equal(one.predicted, other.predicted)
    np.testing.assert_array_equal(one.confidence, other.confidence)


@pytest.mark.parametrize(
    "alteration", [NOISE, pytest.param(ROTATION, marks=pytest.mark.slow)]
)
def test_a_domain_of_one_is_the_alteration(alteration):
    levels = np.array([0.01, 0.0, 0.1])
    found = evaluate(Domain([alteration]), levels[:, None])
    same(found, evaluate(alteration, levels))
    assert found.levels.shape == (3, 1)


def test_alterations_follow_each_other_with_keys_of_their_own():
    @jax.jit
    @jax.vmap
    def outputs(image, index, level):
        key = jax.random.fold_in(KEY, index)
        second, third = (jax.random.fold_in(key, place) for place in (2, 3))
        found = BRIGHTNESS(mixed(image, level[0], key), level[1])
        found = mixed(NOISE(found, level[2], second), level[3], third)
        confidence = jax.nn.softmax(classifier.apply_fn(WEIGHTS, found[None])).max()
        return confidence, found - MIXED(image, level, key)

    for level, found in zip(LEVELS, evaluate(MIXED, LEVELS).confidence):
        each = jnp.tile(jnp.array(level), (len(SMALL), 1))
        expected, difference = outputs(SMALL, jnp.arange(len(SMALL)), each)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert jnp.abs(difference).max() < 1e-6


def test_any_number_of_levels_are_one_program():
    evaluate(MIXED, LEVELS[:1])
    low, high = np.array([MIXED.lower, MIXED.upper])
    with compilations() as later:
        for number in (1, 7, 40):
            shares = np.random.default_rng(number).random((number, 4))
            evaluate(MIXED, low + shares * (high - low))
    assert not later


def test_answers_do_not_depend_on_batches_or_order():
    whole, order = evaluate(MIXED, LEVELS), [3, 1, 2]
    part = evaluate(MIXED, LEVELS[order], batch_size=5)
    np.testing.assert_array_equal(part.confidence, whole.confidence[order])
    back = jaxrob.Curve.from_json(whole.to_json())
    np.testing.assert_array_equal(back.levels, LEVELS)
    with pytest.raises(ValueError, match="levels"):
        back.first_failing_level(0.0)


def test_a_journal_that_was_cut_goes_on_to_the_same_bytes(tmp_path):
    domain = Domain([BRIGHTNESS, OWN])
    levels = np.random.default_rng(0).uniform(0, 0.5, (6, 2))
    path = tmp_path / "journal"

    def run():
        return evaluate(domain, levels, journal=path, batch_size=10)

    whole, content = run(), path.read_bytes()
    for share in (0.3, 0.9, 1):
        path.write_bytes(content[: int(share * len(content))])
        same(run(), whole)
        assert path.read_bytes() == content
    # The same alterations in another order are others.
    swapped = Domain([OWN, BRIGHTNESS])
    evaluate(swapped, levels[:, ::-1], journal=path, batch_size=10)
    assert len(path.read_bytes()) > 1.5 * len(content)


def test_alterations_that_come_again_have_other_names():
    domain = Domain([ROTATION, BRIGHTNESS, ROTATION, ROTATION])
    names = [one.name for one in domain.alterations]
    assert names == ["rotation", "brightness", "rotation 2", "rotation 3"]
    turned = jax.jit(Domain([ROTATION, ROTATION]))(SMALL[0], jnp.array([0.0, 20.0]))
    np.testing.assert_array_equal(turned, jax.jit(ROTATION)(SMALL[0], 20.0))


def test_twelve_alterations_at_once():
    domain = Domain([BRIGHTNESS] * 12)
    levels = np.zeros((2, 12))
    levels[1, 7] = -0.5
    curve = evaluate(domain, levels, key=None)
    same(curve, evaluate(BRIGHTNESS, [0.0, -0.5], key=None))


def shifted(image, level):
    return image + level + 0.1


@pytest.mark.parametrize(
    ("wrong", "levels", "names"),
    [
        ([BRIGHTNESS, NOISE], [[0.6, 0]], "brightness: levels"),
        ([BRIGHTNESS, NOISE], [[0, np.nan]], "levels"),
        ([BRIGHTNESS, NOISE], [[0, 0, 0]], "levels"),
        ([BRIGHTNESS, NOISE], [0.0, 0.0], "levels"),
        ([BRIGHTNESS, Alteration("shifted", shifted, 0, 1)], [[0, 0]], "shifted"),
        ([], [[0]], "alterations"),
    ],
)
def test_what_does_not_go_together_is_said(wrong, levels, names):
    with pytest.raises(ValueError, match=names):
        evaluate(Domain(wrong), levels)


@pytest.mark.parametrize("given", [Domain([NOISE]), [Domain([NOISE])]])
def test_where_one_level_is_asked_for_a_domain_is_named(given):
    with pytest.raises(TypeError, match="jaxrob.assess_domain"):
        jaxrob.assess(classifier, DATASET, given, key=KEY)


VOLUME = strategies.Volume(half_width=0.1)
BOTH = Domain([ROTATION, BRIGHTNESS])
SOME = jaxrob.Dataset(learnt.images[:400], learnt.labels[:400])


def assess(domain=BOTH, threshold=0.7, dataset=SOME, **settings):
    settings = {"key": KEY, "strategy": VOLUME} | settings
    scores = dataclasses.replace(classifier, outputs="scores")  # Enough for a volume.
    return jaxrob.assess_domain(scores, dataset, domain, threshold, **settings)


def test_the_accepted_volume_is_that_of_a_grid_and_resumes(tmp_path):
    path = tmp_path / "journal"
    found = assess(journal=path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    again = assess(journal=path)
    assert path.read_bytes() == content
    middles = (np.arange(20) + 0.5) / 20
    grid = np.stack(np.meshgrid(60 * middles - 30, middles - 0.5), -1).reshape(-1, 2)
    accuracy = evaluate(BOTH, grid, SOME).accuracy
    low, high = found.dataset_interval
    assert low <= (accuracy >= 0.7).mean() <= high and high - low <= 0.2
    assert found.confidence_interval.low <= low < high <= found.confidence_interval.high
    assert (found.status, found.guarantee) == ("precise", "calibrated")
    assert found.seen.sum() == found.evaluations and found.levels.shape[1] == 2
    back = jaxrob.DomainAssessment.from_json(found.to_json())
    assert back.to_json() == found.to_json()
    assert dataclasses.replace(again, seconds=found.seconds).to_json() == back.to_json()


@pytest.mark.slow
def test_levels_follow_the_distribution():
    points = np.random.default_rng(0).random((4000, 2))
    each = [dist.Normal(0, 20), dist.Uniform(-1, 0.5)]
    levels = by_distribution(BOTH, each)(points)
    expected = scipy.stats.truncnorm(-1.5, 1.5, scale=20).ppf(points[:, 0])
    np.testing.assert_allclose(levels[:, 0], expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(levels[:, 1], points[:, 1] - 0.5, atol=1e-9)
    together = dist.GaussianCopula(
        dist.Uniform(jnp.array([-30, -0.5]), jnp.array([30, 0.5])),
        jnp.array([[1, 0.6], [0.6, 1]]),
    )
    levels = by_distribution(BOTH, together)(points)
    normal = scipy.special.ndtri((levels + [30, 0.5]) / [60, 1])
    np.testing.assert_allclose(np.corrcoef(normal.T)[0, 1], 0.6, atol=0.03)


@pytest.mark.slow
def test_one_image_one_alteration_and_groups():
    assert assess(dataset=SOME[:1]).confidence_interval == (0, 1)
    low, high = assess(Domain([BRIGHTNESS])).dataset_interval
    alone = jaxrob.assess(classifier, SOME, BRIGHTNESS, 0.7)
    assert low <= alone.robustness <= high
    groups = {"patient": np.arange(400) // 4}
    held = jaxrob.Dataset(SOME.images, SOME.labels, metadata=groups, groups="patient")
    with pytest.warns(jaxrob.RobustnessWarning, match="groups"):
        assert assess(dataset=held).confidence_interval is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"strategy": strategies.ASAP()},
        {"measure": "f1"},
        {"threshold": 2.0},
        {"level_distribution": [dist.Normal(0, 1)]},
        {"level_distribution": [dist.Normal(90, 0.1), dist.Normal(0, 1)]},
        {"level_distribution": dist.Normal(0, 1)},
        {"level_distribution": dist.Dirichlet(jnp.ones(2))},
        {"level_distribution": [dist.Normal(0, 1), dist.VonMises(0, 1)]},
    ],
    ids=lambda one: next(iter(one)),
)
def test_what_gives_no_volume_is_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        assess(**wrong)
