"""The findings of RoMA's experiments, on results of known truth."""

import dataclasses
import re

import numpy as np
import pytest
from roma_2022 import findings
from roma_2022.results import Timed, at_inputs

from jaxrob import roma

N = 300
NAMES = ("cat", "truck", "deer")
LABELS = np.arange(N) % 3


def made(probability, estimator="roma", unanswered=(), inputs=None):
    """Returns a result with correct answers, and as many hits as expected."""
    p = np.broadcast_to(probability, N).astype(float)
    log_p = np.log(p)
    log_p[list(unanswered)] = np.nan
    status = np.where(np.isnan(log_p), "failed", "transformed")
    unknown = np.full(N, np.nan)
    result = roma.RomaResult(
        estimator=estimator,
        perturbation="ball",
        epsilon=0.1,
        delta=0.6,
        num_samples=1000,
        excluded=LABELS,
        labels=LABELS,
        status=status,
        log_adversarial_probability=log_p,
        log_low=unknown,
        log_high=unknown,
        hits=np.round(1000 * p).astype(int),
        evaluations=np.full(N, 1000),
    )
    return Timed(result, 2.0, np.arange(N) if inputs is None else inputs)


def spread(mean):
    """Returns probabilities around a mean, with the same order of inputs each time."""
    return mean * np.random.default_rng(0).uniform(0.5, 1.5, N)


def cases(*means, **settings):
    return [
        findings.Case(level, {"roma": made(spread(mean), **settings)})
        for level, mean in enumerate(means)
    ]


@pytest.mark.parametrize(
    ("means", "verdict", "shown"),
    [
        ((0.01, 0.02, 0.04), "holds", "2 are shown to rise, 0 to do the opposite"),
        ((0.04, 0.02, 0.01), "does not hold", "0 are shown to rise, 2 to do"),
        # It rises overall, but not at each step.
        ((0.01, 0.04, 0.02), "does not hold", "1 are shown to rise, 1 to do"),
        ((0.02, 0.02, 0.02), "undecided", "0 are shown to rise, 0 to do"),
    ],
)
def test_whether_it_rises(means, verdict, shown):
    lines = findings.over("1", "it falls", cases(*means))
    assert len(lines) == 2
    for line in lines:
        assert line.endswith(f"; {verdict}") and shown in line
    falls = findings.over("2", "it rises", cases(*means[::-1]), rises=False)
    assert all(line.endswith(f"; {verdict}") for line in falls)


def test_answers_alone_mislead_where_the_others_fail():
    """The paper's mean over the answers falls; that over all inputs rises."""
    probability = np.where(LABELS == 0, 0.2, 0.01)
    first = made(probability / 2)
    last = made(probability, unanswered=np.flatnonzero(LABELS == 0))
    both = [findings.Case(i, {"roma": one}) for i, one in enumerate((first, last))]
    counted, answered = findings.over("1", "it falls", both)
    assert "plain draws" in counted and counted.endswith("; holds")
    assert "by roma" in answered and answered.endswith("; does not hold")


def test_the_share_of_answers():
    few = made(spread(0.01), unanswered=range(0, N, 2))
    most = made(spread(0.01), unanswered=range(0, N, 10))
    line, small, large = findings.answers(
        [findings.Case(i, {"roma": one}) for i, one in enumerate((few, most, most))]
    )
    # The mean of 50, 90 and 90 %.
    assert "76.67%" in line
    assert "+40.00%" in small and small.endswith("; holds")
    assert "+0.00%" in large and large.endswith("; undecided")


def test_categories_that_differ_and_that_do_not():
    apart = np.choose(LABELS, [0.2, 0.01, 0.05]) * np.linspace(0.8, 1.2, N)
    lines = findings.by_category({"roma": made(apart)}, NAMES)
    assert len(lines) == 2 * 2 * 5
    for line in lines:
        # Each category has hits at every input: only the numbers differ.
        undecided = "tests tell" in line or "inputs with a hit" in line
        assert line.endswith("; undecided" if undecided else "; holds"), line
    low, high = cats_over_trucks(lines, "roma, true classes", "20")
    assert 19 < low < 19.7 < 20.3 < high < 21
    same = findings.by_category({"roma": made(spread(0.02))}, NAMES)
    assert all(line.endswith(("; undecided", "; does not hold")) for line in same)


def test_nothing_is_decided_where_there_are_no_hits():
    lines = findings.by_category({"roma": made(1e-9)}, NAMES)
    counted = [line for line in lines if "by plain draws, " in line]
    assert len(counted) == 2 * 5
    assert all(line.endswith("; undecided") for line in counted)


def cats_over_trucks(lines, name, ratio):
    """Returns the interval of a ratio, from one of the lines."""
    (line,) = (line for line in lines if f"less robust than trucks, by {name}:" in line)
    found = re.search(rf"= (?:{ratio}) \[(.*), (.*)\] \(paper", line)
    return [float(end) for end in found.groups()]


def test_true_and_predicted_classes_may_tell_different_things():
    """The answers "cat" are uncertain, half of them trucks, and half of the cats."""
    predicted = np.where(LABELS < 2, np.arange(N) // 3 % 2, LABELS)
    probability = np.choose(predicted, [0.2, 0.01, 0.05]) * np.linspace(0.8, 1.2, N)
    found = made(probability)
    result = dataclasses.replace(found.result, excluded=predicted)
    lines = findings.by_category({"roma": found._replace(result=result)}, NAMES)
    low, high = cats_over_trucks(lines, "roma, true classes", "0.99.|1|1.0.")
    assert 0.7 < low < 1 < high < 1.4
    low, high = cats_over_trucks(lines, "roma, predicted classes", "20|19.9")
    assert 19 < low < 20 < high < 21


def test_the_results_of_some_inputs():
    found = made(spread(0.02), inputs=np.arange(0, 2 * N, 2))
    some = at_inputs(found, np.arange(0, 2 * N, 6))
    assert len(some.status) == N // 3 and some.num_samples == 1000
    np.testing.assert_array_equal(some.hits, found.result.hits[::3])


def test_costs_of_the_whole_test_set():
    (line,) = findings.costs({"roma": [made(0.1)] * 3}, 1e-6, 9000)
    # Two seconds for 300 queries, and 30 times as many images.
    assert "6 s for 900 queries" in line and "1,000 forward passes" in line
    assert "1 min for one of the 3 epsilons and epochs, 3 min for all" in line
    # From a journal: only the others are used for the estimate.
    known = made(0.1)._replace(seconds=np.nan)
    (line,) = findings.costs({"roma": [made(0.1), known, known]}, 1e-6, 9000)
    assert "2 s for 300 queries" in line and "3 min for all" in line
    assert findings.costs({"roma": [known]}, 1e-6, 9000) == []
