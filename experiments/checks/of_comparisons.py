"""How often comparisons of equal networks, and intervals, err: drawn answers alone.

    cd experiments && python -m checks.of_comparisons --study=families --runs=2000

Networks are right on an image at all levels up to its limit, which is as hard for both
as a normal copula makes it; a share of the images neither is ever right on. 2,000 runs
of "families" take 20 minutes, since a comparison takes 25 ms.
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from absl import app, flags
from common import intervals
from scipy import stats

import jaxrob
from jaxrob import strategies
from jaxrob.metrics import heaviside_robustness

#: The levels of all drawn answers.
LEVELS = np.linspace(0, 1, 11)
#: Of few images.
SIZES = (1, 2, 5, 10, 20, 30)


class Shape(NamedTuple):
    """Two networks: how far limits reach, the share never right, and the threshold."""

    reach: tuple[float, float]
    never: tuple[float, float]
    threshold: float
    correlation: float = 0.6


#: Shapes by name, of which those named "equal" are of networks that are alike.
SHAPES = {
    "equal, steep": Shape((1, 1), (0, 0), 0.5),
    "equal, flat": Shape((8, 8), (0.15, 0.15), 0.8),
    "equal, high": Shape((4, 4), (0.03, 0.03), 0.8),
    "unequal": Shape((1, 1.4), (0, 0), 0.5),
    "saturated": Shape((20, 20), (0.06, 0.14), 0.8),
    "one fails": Shape((20, 20), (0.1, 0.3), 0.8),
}


def define_runs() -> None:
    """Flags of scripts; not of modules, because tests import several of them."""
    flags.DEFINE_integer("runs", 200, "how often")
    flags.DEFINE_integer("seed", 0, "of the draws")


def main(_: Sequence[str]) -> None:
    asked = flags.FLAGS
    for row in globals()[asked.study](asked.runs, asked.seed):
        print(*row, sep="  ", flush=True)


def families(runs: int, seed: int, num_images: int = 100) -> Iterator[tuple]:
    """How many families of comparisons of equal networks show any difference."""
    for number in (8, 15):
        rng = np.random.default_rng([seed, number])
        shapes = [shape for name, shape in SHAPES.items() if name.startswith("equal")]
        alone = together = 0
        for _ in range(runs):
            mine = [shapes[k % len(shapes)] for k in range(number)]
            found_p = np.ravel([p_values(*drawn(rng, s, num_images)) for s in mine])
            # Nothing is called a difference whose adjusted p-value is larger.
            together += (intervals.adjusted(found_p) <= 0.05).any()
            alone += (found_p <= 0.05).any()
        row = (number, "networks: adjusted, alone", together / runs, alone / runs)
        yield *row, "at most", at_most(together, runs)


def power(runs: int, seed: int) -> Iterator[tuple]:
    """How often the mean tells unequal networks apart, and McNemar's at one level."""
    for name in ("unequal", "saturated", "one fails"):
        robustness, mean, values = truth(SHAPES[name])
        effects = robustness, mean, float(values[len(values) // 2])
        for num_images in (30, 100, 300):
            rng = np.random.default_rng([seed, num_images])
            counts = np.zeros(3)
            for _ in range(runs):
                pair = drawn(rng, SHAPES[name], num_images)
                of_all, of_mean = p_values(*pair)
                counts += of_mean <= 0.05, of_all <= 0.05, mcnemar(*pair) <= 0.05
            row = name, num_images, *(f"{one:+.3f}" for one in effects)
            yield *row, "mean, all, McNemar", *counts / runs


def equal(runs: int, seed: int) -> Iterator[tuple]:
    """How often equal networks are called different: by either p-value, by the mean."""
    for name in (name for name in SHAPES if name.startswith("equal")):
        for num_images in SIZES:
            rng = np.random.default_rng([seed, num_images])
            counts = np.zeros(2)
            for _ in range(runs):
                both = np.array(p_values(*drawn(rng, SHAPES[name], num_images)))
                counts += (intervals.adjusted(both) <= 0.05).any(), both[1] <= 0.05
            row = name, num_images, "either, mean", *counts / runs
            yield *row, "at most", *(at_most(one, runs) for one in counts)


def p_values(
    first: jaxrob.Assessment, second: jaxrob.Assessment
) -> tuple[float, float]:
    """Of the difference in robustness and in the mean."""
    found = jaxrob.compare(first, second)
    return found.p_value, found.mean_p_value


def at_most(number: float, runs: int) -> float:
    """What a share of so many runs is at most, with 97.5 % (Clopper and Pearson)."""
    found = stats.binomtest(int(number), runs).proportion_ci(0.95, "exact")
    return float(found.high)


def truth(shape: Shape) -> tuple[float, float, np.ndarray]:
    """The differences in robustness, mean and values, of all images."""
    curves = [
        (1 - never) * np.clip(1 - LEVELS / reach, 0, 1)
        for reach, never in zip(shape.reach, shape.never)
    ]
    robustness = [
        heaviside_robustness(LEVELS, one, shape.threshold, "linear") for one in curves
    ]
    values = curves[0] - curves[1]
    return robustness[0] - robustness[1], float(np.trapezoid(values, LEVELS)), values


def drawn(
    rng: np.random.Generator, shape: Shape, num_images: int
) -> list[jaxrob.Assessment]:
    """Assessments of two networks on the same drawn images."""
    covariance = [[1, shape.correlation], [shape.correlation, 1]]
    hard = rng.multivariate_normal([0, 0], covariance, size=num_images)
    limits = stats.norm.cdf(hard).T * np.reshape(shape.reach, (2, 1))
    never = rng.random((2, num_images)) < np.reshape(shape.never, (2, 1))
    wrong = np.where(never, -1, limits)[:, None] < LEVELS[:, None]
    return [assessment(one, shape.threshold) for one in wrong]


def assessment(wrong: np.ndarray, threshold: float) -> jaxrob.Assessment:
    """An assessment of answers that are wrong where `[L, N]` says so."""
    labels = np.zeros(wrong.shape[1], np.int32)
    curve = jaxrob.Curve(LEVELS, wrong.astype(np.int16), None, None, labels, 2, None)
    return dataclasses.replace(_template(), curve=curve, threshold=threshold)


def mcnemar(first: jaxrob.Assessment, second: jaxrob.Assessment) -> float:
    """The exact p-value at the middle level alone."""
    middle = len(LEVELS) // 2
    wrong = [one.curve.predicted[middle] for one in (first, second)]
    better, worse = (wrong[0] < wrong[1]).sum(), (wrong[0] > wrong[1]).sum()
    different = int(better + worse)
    return stats.binomtest(int(better), different).pvalue if different else 1


@functools.cache
def _template() -> jaxrob.Assessment:
    """A result of which all but the answers is kept."""
    classifier = jaxrob.Classifier(
        lambda _, images: jnp.stack(
            [images.mean((1, 2, 3)), 0.5 + 0 * images[:, 0, 0, 0]], -1
        )
    )
    images = np.linspace(0, 1, 8, dtype=np.float32)[:, None, None, None]
    dataset = jaxrob.Dataset(images, (images[:, 0, 0, 0] < 0.5).astype(np.int32))
    dim = jaxrob.Alteration("dim", lambda image, x: image * (1 - x / 9), 0.0, 1.0)
    return jaxrob.assess(
        classifier, dataset, dim, 0.5, strategy=strategies.Uniform(2), rule="linear"
    )


if __name__ == "__main__":
    names = ["families", "power", "equal"]
    flags.DEFINE_enum("study", "families", names, "what is drawn")
    define_runs()
    app.run(main)
