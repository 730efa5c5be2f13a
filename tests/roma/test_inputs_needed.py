"""Sample sizes, against simulated intervals and exact ones."""

import numpy as np
import pytest
from scipy import stats

from jaxrob.roma import inputs_needed
from jaxrob.roma._bounded_mean import mean_interval


def simulated_widths(plan, p, correlation, confidence, runs=15):
    rng = np.random.default_rng(0)
    widths = []
    for _ in range(runs):
        local = np.full(plan.inputs, p)
        if correlation == 1:
            local = (rng.random(plan.inputs) < p).astype(float)
        elif correlation:
            ends = np.array([p, 1 - p]) * (1 / correlation - 1)
            local = rng.beta(*ends, plan.inputs)
        values = rng.binomial(plan.num_samples, local) / plan.num_samples
        tail = (1 - confidence) / 2
        interval = mean_interval(values, values, tail, plan.num_samples)
        widths.append(interval[1] - interval[0])
    return np.median(widths)


@pytest.mark.parametrize(
    ("p", "relative", "correlation", "draws"),
    [(0.3, 0.1, 0.2, None), (0.1, 0.2, 0.0, 8)],
)
def test_intervals_are_as_wide_as_asked_for(p, relative, correlation, draws):
    plan = inputs_needed(
        p,
        relative=relative,
        correlation=correlation,
        num_samples=draws,
        confidence_level=0.9,
    )
    assert plan.evaluations == plan.inputs * (1 + plan.num_samples)
    width = simulated_widths(plan, p, correlation, 0.9)
    assert 0.94 <= width / (2 * relative * p) <= 1.06


def test_one_draw_each_by_the_exact_interval():
    plan = inputs_needed(0.3, half_width=0.02, num_samples=1)
    for number, enough in ((plan.inputs, True), (round(0.98 * plan.inputs), False)):
        hits = round(0.3 * number)
        low, high = stats.binomtest(hits, number).proportion_ci(0.95, "exact")
        assert (high - low <= 0.04 * 1.002) == enough


def test_draws_are_those_that_cost_least():
    alike = {"half_width": 0.003, "correlation": 0.001}
    best = inputs_needed(0.05, **alike)
    for draws in (16, 64):
        other = inputs_needed(0.05, num_samples=draws, **alike)
        assert best.evaluations < other.evaluations
    # Where inputs are always or never misclassified, more draws tell nothing.
    assert inputs_needed(0.05, half_width=0.01).num_samples == 8


def test_draws_hardly_correlated_are_independent_ones():
    none, hardly, all_but, wholly = (
        inputs_needed(0.1, relative=0.2, correlation=correlation, num_samples=8).inputs
        for correlation in (0, 5e-324, 1 - 1e-12, 1)
    )
    assert none == hardly < all_but == wholly


@pytest.mark.slow
def test_several_categories_take_more():
    known = {"relative": 0.4, "correlation": 0.2, "num_samples": 8}
    one, ten = (inputs_needed(0.1, **known, categories=number) for number in (1, 10))
    stricter = inputs_needed(0.1, **known, confidence_level=0.995)
    assert one.inputs < ten.inputs == stricter.inputs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"probability": 0.0}, "probability"),
        ({"half_width": None}, "half_width"),
        ({"relative": 0.1}, "relative"),
        ({"half_width": 0.6}, "half_width"),
        ({"correlation": 1.5}, "correlation"),
        ({"num_samples": 0}, "num_samples"),
        ({"confidence_level": 0.2}, "confidence_level"),
        ({"categories": 0}, "categories"),
        ({"half_width": 1e-7}, "2147483647"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        inputs_needed(**({"probability": 0.1, "half_width": 0.05} | arguments))
