"""How often intervals of each kind hold, at several levels: drawn counts, no network.

    cd experiments && python -m checks.of_intervals --runs=2000

A row: what, the level, the share of runs in which the interval held the truth, and what
that share is at most (Clopper and Pearson). Below the level, the interval is too short.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from absl import app, flags
from scipy import stats

from checks.of_comparisons import SHAPES, define_runs, drawn, truth
from jaxrob import metrics
from jaxrob._assessment.compare import _answered, _asked
from jaxrob._assessment.paired import resampled
from jaxrob.metrics._bootstrap import num_resamples, percentiles
from jaxrob.roma import compare_categories
from jaxrob.roma._count import clopper_pearson
from jaxrob.roma._global_result import put_together
from jaxrob.roma._local_answers import by_plain_draws

_STUDIES = ("counts", "robustness", "populations", "categories", "comparisons")
CONFIDENCES = (0.95, 0.99, 0.999)
_LEVELS = np.linspace(0, 1, 11)


class Values(NamedTuple):
    """Numbers in [0, 1] of which the mean is sought."""

    mean: float
    draw: Callable[[np.random.Generator, int], np.ndarray]


#: The plr of a category's inputs, by shape.
VALUES = {
    "nine in ten are 1": Values(0.9, lambda rng, n: 1.0 * (rng.random(n) < 0.9)),
    "near 0 or 1": Values(0.5, lambda rng, n: rng.beta(0.3, 0.3, n)),
    "near 1": Values(0.99, lambda rng, n: rng.beta(9.9, 0.1, n)),
    "alike": Values(0.7, lambda _, n: np.full(n, 0.7)),
}


def main(_: Sequence[str]) -> None:
    asked = flags.FLAGS
    for name in asked.intervals:
        for row in globals()[name](asked.runs, asked.seed):
            print(*row, sep="  ", flush=True)


def counts(runs: int, seed: int) -> list[tuple]:
    """RoMA's count."""
    rng, found = np.random.default_rng(seed), []
    for level in CONFIDENCES:
        for p in (1e-4, 0.003, 0.1, 0.5):
            hits = rng.binomial(1000, p, runs)
            low, high = clopper_pearson(hits, 1000, level)
            found.append(_row(f"count, p = {p:g}", level, (low <= p) & (p <= high)))
    return found


def categories(
    runs: int, seed: int, sizes: Sequence[int] = (2, 5, 10, 20, 30)
) -> list[tuple]:
    """RoMA's intervals of categories."""
    found = []
    for level in CONFIDENCES:
        for name, shape in VALUES.items():
            for number in sizes:
                rng = np.random.default_rng([seed, number])
                held = [
                    _in(shape.mean, _interval(shape.draw(rng, number), level))
                    for _ in range(runs)
                ]
                found.append(_row(f"category, {name}, {number} inputs", level, held))
    return found


def populations(runs: int, seed: int, num_inputs: int = 100) -> list[tuple]:
    """The global robustness of a category, from 20 draws at each input."""
    found = []
    for level in CONFIDENCES:
        for name in ("near 0 or 1", "near 1"):
            shape, rng = VALUES[name], np.random.default_rng(seed)
            held, near = [], []
            for _ in range(runs):
                p = 1 - shape.draw(rng, num_inputs)
                one = put_together(
                    by_plain_draws(rng.binomial(20, p), 20),
                    np.zeros(num_inputs, int),
                    None,
                    by="all",
                    num_samples=20,
                    confidence_level=level,
                    jointly=True,
                )
                held.append(_in(1 - shape.mean, one.population_interval[0]))
                near.append(_in(p.mean(), one.inputs_interval[0]))
            found.append(_row(f"population, {name}", level, held))
            found.append(_row(f"inputs, {name}", level, near))
    return found


def robustness(runs: int, seed: int, num_images: int = 100) -> list[tuple]:
    """The robustness of one network: half the range is accepted, or four fifths."""
    found = []
    for level in CONFIDENCES:
        for name, threshold in (("half", 0.5), ("four fifths", 0.2)):
            rng, held = np.random.default_rng(seed), []
            for _ in range(runs):
                limits = rng.random(num_images)
                right = (limits >= _LEVELS[:, None]).sum(1)
                confusion = np.zeros((len(_LEVELS), 2, 3), int)
                confusion[:, 0, 0], confusion[:, 0, 1] = right, num_images - right
                ends = metrics.confidence_interval(
                    _LEVELS, confusion, "accuracy", threshold, level, bounds=(0, 1)
                )
                held.append(_in(1 - threshold, ends))
            found.append(_row(f"robustness, {name}", level, held))
    return found


def comparisons(runs: int, seed: int, num_images: int = 50) -> list[tuple]:
    """The difference in robustness of unequal networks.

    By the bootstrap alone: what the p-values add to the interval only widens it.
    """
    shape, found = SHAPES["unequal"], []
    difference, _, _ = truth(shape)
    for level in CONFIDENCES:
        rng, held = np.random.default_rng(seed), []
        for _ in range(runs):
            first, second = drawn(rng, shape, num_images)
            number = num_resamples(level)
            some = resampled(_asked(first), _answered(first), _answered(second), number)
            held.append(_in(difference, percentiles(some.robustness, level, (-1, 1))))
        found.append(_row("comparison", level, held))
    return found


def _interval(plr: np.ndarray, level: float) -> np.ndarray:
    return compare_categories(
        plr, None, 1, np.zeros(len(plr), int), confidence_level=level
    ).interval[0]


def _in(value: float, interval: Sequence[float] | np.ndarray) -> bool:
    return bool(interval[0] - 1e-9 <= value <= interval[1] + 1e-9)


def _row(what: str, level: float, held: Sequence[bool] | np.ndarray) -> tuple:
    share = stats.binomtest(int(np.sum(held)), len(held))
    high = share.proportion_ci(0.95, "exact").high
    too_short = "TOO SHORT" if high < level else ""
    return what, level, share.statistic, f"{high:.5f}", too_short


if __name__ == "__main__":
    flags.DEFINE_multi_enum("intervals", _STUDIES, _STUDIES, "which ones")
    define_runs()
    app.run(main)
