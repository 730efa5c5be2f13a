"""The study of few images on curves close to the threshold, a few runs of it."""

import numpy as np
import pytest
from checks import drawn_curves, near_threshold
from checks.drawn_searches import search, truth
from scipy import stats


def test_curves_close_to_the_threshold_are_decided_as_often_as_stated():
    rng = np.random.default_rng(5)
    cases = [drawn_curves.NEAR[k] for k in (4, 7, 9, 10)] * 2
    runs = [near_threshold.near(one, rng, 256) for one in cases]
    assert sum(not run.held for run in runs) <= stats.binom.ppf(0.999, len(runs), 0.05)
    assert not any(run.gross for run in runs)
    assert all(run.precise for run in runs)


def test_drawn_answers_have_the_accuracy_of_their_curve():
    rng = np.random.default_rng(0)
    for kind in drawn_curves.SHAPES + drawn_curves.OTHERS:
        shape = kind(rng)
        right = drawn_curves.answers(shape, 1000, 0.0, rng)
        for level in (0.0, 0.3, 1.0):
            expected = np.clip(shape(np.array(level)), 0, 1)
            assert abs(right(level).mean() - expected) <= 0.001


@pytest.mark.parametrize("varying", [0.0, 0.1])
def test_shapes_end_where_accuracies_do(varying):
    rng = np.random.default_rng(0)
    right = drawn_curves.answers(lambda x: 2.5 - 4 * x, 100, varying, rng)
    assert right(0.1).all() and not right(0.9).any()


def test_the_truth_of_a_line():
    right = drawn_curves.answers(
        lambda x: 1 - 0.4 * x, 1000, 0.0, np.random.default_rng(0)
    )
    assert abs(truth(right, 0.8, 256) - 0.5) < 0.005
    found = search(right, 1000, 0.8, 256, curtail=True)
    assert found.low - 0.005 <= 0.5 <= found.high + 0.005
