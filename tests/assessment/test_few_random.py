"""Few images of random data sets, whose robustness is known in closed form."""

import itertools
import math
from typing import NamedTuple

import jax
import numpy as np
import pytest
import scipy

import jaxrob

from .test_few import CLASSIFIER, DIM, dataset_of, with_few

THRESHOLDS = (0.2, 0.5, 0.8, 1.0)
WAYS = list(itertools.product((False, True), repeat=4))


class Case(NamedTuple):
    """A data set, what is asked of it, and the robustness on all of its images."""

    dataset: jaxrob.Dataset
    settings: dict
    truth: float


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unaltered, the accuracy", "ignore:the images of")
def test_random_data_sets_and_settings(cases):
    """No run fails, and none misses the truth more often than it says."""
    rng = np.random.default_rng(36)
    cases = min(cases, 48)
    # Each is a program.
    sizes = [1, 100, 290]
    allowed, missed, seen = 0.0, 0, 0
    for run in range(cases):
        number = sizes[run % len(sizes)]
        case = random_case(rng, number, WAYS[run % len(WAYS)])
        key = jax.random.key(run)
        try:
            result = jaxrob.assess(
                CLASSIFIER, case.dataset, DIM, key=key, **with_few(**case.settings)
            )
        except ValueError as error:
            assert "budget must be at least" in str(error), case.settings
            continue
        seen += 1
        low, high = result.dataset_interval
        misses = not low - 1e-6 <= case.truth <= high + 1e-6
        sampling = result.sampling
        assert not (misses and sampling.error == 0), (case.settings, number)
        allowed, missed = allowed + sampling.error, missed + misses
        check_what_it_says(result, case)
    assert seen > 0.8 * cases
    assert missed <= scipy.stats.poisson.ppf(0.999, allowed)


def check_what_it_says(result, case):
    low, high = result.dataset_interval
    sampling, asked = result.sampling, case.settings
    assert low <= result.robustness <= high
    assert sampling.seen.max() <= len(case.dataset)
    assert result.evaluations <= asked.get("budget", math.inf)
    if sampling.status == "certain":
        assert low >= asked["required"] or high < asked["required"]
    if sampling.status == "precise" and asked.get("half_width"):
        assert high - low <= 2 * asked["half_width"] + 1e-9


def random_case(rng, number, way):
    """Images that are right up to a limit each: of many shapes, with ties."""
    limits = rng.choice(
        [rng.random(number), rng.beta(0.3, 0.3, number), rng.normal(0.5, 0.05, number)]
    )
    if rng.random() < 0.4:
        limits = np.round(limits * 4) / 4 + 0.013
    always = rng.random(number)
    limits = np.select([always < 0.1, always > 0.9], [0.0, 1.1], np.clip(limits, 0, 1))
    limits = np.float64(np.float32(limits))
    threshold = float(rng.choice(THRESHOLDS))
    # The level up to which as many as must be are right.
    must = math.ceil(threshold * number - 1e-9)
    truth = min(np.sort(limits)[::-1][must - 1], 1.0)
    dataset = dataset_of(limits, rng.integers(0, 2, number))
    half_width, budget, curtail, required = way
    settings: dict = {"threshold": threshold, "curtail": curtail}
    if half_width:
        settings["half_width"] = float(rng.choice([0, 0.01, 0.05]))
    if budget:
        settings["budget"] = int(min(number, 128) * rng.integers(9, 60))
    if required:
        settings["required"] = float(rng.random())
    if not any(way):
        settings["half_width"] = 0.02
    return Case(dataset, settings, float(truth))
