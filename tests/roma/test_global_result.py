"""Inputs put together: means, shares of the variance, categories; and as JSON."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import jaxrob
from jaxrob import roma
from jaxrob.roma import RomaResult

from ..assessment.documents import assert_refused, drop, put
from ..reporting import reports


@pytest.fixture
def rng():
    """Each test's own, so that what it draws does not depend on those before."""
    return np.random.default_rng(0)


def result(hits, num_samples, categories=None, labels=None):
    hits = np.asarray(hits)
    with np.errstate(divide="ignore"):
        log_p = np.log(hits / num_samples)
    unknown = np.full(len(hits), np.nan)
    return reports.roma(
        len(hits),
        num_samples=num_samples,
        excluded=np.zeros(len(hits), int) if categories is None else categories,
        labels=labels,
        log_adversarial_probability=log_p,
        log_low=unknown,
        log_high=unknown,
        hits=hits,
        evaluations=np.full(len(hits), num_samples),
    )


def drawn(rng, number, draws, p, correlation):
    a, b = np.array([p, 1 - p]) * (1 / correlation - 1)
    local = rng.beta(a, b, number)
    return rng.binomial(draws, local), local


def test_mean_and_parts_of_the_variance(rng):
    """Against the analysis of variance of the single draws."""
    hits, _ = drawn(rng, 400, 8, 0.2, 0.3)
    found = result(hits, 8).global_robustness("all")
    assert found.names == ("all",) and found.inputs == 400 and found.unanswered == 0
    single = (np.arange(8) < hits[:, None]).astype(float)
    assert found.probability == pytest.approx(single.mean())
    within = single.var(axis=1, ddof=1).mean() / 8
    between = single.mean(axis=1).var(ddof=1)
    assert found.variance == pytest.approx(between)
    assert found.draws_variance == pytest.approx(within)
    assert found.draws_share == pytest.approx(within / between)
    # Beta distributed inputs of this correlation.
    assert found.correlation == pytest.approx(0.3, abs=0.06)


def test_one_draw_each_leaves_the_shares_open(rng):
    found = result(rng.random(100) < 0.2, 1).global_robustness("all")
    assert np.isnan(found.draws_share[0])
    hits = round(found.probability[0] * 100)
    exact = stats.binomtest(hits, 100).proportion_ci(0.95, method="exact")
    assert found.population_interval[0] == pytest.approx(exact)
    assert found.inputs_interval[0] == pytest.approx(exact)


def test_each_alone_is_as_if_the_others_were_not_there(rng):
    hits, _ = drawn(rng, 90, 8, 0.2, 0.2)
    categories = np.repeat([0, 2], [60, 30])
    alone = result(hits[:60], 8).global_robustness("all")
    together = result(hits, 8, categories).global_robustness(jointly=False)
    jointly = result(hits, 8, categories).global_robustness()
    stricter = result(hits[:60], 8).global_robustness("all", confidence_level=0.975)
    assert together.names == jointly.names == ("0", "2")
    for name in ("population_interval", "inputs_interval"):
        np.testing.assert_array_equal(
            getattr(alone, name)[0], getattr(together, name)[0]
        )
        np.testing.assert_allclose(
            getattr(stricter, name)[0], getattr(jointly, name)[0], rtol=1e-9
        )


def test_categories_by_label_by_prediction_and_without_inputs(rng):
    hits, _ = drawn(rng, 90, 8, 0.2, 0.2)
    local = result(hits, 8, np.repeat([0, 1], [60, 30]), np.repeat([2, 1], 45))
    assert local.global_robustness().names == ("0", "1")
    found = local.global_robustness("label", class_names=("a", "b", "c"))
    np.testing.assert_array_equal(found.inputs, [0, 45, 45])
    assert np.isnan(found.population_interval[0]).all() and np.isnan(
        found.probability[0]
    )
    assert found.probability[1] == pytest.approx(hits[45:].mean() / 8)
    # Categories without inputs ask for no stricter intervals.
    listed = local.global_robustness("label")
    np.testing.assert_array_equal(
        found.population_interval[1:], listed.population_interval
    )


def answers(log_p, log_low, log_high, hits=None):
    hits = np.zeros(len(log_p), int) if hits is None else hits
    return dataclasses.replace(
        result(hits, 100),
        estimator="auto",
        log_adversarial_probability=log_p,
        log_low=log_low,
        log_high=log_high,
    )


def test_answers_of_an_estimator_count_as_anything_in_their_intervals():
    log_p = np.random.default_rng(0).normal(-9, 0.5, 200)
    found = answers(log_p, log_p - 0.3, log_p + 0.3).global_robustness(
        "all", source="estimator"
    )
    assert found.source == "estimator"
    assert found.probability == pytest.approx(np.exp(log_p).mean())
    ends = np.exp(log_p[:, None] + [-0.3, 0.3]).mean(axis=0)
    assert found.inputs_interval[0] == pytest.approx(ends)
    low, high = found.population_interval[0]
    sure = answers(log_p, log_p, log_p).global_robustness("all", source="estimator")
    assert (
        low < sure.population_interval[0, 0] and high > sure.population_interval[0, 1]
    )
    # Two hundred inputs cannot exclude that others are worse.
    assert high > 1e-2
    # Independent errors: the sum's standard error, as of 95 % intervals.
    errors = np.exp(log_p) * np.sinh(0.3) / stats.norm.isf(0.025)
    assert found.draws_variance == pytest.approx((errors**2).mean())


def test_inputs_without_an_answer_are_not_left_out():
    log_p = np.full(50, -7.0)
    log_p[:4] = np.nan
    low, high = log_p - 0.2, log_p + 0.2
    # One is bounded from above, one counted: 30 of 100.
    low[0], high[0] = -np.inf, np.log(0.01)
    hits = np.zeros(50, int)
    hits[1] = 30
    found = answers(log_p, low, high, hits).global_robustness("all", source="estimator")
    assert found.unanswered == 4
    rest = 46 * np.exp(-7.0)
    assert found.probability == pytest.approx((rest + 0.3) / 50)
    expected = np.array([46 * np.exp(-7.2), 46 * np.exp(-6.8) + 0.01 + 3]) / 50
    assert found.inputs_interval[0] == pytest.approx(expected)
    without = answers(log_p[4:], low[4:], high[4:]).global_robustness(
        "all", source="estimator"
    )
    assert found.population_interval[0, 1] > without.population_interval[0, 1] + 0.02
    # The plain draws of all are at hand, whatever the estimator.
    drawn = answers(log_p, low, high, hits).global_robustness("all")
    assert drawn.unanswered == 0 and drawn.probability == pytest.approx(0.3 / 50)


def test_a_heavy_tail_is_held_although_the_sample_lacks_the_greatest():
    mean = np.exp(-7 + 2**2 / 2)
    log_p = np.minimum(2 * np.random.default_rng(165).standard_normal(300) - 7, 0)
    found = answers(log_p, log_p, log_p).global_robustness("all", source="estimator")
    low, high = found.population_interval[0]
    assert low <= mean <= high


def test_json(rng):
    hits, _ = drawn(rng, 90, 8, 0.2, 0.2)
    local = result(hits, 8, np.repeat([0, 2], [60, 30]))
    found = local.global_robustness(class_names=("a", "b", "c"))
    document = json.loads(found.to_json())
    assert document["names"] == ["a", "b", "c"] and document["by"] == "predicted"
    assert document["population_interval"][0] == list(found.population_interval[0])
    assert document["population_interval"][1] == [None, None]
    assert document["probability"][1] is None and document["jointly"] is True
    after = roma.GlobalRobustness.from_json(found.to_json())
    for field in dataclasses.fields(after):
        one, other = (getattr(each, field.name) for each in (found, after))
        np.testing.assert_array_equal(one, other)
    assert after.to_json() == found.to_json()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": "class"}, "by"),
        ({"by": "label"}, "by"),
        ({"source": "auto"}, "source"),
        ({"confidence_level": 0.3}, "confidence_level"),
        ({"jointly": 1}, "jointly"),
        ({"class_names": ("a",)}, "class_names"),
        ({"class_names": ("a", "b"), "by": "all"}, "class_names"),
    ],
)
def test_refusals(arguments, message):
    local = result([1, 0, 3], 8, np.array([0, 1, 1]))
    with pytest.raises((TypeError, ValueError), match=message):
        local.global_robustness(**arguments)
    assert local.global_robustness("all", class_names=("mine",)).names == ("mine",)


KEY = jax.random.key(0)
DIM, EPSILON, DELTA = 6, 0.3, 0.6
# Logits by which class 1 is ahead, along the first pixel.
STEEPNESS, BOUNDARY = 40.0, 0.65


def network(variables, images):
    ahead = variables * (images[:, 0, 0, 0] - BOUNDARY)
    return jnp.stack([jnp.zeros_like(ahead), ahead], axis=-1)


CLASSIFIER = jaxrob.Classifier(network, np.float32(STEEPNESS))


def local(x):
    """By how far the first pixel, uniform in the ball, must go."""
    margin = np.log(DELTA / (1 - DELTA)) / STEEPNESS
    distance = np.abs(x - BOUNDARY) + margin
    return np.clip(1 - distance / EPSILON, 0, 1) / 2


def truth(low, high):
    points = [0.35, 0.64, BOUNDARY, 0.66]
    return integrate.quad(local, low, high, points=points)[0] / (high - low)


NUMBER = 3000
SETTINGS = {"epsilon": EPSILON, "delta": DELTA, "num_samples": 16, "key": KEY}
SETTINGS["estimator"] = "count"


@pytest.fixture(scope="module")
def found():
    images = np.random.default_rng(0).random((NUMBER, DIM, 1, 1), np.float32)
    labels = (images[:, 0, 0, 0] > 0.5).astype(int)
    return images, roma.assess(CLASSIFIER, images, labels, **SETTINGS)


def holds(result, expected):
    """All intervals of the population, at a confidence at which they surely do."""
    low, high = result.population_interval.T
    assert ((low <= expected) & (expected <= high)).all()
    error = np.sqrt(result.variance / result.inputs)
    assert (np.abs(result.probability - expected) < 4 * error).all()


@pytest.mark.slow
def test_by_predicted_class(found):
    found = found[1].global_robustness()
    assert found.names == ("0", "1") and found.by == "predicted"
    holds(found, [truth(0, BOUNDARY), truth(BOUNDARY, 1)])
    share = stats.binomtest(int(found.inputs[0]), 3000).proportion_ci(0.999)
    assert share.low < BOUNDARY < share.high
    widths = np.diff(found.population_interval)[:, 0]
    assert (widths < 0.7 * 2 * np.sqrt(np.log(80) / (2 * found.inputs))).all()
    # What the draws leave open, of what inputs leave open as well.
    x = np.linspace(0, BOUNDARY, 200_001)
    within = (local(x) * (1 - local(x))).mean() / 16
    assert found.draws_variance[0] == pytest.approx(within, rel=0.2)
    assert found.variance[0] == pytest.approx(within + local(x).var(), rel=0.2)


def test_by_label(found):
    by_label = found[1].global_robustness("label", class_names=("a", "b"))
    assert by_label.names == ("a", "b")
    holds(by_label, [truth(0, 0.5), truth(0.5, 1)])
    # Of the same inputs.
    whole = found[1].global_robustness()
    both = [each.probability @ each.inputs for each in (whole, by_label)]
    assert both[0] == pytest.approx(both[1])


def test_of_the_inputs_at_hand(found):
    images, assessed = found
    sure = assessed.global_robustness("label", confidence_level=0.9999)
    inside = local(images[:, 0, 0, 0].astype(float))
    expected = np.array([inside[assessed.labels == label].mean() for label in (0, 1)])
    low, high = sure.inputs_interval.T
    assert ((low <= expected) & (expected <= high)).all()


NAN, INF = np.nan, np.inf


def json_result(**changes):
    modes = np.zeros((4, 10))
    modes[3, :2] = 0.75, 0.25
    fields = {
        "estimator": "auto",
        "perturbation": "linf ball",
        "epsilon": 0.1,
        "delta": 0.6,
        "num_samples": 100,
        "excluded": np.array([0, 2, 1, 2], np.int32),
        "labels": np.array([0, 2, 2, 2], np.int32),
        "status": np.array(["counted", "bounded", "untrusted", "importance"]),
        "log_adversarial_probability": np.array([-INF, -700.0, NAN, -9.5]),
        "log_low": np.array([-INF, -INF, NAN, -9.9]),
        "log_high": np.array([-3.3, -700.0, NAN, -9.1]),
        "hits": np.array([0, 0, 0, 100]),
        "evaluations": np.array([100, 5000, 9000, 2**40]),
        "modes": modes,
        "effective_sample_size": np.array([0.0, 0.0, 0.0, 123.4]),
        "needed": np.zeros(4, int),
        "warnings": ("beware <b>",),
        "confidence_level": 0.999,
    }
    return RomaResult(**(fields | changes))


def by_algorithm_1():
    return json_result(
        estimator="roma",
        epsilon=None,
        labels=None,
        status=np.array(["normal", "transformed", "failed", "constant"]),
        log_adversarial_probability=np.array([-2.5, -INF, NAN, NAN]),
        log_low=np.full(4, NAN),
        log_high=np.full(4, NAN),
        modes=None,
        effective_sample_size=None,
        needed=None,
        statistic=np.array([0.1, INF, 3.0, NAN]),
        boxcox_lambda=np.array([NAN, 0.5, -1.5, NAN]),
        mean=np.array([0.5, -0.7, -INF, NAN]),
        std=np.array([0.1, 0.09, 2.0, NAN]),
    )


@pytest.mark.parametrize(
    "before", [json_result(), by_algorithm_1(), json_result(modes=None)]
)
def test_back_as_it_was(before):
    text = before.to_json()
    json.loads(text, parse_constant=pytest.fail)
    after = RomaResult.from_json(text)
    for field in dataclasses.fields(RomaResult):
        one, other = (getattr(each, field.name) for each in (before, after))
        np.testing.assert_array_equal(one, other, strict=field.name != "status")
    np.testing.assert_array_equal(after.plr, before.plr)
    assert after.caveats == before.caveats
    assert after.to_json() == text == RomaResult.from_json(text.encode()).to_json()


def test_where_every_draw_fails_plr_is_0_and_not_minus_0():
    ends = np.array([-0.1, -700.0, NAN, -9.9])
    log_p = np.array([0.0, -700.0, NAN, -9.5])
    found = json_result(log_adversarial_probability=log_p, log_low=ends, log_high=log_p)
    assert f"{found.plr[0]}" == "0.0"
    assert f"{found.confidence_interval[0, 0]}" == "0.0"


# What is changed, and what is named.
IMPLAUSIBLE = [
    (put("format", "jaxrob assessment 1"), "format"),
    (drop("modes"), "modes"),
    (put("estimator", "guess"), "estimator"),
    (put("hits", 0, 0.5), r"hits\[0\]"),
    (put("status", 0, "fine"), r"status\[0\]"),
    (put("log_high", 3, "-1"), r"log_high\[3\]"),
    (put("excluded", lambda some: some[1:]), "shape"),
    (put("excluded", 0, 2**31), "excluded"),
    (put("modes", 0, 0, 1.5), "modes"),
]


@pytest.mark.parametrize(("change", "message"), IMPLAUSIBLE)
def test_what_cannot_be_is_named(change, message):
    assert_refused(json_result().to_json(), change, message, RomaResult.from_json)
