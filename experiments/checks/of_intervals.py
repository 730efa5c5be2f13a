"""How often intervals of each kind hold, at several levels: drawn counts, no network.

    cd experiments && python -m checks.of_intervals --runs=2000

A row: what, the level, the share of runs in which the interval held the truth, and what
that share is at most (Clopper and Pearson). Below the level, the interval is too short.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from common import intervals

import jaxrob
from checks.of_comparisons import LEVELS, SHAPES, at_most, define_runs, drawn, truth
from jaxrob import roma

_STUDIES = ("counts", "robustness", "populations", "categories", "comparisons")
CONFIDENCES = (0.95, 0.99, 0.999)


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
    """RoMA's count: an input is its probability, a perturbation a uniform number."""
    found, perturbation = [], roma.from_sampler(_beside_a_uniform_one)
    classifier = jaxrob.Classifier(_misclassifies_below)
    for number, level in enumerate(CONFIDENCES):
        for place, p in enumerate((1e-4, 0.003, 0.1, 0.5)):
            key = jax.random.key(seed)
            for part in (number, place):
                key = jax.random.fold_in(key, part)
            counted = roma.assess(
                classifier,
                np.tile(np.float32([[[p, 1]]]), (runs, 1, 1, 1)),
                num_samples=1000,
                estimator="count",
                perturbation=perturbation,
                confidence_level=level,
                key=key,
            )
            low, high = counted.confidence_interval.T
            held = (low <= 1 - p) & (1 - p <= high)
            found.append(_row(f"count, p = {p:g}", level, held))
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
                one = counted(rng.binomial(20, p), 20).global_robustness(
                    "all", confidence_level=level
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
                right = (limits >= LEVELS[:, None]).sum(1)
                asked = LEVELS, right, num_images, threshold
                ends = intervals.of_robustness(*asked, confidence_level=level)
                held.append(_in(1 - threshold, ends))
            found.append(_row(f"robustness, {name}", level, held))
    return found


def comparisons(runs: int, seed: int, num_images: int = 50) -> list[tuple]:
    """The difference in robustness of unequal networks."""
    shape, found = SHAPES["unequal"], []
    difference, _, _ = truth(shape)
    for level in CONFIDENCES:
        rng, held = np.random.default_rng(seed), []
        for _ in range(runs):
            one = jaxrob.compare(*drawn(rng, shape, num_images), level)
            held.append(_in(difference, one.confidence_interval))
        found.append(_row("comparison", level, held))
    return found


def _beside_a_uniform_one(key: jax.Array, image: jax.Array) -> jax.Array:
    return image.at[0, 0, 1].set(jax.random.uniform(key))


def _misclassifies_below(_: None, images: jax.Array) -> jax.Array:
    """Logits: class 1 where the second number is below the first."""
    is_below = images[:, 0, 0, 1] < images[:, 0, 0, 0]
    return 100.0 * jnp.stack([~is_below, is_below], axis=-1)


def counted(hits: np.ndarray, num_samples: int) -> roma.RomaResult:
    """A result of which the plain draws alone are known."""
    unknown = np.full(len(hits), np.nan)
    return roma.RomaResult(
        estimator="count",
        perturbation="none",
        epsilon=None,
        delta=0.6,
        num_samples=num_samples,
        excluded=np.zeros(len(hits), np.int32),
        labels=None,
        status=np.full(len(hits), "counted"),
        log_adversarial_probability=unknown,
        log_low=unknown,
        log_high=unknown,
        hits=hits,
        evaluations=np.full(len(hits), num_samples),
    )


def _interval(plr: np.ndarray, level: float) -> np.ndarray:
    return roma.compare_categories(
        plr, None, 1, np.zeros(len(plr), int), confidence_level=level
    ).interval[0]


def _in(value: float, interval: Sequence[float] | np.ndarray) -> bool:
    return bool(interval[0] - 1e-9 <= value <= interval[1] + 1e-9)


def _row(what: str, level: float, held: Sequence[bool] | np.ndarray) -> tuple:
    high = at_most(np.sum(held), len(held))
    too_short = "TOO SHORT" if high < level else ""
    return what, level, float(np.mean(held)), f"{high:.5f}", too_short


if __name__ == "__main__":
    flags.DEFINE_multi_enum("intervals", _STUDIES, _STUDIES, "which ones")
    define_runs()
    app.run(main)
