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
FAR = np.array([1.0, 2.0, 2.7, 4.5, 9.0])
# The log-odds of delta are added to each distance.
TRUTH = stats.norm.logsf(FAR + math.log(DELTA / (1 - DELTA)) / 10)
IMAGES = np.float32(0.5 - FAR[:, None] * DEVIATION / DIM * DIRECTION)
IMAGES = IMAGES.reshape(-1, DIM, 1, 1)


def on_host(calls):
    """Two classes; the second one's margin is the sum of what draws add, less FAR."""

    def scores(batch):
        calls.append(len(batch))
        margin = (batch.reshape(len(batch), -1) - 0.5) @ DIRECTION / DEVIATION
        return np.stack([0 * margin, 10 * margin], axis=-1).astype(np.float32)

    return jaxrob.Classifier.from_host(scores, 2, name="scores", version="1")


def test_a_black_box_stays_within_ten_times_the_papers_draws():
    calls = []
    found = assess(on_host(calls), IMAGES, epsilon=EPSILON, key=KEY)
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
    assert (found.log_low <= TRUTH).all() and (TRUTH <= found.log_high).all()
    assert np.isnan(found.plr[3:]).all() and (found.needed[:3] == 0).all()
    # What is rarer takes longer.
    assert 25_000 < found.needed[3] < found.needed[4] < 300_000
    (caveat,) = found.caveats
    assert "undecided (2 of 5)" in caveat
    # A mean is known as far as those allow.
    low, high = found.mean_plr_interval
    plr = np.where(np.isnan(found.plr), found.confidence_interval.T, found.plr)
    np.testing.assert_allclose([low, high], plr.mean(axis=1))
    assert low < found.mean_plr <= high < 1
    gate = [Requirement("plr", (low + high) / 2)]
    assert "not sure" in verdict(gate, {"RoMA": found})
    assert verdict([Requirement("plr", low - 1e-9)], {"RoMA": found}) == ""
    assert RomaResult.from_json(found.to_json()).to_json() == found.to_json()


@pytest.mark.slow
def test_without_a_limit_a_black_box_is_split():
    asked = {"epsilon": EPSILON, "budget": math.inf, "key": KEY}
    found = assess(on_host([]), IMAGES[2:4], **asked)
    assert (found.status == "splitting").all() and found.budget is None
    assert (found.needed == 0).all() and found.evaluations.min() > 10_000
    error = (found.log_high - found.log_low) / (2 * 1.96)
    assert (abs(found.log_adversarial_probability - TRUTH[2:4]) < 3.5 * error).all()


@pytest.mark.parametrize(
    ("budget", "estimator", "error"),
    [
        (999, "auto", ValueError),
        (1e4, "auto", TypeError),
        (9999, "splitting", ValueError),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(budget, estimator, error):
    with pytest.raises(error, match="budget"):
        assess(on_host([]), IMAGES, budget=budget, estimator=estimator, key=KEY)


def unsure(direction, images):
    """The wrong class's confidence is normal around 0.3, and never the largest."""
    x = images.reshape(len(images), -1) - 0.2
    wrong = 0.3 + 0.04 * x @ direction / DEVIATION
    return jnp.stack([1 - wrong, wrong], axis=-1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the images of")
def test_the_papers_fit_says_where_the_draws_contradict_it():
    classifier = jaxrob.Classifier(unsure, np.float32(DIRECTION), "probabilities")
    flat = np.full((3, DIM, 1, 1), 0.2, np.float32)
    asked = {"epsilon": EPSILON, "estimator": "roma", "key": KEY}
    with pytest.warns(jaxrob.RobustnessWarning, match="contradict"):
        found = assess(classifier, flat, delta=0.36, **asked)
    assert found.answered.any() and not found.hits.any()
    dark, said = found.warnings
    assert "0 of 1000 draws" in said and "nearly black" in dark
    # A fit that is not contradicted is not warned of; what it assumes is said.
    fine = assess(classifier, flat, delta=0.45, **asked)
    assert fine.warnings == (dark,) and "assumed" in fine.caveats[0]
