"""Evidence from few of N: exact probabilities over all orders, and simulations."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy

from jaxrob.metrics._evidence import (
    count_evidence,
    mean_evidence,
    mean_interval,
)


def probability_ever(stops, right_in_all):
    """That a random order of all inputs ever meets a (right, seen) that stops.

    Args:
      stops: bool `[N + 1, N + 1]`, by the number right and the number seen.
      right_in_all: how many of the N are right.
    """
    total = len(stops) - 1
    going = {0: Fraction(1)}
    stopped = Fraction(0)
    for seen in range(total + 1):
        after = {}
        for right, share in going.items():
            if stops[right, seen]:
                stopped += share
                continue
            if seen == total:
                continue
            next_right = Fraction(right_in_all - right, total - seen)
            for more, chance in ((1, next_right), (0, 1 - next_right)):
                if chance:
                    after[right + more] = after.get(right + more, 0) + share * chance
        going = after
    return float(stopped)


def lattice(total):
    right, seen = np.mgrid[: total + 1, : total + 1]
    return right, seen, right <= seen


@pytest.mark.parametrize(("total", "error"), [(7, 0.2), (13, 0.05)])
def test_count_evidence_is_rarely_wrong(total, error):
    right, seen, possible = lattice(total)
    for least in range(1, total + 1):
        evidence = count_evidence(np.where(possible, right, 0), seen, total, least)
        bound = math.log(1 / error)
        for truth in range(total + 1):
            wrong = evidence.rejected if truth >= least else evidence.accepted
            stops = possible & (wrong >= bound)
            assert probability_ever(stops, truth) <= error + 1e-12


def test_mean_interval_rarely_misses():
    generator = np.random.default_rng(22)
    total, runs, error = 200, 40, 0.1
    scores = generator.random(total) * 1.5 - 0.5
    misses = 0
    for _ in range(runs):
        order = generator.permutation(scores)
        bounds = [
            mean_interval(order[:seen], total, error, (-0.5, 1.0))
            for seen in (10, 80, 150)
        ]
        mean = scores.mean()
        misses += any(not low - 1e-9 <= mean <= high + 1e-9 for low, high in bounds)
    assert misses <= scipy.stats.binom.ppf(0.999, runs, error)


def test_mean_evidence_ends_certain():
    scores = np.repeat([0.0, 0.5, 1.0], [10, 20, 70])
    below = mean_evidence(scores, 100, scores.mean() - 0.01, (0.0, 1.0))
    above = mean_evidence(scores, 100, scores.mean() + 0.01, (0.0, 1.0))
    assert below.accepted > math.log(1e6) and above.rejected > math.log(1e6)
