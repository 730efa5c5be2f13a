"""What the default estimator spends, and says where that is not enough."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxrob
from jaxrob.reporting import Requirement, verdict
from jaxrob.roma import RomaResult, assess

DIM = 144
KEY = jax.random.key(0)
DIRECTION = np.random.default_rng(0).choice([-1.0, 1.0], DIM)
EPSILON, DELTA = 0.1, 0.6
# The deviation of what a draw adds to the margin, and how many of them there are to the
# boundary.
DEVIATION = EPSILON * (DIM / 3) ** 0.5
FAR = np.array([0.0, 1.0, 2.0, 2.7, 4.5, 9.0])
# The log-odds of delta are added to each distance.
TRUTH = stats.norm.logsf(FAR + math.log(DELTA / (1 - DELTA)) / 10)


def scores(direction, images):
    """Two classes; the second one's margin is the sum of what draws add, less FAR."""
    margin = (images.reshape(len(images), -1) - 0.5) @ direction / DEVIATION
    return jnp.stack([jnp.zeros(len(images)), 10 * margin], axis=-1)


def images(numbers):
    back = FAR[numbers] * DEVIATION / DIM
    return np.float32(0.5 - back[:, None] * DIRECTION).reshape(-1, DIM, 1, 1)


def on_host(calls):
    def function(batch):
        calls.append(len(batch))
        return np.asarray(scores(np.float32(DIRECTION), batch))

    return jaxrob.Classifier.from_host(function, 2, name="scores", version="1")


def test_a_black_box_stays_within_ten_times_the_papers_draws():
    calls = []
    found = assess(on_host(calls), images([1, 2, 3, 4, 5]), epsilon=EPSILON, key=KEY)
    assert found.estimator == "auto" and found.budget == 10_000
    assert found.evaluations.max() <= 10_000
    # Padding of blocks and the unperturbed images come on top.
    assert sum(calls) < 1.5 * found.evaluations.sum()
    assert found.status.tolist() == [*["counted"] * 3, *["undecided"] * 2]
    # Counted among 1,000 draws, or 9,000, by independent arithmetic.
    hits = found.effective_sample_size.astype(int)
    for one, draws in enumerate([1000, 9000, 9000, 9000, 9000]):
        low, high = stats.binomtest(int(hits[one]), draws).proportion_ci()
        np.testing.assert_allclose(np.exp(found.log_high[one]), high, rtol=1e-6)
        np.testing.assert_allclose(np.exp(found.log_low[one]), low, atol=1e-12)
    assert (found.log_low <= TRUTH[1:]).all() and (TRUTH[1:] <= found.log_high).all()
    assert np.isnan(found.plr[3:]).all() and (found.needed[:3] == 0).all()
    # What is rarer takes longer.
    assert 25_000 < found.needed[3] < found.needed[4] < 300_000
    (caveat,) = found.caveats
    assert "undecided (2 of 5)" in caveat and "budget=math.inf" in caveat
    # A mean is known as far as those allow.
    low, high = found.mean_plr_interval
    plr = np.where(np.isnan(found.plr), found.confidence_interval.T, found.plr)
    np.testing.assert_allclose([low, high], plr.mean(axis=1))
    assert low < found.mean_plr <= high < 1
    gate = [Requirement("plr", (low + high) / 2)]
    assert "not sure, between" in verdict(gate, {"RoMA": found})
    assert verdict([Requirement("plr", low - 1e-9)], {"RoMA": found}) == ""
    assert RomaResult.from_json(found.to_json()).to_json() == found.to_json()


@pytest.mark.slow
def test_a_network_with_gradients_is_answered_within_the_budget():
    classifier = jaxrob.Classifier(scores, np.float32(DIRECTION))
    many = np.repeat([1, 2, 3, 4, 5], 6)
    found = assess(classifier, images(many), epsilon=EPSILON, key=KEY)
    assert found.evaluations.max() <= 10_000
    assert found.answered.mean() > 0.9
    assert set(found.status) <= {"counted", "importance", "undecided"}
    # The margin is not quite normal far out.
    log_p = found.log_adversarial_probability
    assert np.nanmax(np.abs(log_p - TRUTH[many])[many < 5]) < np.log(2)
    # A smaller budget is spent no more than it is.
    for budget in (1000, 4000):
        less = assess(
            classifier, images([4, 5]), epsilon=EPSILON, budget=budget, key=KEY
        )
        assert less.evaluations.max() <= budget
        assert (less.status == "undecided").all()


def without_slope(direction, images):
    return scores(direction, jax.lax.stop_gradient(images))


@pytest.mark.slow
def test_particles_bound_what_draws_cannot_tell():
    classifier = jaxrob.Classifier(without_slope, np.float32(DIRECTION))
    found = assess(classifier, images([5, 5, 4, 4]), epsilon=EPSILON, key=KEY)
    assert found.status.tolist() == [*["bounded"] * 2, *["undecided"] * 2]
    assert found.evaluations.max() <= 10_000
    # They end at about 1e-9, with an error of a factor 10.
    assert (TRUTH[5] < found.log_high[:2]).all() and (found.log_high[:2] < -16).all()
    assert (found.log_high[2:] > TRUTH[4]).all()


def many_sided(directions, images):
    """The second class lies behind each of many orthogonal planes."""
    margins = (images.reshape(len(images), -1) - 0.5) @ directions.T / DEVIATION
    return jnp.stack([jnp.zeros(len(images)), 10 * (margins.max(axis=1) - 7)], axis=-1)


@pytest.mark.slow
def test_many_modes_do_not_overdraw_the_budget():
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((DIM, DIM)))[0]
    planes = np.float32(rotation[:12] * DIM**0.5)
    classifier = jaxrob.Classifier(many_sided, planes)
    found = assess(classifier, images([0] * 6), epsilon=EPSILON, key=KEY)
    assert 5000 < found.evaluations.max() <= 10_000


def product(bound, images):
    u = (images.reshape(len(images), -1)[:, :2] - 0.5) / EPSILON
    wrong = 20 * (u.prod(axis=1) - bound) + math.log(DELTA / (1 - DELTA))
    return jnp.stack([jnp.zeros(len(images)), wrong], axis=-1)


@pytest.mark.slow
def test_gradients_that_lead_to_and_fro_do_not_hide_where_others_led():
    # u1 u2 > t with two signs of four: (1 - t + t log t) / 2.
    bound = 0.99717
    log_p = np.log((1 - bound + bound * np.log(bound)) / 2)
    classifier = jaxrob.Classifier(product, jnp.float32(bound))
    found = assess(classifier, images([0] * 20), epsilon=EPSILON, delta=DELTA, key=KEY)
    # Three of 20 without what particles know of it, 18 with it.
    assert found.answered.sum() >= 11 and found.evaluations.max() <= 10_000
    off = (found.log_adversarial_probability - log_p)[found.answered]
    covers = (found.log_low <= log_p) & (log_p <= found.log_high)
    assert np.abs(off).max() < np.log(3)
    assert covers[found.answered].mean() > 0.75


@pytest.mark.slow
def test_without_a_limit_a_black_box_is_split():
    found = assess(
        on_host([]), images([3, 4]), epsilon=EPSILON, budget=math.inf, key=KEY
    )
    assert (found.status == "splitting").all() and found.budget is None
    assert (found.needed == 0).all() and found.evaluations.min() > 10_000


def test_a_budget_that_makes_no_sense_is_refused():
    classifier = jaxrob.Classifier(scores, np.float32(DIRECTION))
    for budget, message in ((999, "budget must be at least 1000"), (1e4, "budget")):
        with pytest.raises((ValueError, TypeError), match=message):
            assess(classifier, images([1]), budget=budget, key=KEY)
    with pytest.raises(ValueError, match='budget goes with estimator="auto"'):
        assess(classifier, images([1]), budget=9999, estimator="splitting", key=KEY)


def unsure(direction, images):
    """The wrong class's confidence is normal around 0.3, and never the largest."""
    x = images.reshape(len(images), -1) - 0.2
    wrong = 0.3 + 0.04 * x @ direction / (EPSILON * (DIM / 3) ** 0.5)
    return jnp.stack([1 - wrong, wrong], axis=-1)


FLAT = np.full((3, DIM, 1, 1), 0.2, np.float32)


def test_the_papers_fit_says_where_the_draws_contradict_it():
    classifier = jaxrob.Classifier(unsure, np.float32(DIRECTION), "probabilities")
    asked = {"epsilon": EPSILON, "estimator": "roma", "key": KEY}
    with pytest.warns(jaxrob.RobustnessWarning, match="contradict the normal fit"):
        found = assess(classifier, FLAT, delta=0.36, **asked)
    assert found.answered.any() and not found.hits.any()
    (said,) = found.warnings
    assert "0 of 1000 draws" in said and 'estimator="auto"' in said
    # A fit that is not contradicted is not warned of; what it assumes is said.
    fine = assess(classifier, FLAT, delta=0.45, **asked)
    assert fine.warnings == () and "assumed to hold beyond" in fine.caveats[0]
