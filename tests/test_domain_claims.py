"""What is claimed of a domain: failure probabilities and boxes hold what they say."""

import dataclasses
import json
from typing import Any

import jax
import numpy as np
import pandas
import pytest
from domain_claims import drawn, made_up, wrong_model
from numpyro import distributions as dist

import jaxrob
from jaxrob import Domain
from jaxrob.domains._box_search import levels_needed
from jaxrob.domains._failure import of_population

KEY = jax.random.key(4)
# Images of one value; the network asks whether it exceeds a half.
RANDOM = np.random.default_rng(3)
VALUES = RANDOM.uniform(0.1, 0.9, 300).astype(np.float32)
DATASET = jaxrob.Dataset(
    np.tile(VALUES[:, None, None, None], (1, 2, 2, 1)), (VALUES > 0.5).astype(int)
)
RECORDED = RANDOM.uniform(-0.25, 0.25, (40, 2))


def shifted(image, level):
    return image + level


def is_bright(variables, images):
    mean = images.mean(axis=(1, 2, 3))
    return variables * jax.numpy.stack([0.5 - mean, mean - 0.5], axis=1)


CLASSIFIER = jaxrob.Classifier(is_bright, np.float32(8))
ABOUT = jaxrob.alterations.About(leaves_range=True)
SHIFT = jaxrob.Alteration("shift", shifted, -0.3, 0.3, identity=0.0, about=ABOUT)
DOMAIN = Domain([SHIFT, SHIFT])


def failure(profile: Any = RECORDED, domain=DOMAIN, dataset=DATASET, **given: Any):
    settings: dict[str, Any] = {"key": KEY} | given
    return jaxrob.failure_probability(CLASSIFIER, dataset, domain, profile, **settings)


def true_share(levels):
    moved = VALUES[:, None] + np.asarray(levels, np.float32).sum(axis=1)
    return np.mean((moved > 0.5) != (VALUES > 0.5)[:, None])


@pytest.mark.slow
def test_recorded_levels_have_the_probability_that_counting_gives(tmp_path):
    journal = tmp_path / "journal"
    found = failure(relative=0.05, journal=journal)
    truth, (low, high) = true_share(RECORDED), found.dataset_interval
    assert low <= truth <= high and found.status == "precise"
    assert (high - low) / 2 <= 0.05 * found.probability
    start, end = found.confidence_interval
    assert start < low and high < end
    # Images beside a half fail; they are drawn more often than others.
    assert len(found.images) > 1 and found.unaltered == len(VALUES)
    rates = found.draws / found.images
    assert rates[0] > 1.5 * rates[-1]
    assert found.evaluations == found.unaltered + found.draws.sum()
    content = journal.read_bytes()
    journal.write_bytes(content[: len(content) // 2])
    again = failure(relative=0.05, journal=journal)
    assert journal.read_bytes() == content
    back = jaxrob.FailureProbability.from_json(again.to_json())
    parts = (json.loads(one.to_json()) for one in (found, back))
    first, second = ({**one, "seconds": 0, "digest": ""} for one in parts)
    assert first == second


@pytest.mark.slow
def test_distributions_have_the_probability_that_many_levels_give():
    each = [dist.Uniform(-0.2, 0.2), dist.Uniform(-0.1, 0.3)]
    joint = dist.Uniform(np.array([-0.2, -0.1]), np.array([0.2, 0.3])).to_event(1)
    levels = np.random.default_rng(0).uniform([-0.2, -0.1], [0.2, 0.3], (4000, 2))
    for profile in (each, joint):
        found = failure(profile, relative=0.1)
        low, high = found.dataset_interval
        assert low <= true_share(levels) <= high
    with pytest.warns(jaxrob.RobustnessWarning, match="outside"):
        found = failure([dist.Normal(0, 0.15), dist.Normal(0, 0.1)], budget=200)
    assert found.status == "budget" and found.evaluations == 200


def test_a_failure_that_never_happens_has_an_upper_end():
    found = failure(np.zeros((3, 2)), budget=1000)
    assert found.probability == 0 and found.status == "budget"
    assert found.dataset_interval.low == 0
    assert found.dataset_interval.high == pytest.approx(-np.log(0.025) / 1000, rel=0.01)
    # 300 images, however many levels.
    assert found.confidence_interval.high == pytest.approx(
        -np.log(0.025) / 300, rel=0.05
    )
    assert failure(np.zeros((3, 2)), half_width=0.01).evaluations < 400


def test_images_of_groups_and_single_images():
    scenes = {"scene": np.arange(len(VALUES)) // 10}
    given = DATASET.images, DATASET.labels
    grouped = jaxrob.Dataset(*given, metadata=scenes, groups="scene")
    one = jaxrob.Dataset(*(part[VALUES > 0.8][:1] for part in given))
    alone, together = failure(), failure(dataset=grouped)
    np.testing.assert_array_equal(alone.dataset_interval, together.dataset_interval)
    assert alone.confidence_interval != together.confidence_interval
    assert failure(dataset=one, budget=500).confidence_interval.high > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("steepness", [0.0, 1.5, 4.0])
def test_intervals_of_drawn_counts_hold_the_truth(steepness):
    table = made_up(steepness, 0.01, 500)
    runs = [drawn(table, 0.2, seed) for seed in range(120)]
    held = [
        low <= table[0].mean() <= high
        for _, (low, high) in (one.interval(0.95) for one in runs)
    ]
    # Of 120 runs at 93.5 %, so few hold it with a probability of 0.1 %.
    assert sum(held) >= 103
    cost = np.mean([one.evaluations for one in runs])
    plain = 0.99 / 0.01 * (1.96 / 0.2) ** 2
    assert cost < {0.0: 1.2, 1.5: 1.2, 4.0: 0.5}[steepness] * plain


def test_the_population_is_held_by_intervals_over_images():
    held = []
    for seed in range(60):
        rng = np.random.default_rng([5, seed])
        margins = rng.standard_normal(200)
        shares = 0.4 / (1 + np.exp(3 * margins + 3))
        low, high = of_population(drawn((shares, margins), 0.2, seed), 0.95, None)
        # The mean over normal margins, by quadrature.
        at = np.linspace(-8, 8, 4001)
        density = np.exp(-(at**2) / 2)
        truth = (0.4 / (1 + np.exp(3 * at + 3)) * density).sum() / density.sum()
        held.append(low <= truth <= high)
    assert sum(held) >= 53


def box(domain=DOMAIN, **given: Any) -> Any:
    settings: dict[str, Any] = {"threshold": 0.75, "accepted_share": 0.9, "key": KEY}
    settings |= given
    return jaxrob.operating_box(CLASSIFIER, DATASET, domain, **settings)


def accepted(found, threshold=0.75):
    levels = np.random.default_rng(2).uniform(found.lower, found.upper, (2000, 2))
    moved = VALUES[:, None] + levels.astype(np.float32).sum(axis=1)
    right = ((moved > 0.5) == (VALUES > 0.5)[:, None]).mean(axis=0)
    return (right >= threshold).mean()


@pytest.mark.slow
def test_a_box_is_accepted_as_it_says(tmp_path):
    journal = tmp_path / "journal"
    found = box(journal=journal)
    assert found.status == "validated" and accepted(found) >= 0.9
    assert found.validated >= 35 and found.evaluations <= 100_000
    assert (found.lower < 0).all() and (found.upper > 0).all()
    # Shifts of opposite signs cancel: the largest is no more than these.
    assert 0.05 < found.volume < 0.6
    content = journal.read_bytes()
    journal.write_bytes(content[: len(content) // 3])
    again = box(journal=journal)
    assert journal.read_bytes() == content
    back = jaxrob.OperatingBox.from_json(again.to_json())
    np.testing.assert_array_equal(back.upper, found.upper)
    assert "shift 2" in repr(back) and "confidence" in repr(back)


@pytest.mark.slow
def test_fixed_faces_are_kept_or_refused():
    found = box(fixed={"shift": (-0.02, 0.05), "shift 2": (None, 0.0)})
    assert found.status == "validated" and accepted(found) >= 0.9
    assert (found.lower[0], *found.upper) == pytest.approx((-0.02, 0.05, 0.0))
    assert box(fixed={"shift": (-0.3, 0.3)}).status in ("fixed", "budget")
    found = box(threshold=1.0, measure="accuracy", fixed={"shift": (-0.2, 0.2)})
    assert found.lower is None and "fixed" in repr(found)


def test_there_is_no_box_where_the_unaltered_level_is_rejected():
    labels = np.arange(len(VALUES)) % 2
    dataset = jaxrob.Dataset(DATASET.images, labels)
    found = jaxrob.operating_box(CLASSIFIER, dataset, DOMAIN, key=KEY)
    assert (found.status, found.lower, found.volume) == ("identity", None, 0)
    assert jaxrob.OperatingBox.from_json(found.to_json()).upper is None
    found = box(budget=3000, alpha=0.5)
    assert (found.status, found.alpha) == ("budget", 0.5)


@pytest.mark.slow
def test_the_unaltered_level_may_lie_on_a_face():
    one_sided = dataclasses.replace(SHIFT, lower=0.0)
    found = box(Domain([one_sided, SHIFT]))
    assert found.status == "validated" and found.lower[0] == 0


@pytest.mark.parametrize(
    ("call", "settings", "error", "name"),
    [
        (failure, {"domain": SHIFT}, TypeError, "domain"),
        (failure, {"profile": RECORDED[:, :1]}, ValueError, "profile"),
        (failure, {"profile": RECORDED * 2}, ValueError, "profile"),
        (failure, {"profile": pandas.DataFrame(RECORDED)}, TypeError, "profile"),
        (failure, {"profile": np.full((2, 2), np.nan)}, ValueError, "profile"),
        (failure, {"profile": [dist.Uniform(0, 0.1)]}, ValueError, "profile"),
        (failure, {"profile": [dist.Uniform(0, 0.1), 0.1]}, TypeError, "profile"),
        (failure, {"profile": dist.Uniform(0, 0.1)}, ValueError, "profile"),
        (failure, {"profile": [dist.Normal(9, 1)] * 2}, ValueError, "profile"),
        (failure, {"relative": 0, "half_width": 0}, ValueError, "relative"),
        (failure, {"budget": 0}, ValueError, "budget"),
        (failure, {"key": None}, ValueError, "key"),
        (box, {"domain": SHIFT}, TypeError, "domain"),
        (box, {"accepted_share": 1.0}, ValueError, "accepted_share"),
        (box, {"budget": 100}, ValueError, "budget"),
        (box, {"fixed": [0.1]}, TypeError, "fixed"),
        (box, {"fixed": {"turn": (0, 0.1)}}, ValueError, "fixed"),
        (box, {"fixed": {"shift": (0.1, 0.2)}}, ValueError, "fixed"),
        (box, {"fixed": {"shift": 0.2}}, ValueError, "fixed"),
        (box, {"fixed": {"shift": (0, 0)}}, ValueError, "fixed"),
        (box, {"measure": "f1"}, ValueError, "measure"),
    ],
)
def test_unusable_arguments(call, settings, error, name):
    with pytest.raises(error, match=name):
        call(**settings)


@pytest.mark.slow
def test_a_wrong_model_seldom_makes_a_box_claim_too_much():
    (found,) = wrong_model(20, 0, 256)
    # Of 20 at 5 %, more have a probability of 0.3 %.
    assert found["claims"] >= 10 and found["too much"] <= 4
    assert [levels_needed(j, 0.99, 0.05) for j in (1, 2)] == [357, 587]
