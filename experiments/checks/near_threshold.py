"""How often the intervals of few images hold, of curves close to the threshold.

    cd experiments; python -m checks.near_threshold --runs=2000
    cd experiments; python -m checks.near_threshold --what=shapes --runs=300
    cd experiments; python -m checks.near_threshold --what=turning --runs=500 --parts=64

"near": test sets of curves that change by 0.005 to 0.1 over the range and cross the
threshold, at half widths of 0.01 to 0.1. "shapes": random shapes of each kind, smooth,
jagged, near, with dips, plateaus or jumps. "others": random shapes of other kinds.

Prints, for each, how often the data set's interval misses what all images at all levels
give, how often the answer is off by more than three times the half width although the
status is "precise", and the altered images classified, as multiples of N. Then which
cover significantly less than 95 % (Holm), and whether all together do. "turning": how
often searches that decide levels are wrong, on curves that turn close to the threshold.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import app, flags
from common import intervals
from scipy import special, stats

from jaxrob import metrics, strategies

THRESHOLD = 0.8
# Answers farther off than so many half widths are gross errors.
_GROSS = 3.0
# Rounding of shares of the range.
_ROUNDING = 1e-9
_FREQUENCIES = np.arange(1, 7) / 2

# The probability of a right answer at levels in [0, 1].
Shape = Callable[[np.ndarray], np.ndarray]
# Which of N images are right at a level in [0, 1], bool `[N]`, in the order in which
# they are looked at.
Right = Callable[[float], np.ndarray]


class Run(NamedTuple):
    """One search."""

    held: bool  # whether the interval holds the truth
    gross: bool  # whether the answer is far off, without a sign of it
    precise: bool  # whether the status is "precise"
    cost: float  # altered images over N
    seconds: float  # it took


def main(argv: Sequence[str]) -> None:
    del argv
    asked = flags.FLAGS
    if asked.what == "turning":
        return report_turning(asked.runs, asked.seed, asked.parts)
    kinds = OTHERS if asked.what == "others" else SHAPES
    names = [kind.__name__ for kind in kinds]
    if asked.what == "near":
        names = [str(tuple(case)) for case in _NEAR]
    found: list[list[Run]] = [[] for _ in names]
    # Each gets the same time, as far as this is limited.
    while open_ones := [k for k, runs in enumerate(found) if len(runs) < asked.runs]:
        spent = [sum(run.seconds for run in runs) for runs in found]
        if sum(spent) > asked.seconds:
            break
        number = min(open_ones, key=lambda k: (spent[k], len(found[k])))
        rng = np.random.default_rng([asked.seed, number, len(found[number])])
        case = _NEAR[number] if asked.what == "near" else kinds[number](rng)
        found[number].append(_run(case, rng, asked.parts))
    report(names, found)


class _Near(NamedTuple):
    """A curve that runs close to the threshold, and what is asked of it."""

    slope: float  # by how much the accuracy falls over the range
    at: float  # where it crosses the threshold; beyond [0, 1] it never does
    # By how much it leaves the straight line in its middle, as a share of slope.
    bend: float
    num_images: int  # N
    half_width: float  # of the robustness
    # The share of an image's strength that varies with the level; with 0 an image that
    # fails at a level fails beyond it too.
    varying: float

    def shape(self, x: np.ndarray) -> np.ndarray:
        """The accuracy expected."""
        fallen = _bent(x, self.bend) - _bent(self.at, self.bend)
        return THRESHOLD - self.slope * fallen


def _bent(x: np.ndarray | float, bend: float) -> np.ndarray | float:
    return x + bend * 4 * x * (1 - x)


_NEAR = (
    _Near(0.005, 0.5, 0.0, 10_000, 0.05, 0.0),
    _Near(0.005, 0.3, 0.2, 2_000, 0.1, 0.0),
    _Near(0.01, 0.5, 0.0, 1_000, 0.1, 0.001),
    _Near(0.01, 0.8, 0.0, 500, 0.1, 0.0),
    _Near(0.02, 0.5, 0.0, 4_000, 0.05, 0.0),
    _Near(0.02, 0.7, -0.2, 10_000, 0.02, 0.0),
    _Near(0.02, 0.9, 0.0, 1_000, 0.05, 0.0),
    _Near(0.05, 0.4, 0.2, 4_000, 0.05, 0.0),
    _Near(0.05, 0.6, 0.0, 10_000, 0.01, 0.0),
    _Near(0.1, 0.15, 0.0, 2_000, 0.05, 0.01),
    _Near(0.1, 0.5, -0.2, 10_000, 0.02, 0.0),
    _Near(0.05, 0.5, 0.0, 500, 0.01, 0.0),
)


def search(right: Right, num_images: int, parts: int, **asked: Any) -> tuple[Any, Any]:
    """The history and what is found by `jaxrob.assess` from few images."""
    task = strategies.Task(0.0, 1.0, THRESHOLD, 0.0, num_images)
    strategy = strategies.FewImages(strategies.ASAP(n=parts), **asked)

    def scores(levels: np.ndarray) -> np.ndarray:
        return np.stack([right(level) for level in levels])

    return strategies.sample(strategy, task, scores)


def truth(right: Right, parts: int) -> float:
    levels = np.linspace(0, 1, parts + 1)
    values = np.array([right(level).mean() for level in levels])
    return metrics.heaviside_robustness(levels, values, THRESHOLD, "linear")


def _run(case: _Near | Shape, rng: np.random.Generator, parts: int) -> Run:
    """A search of one of the curves close to the threshold, or of another shape."""
    if isinstance(case, _Near):
        shape, *_, num_images, half_width, varying = case.shape, *case
    else:
        shape, num_images = case, int(10 ** rng.uniform(2.7, 4))
        half_width = float(10 ** rng.uniform(-2, -1))
        varying = float(rng.choice([0, 0, 0.001, 0.02, 0.2]))
    right, slack = answers(shape, num_images, varying, rng), 0.5 / parts
    real = truth(right, parts)
    start = time.perf_counter()
    history, found = search(right, num_images, parts, half_width=half_width)
    seconds = time.perf_counter() - start
    low, high = found.interval
    half, is_precise = (high - low) / 2, found.status == "precise"
    half = max(half_width, half) if is_precise else half
    return Run(
        low - slack <= real <= high + slack,
        abs(found.robustness - real) > _GROSS * half + slack,
        is_precise,
        sum(map(len, history.scores)) / num_images,
        seconds,
    )


class Decided(NamedTuple):
    """One search that decides levels."""

    wrong: bool  # whether a level or the interval contradicts all images there
    missed: bool  # whether the interval misses what they give at all levels
    evaluations: int  # altered images classified
    levels: int  # what all images would be at the levels looked at


def turning(
    shape: Shape, rng: np.random.Generator, parts: int, **asked: Any
) -> Decided:
    """A search that decides levels, on a curve that turns close to the threshold."""
    num_images = int(np.exp(rng.uniform(np.log(50), np.log(4001))))
    varying = float(rng.choice([0, 0, 0.001, 0.02, 0.2]))
    right, slack = answers(shape, num_images, varying, rng), 0.5 / parts
    history, found = search(right, num_images, parts, **asked)
    (low, high), levels = found.interval, history.levels
    values = np.array([right(level).mean() for level in levels])
    wrong = (found.sides * np.where(values >= THRESHOLD, 1, -1) < 0).any()
    for rule in ("right", "linear"):
        same = metrics.heaviside_robustness(levels, values, THRESHOLD, rule)
        wrong |= not low - _ROUNDING <= same <= high + _ROUNDING
    missed = not low - slack <= truth(right, parts) <= high + slack
    evaluations, every = sum(map(len, history.scores)), len(values) * num_images
    return Decided(bool(wrong), missed, evaluations, every)


def report_turning(runs: int, seed: int, parts: int) -> None:
    for asked in ({"curtail": True}, {"half_width": 0.0}):
        for number, kind in enumerate(TURNING):
            found = []
            for run in range(runs):
                rng = np.random.default_rng([seed, number, run])
                found.append(turning(kind(rng), rng, parts, **asked))
            wrong, missed, evaluations, every = np.array(found).sum(axis=0)
            print(
                f"{asked!s:22}{kind.__name__:8} wrong {wrong} of {runs}, missed "
                f"between levels {missed}, evaluations {evaluations} of {every}",
                flush=True,
            )


def report(names: Sequence[str], found: Sequence[Sequence[Run]]) -> None:
    """Prints the figures of each curve, and of all."""
    numbers = np.array([len(runs) for runs in found])
    held = np.array([sum(run.held for run in runs) for runs in found])
    gross = np.array([sum(run.gross for run in runs) for runs in found])
    for name, runs, missed, far in zip(names, found, numbers - held, gross):
        columns = np.array(runs, float).mean(axis=0)
        print(
            f"{name:44} missed {missed:4} of {len(runs):4} ({missed / len(runs):6.2%})"
            f"  gross {far:3}  precise {columns[2]:6.1%}  evaluations "
            f"{columns[3]:6.2f} N  {columns[4]:.3f} s"
        )
    below = intervals.significantly_below(held, numbers, 0.95)
    bad = [name for name, one in zip(names, below) if one]
    print(f"significantly below 95 %: {'; '.join(bad) or 'none'}")
    total, all_held = numbers.sum(), held.sum()
    p = stats.binom.cdf(all_held, total, 0.95)
    print(f"all: missed {total - all_held} of {total} (p {p:.3g}), gross {gross.sum()}")


def answers(
    shape: Shape, num_images: int, varying: float, rng: np.random.Generator
) -> Right:
    """A test set whose accuracy at single levels is the shape's, but for rounding."""
    places = (rng.permutation(num_images) + 0.5) / num_images
    if not varying:
        return lambda level: places < shape(np.asarray(level))
    fixed = np.sqrt(1 - varying) * special.ndtri(places)
    weights = rng.standard_normal((num_images, 2 * len(_FREQUENCIES)))
    weights *= np.sqrt(varying / len(_FREQUENCIES))

    def right(level: float) -> np.ndarray:
        phases = 2 * np.pi * _FREQUENCIES * level
        waves = np.concatenate([np.cos(phases), np.sin(phases)])
        share = np.clip(shape(np.asarray(level)), 0, 1)
        return fixed + weights @ waves < special.ndtri(share)

    return right


def steep(rng: np.random.Generator) -> Shape:
    """A falling curve that bends: steep where it crosses."""
    top, drop = rng.uniform(0.85, 0.99), rng.uniform(0.3, 0.8)
    power = rng.uniform(0.6, 3)
    return lambda x: top - drop * x**power


def smooth(rng: np.random.Generator) -> Shape:
    """A sum of waves around the threshold."""
    heights = rng.normal(0, 0.1, 4) / np.arange(1, 5)
    phases = rng.uniform(0, 2 * np.pi, 4)
    middle = THRESHOLD + rng.normal(0, 0.05)
    return lambda x: (
        middle
        + sum(
            height * np.cos(np.pi * (k + 1) * x + phase)
            for k, (height, phase) in enumerate(zip(heights, phases))
        )
    )


def near(rng: np.random.Generator) -> Shape:
    """A curve that changes little, close to the threshold."""
    slope = 10 ** rng.uniform(-2.5, -1)
    at, power = rng.uniform(-0.2, 1.2), rng.uniform(0.7, 1.5)
    sign = rng.choice([-1, 1])
    return lambda x: (
        THRESHOLD + sign * slope * (np.sign(at) * abs(at) ** power - x**power)
    )


def jagged(rng: np.random.Generator) -> Shape:
    """Straight pieces between levels at random."""
    number = rng.integers(4, 12)
    levels = np.concatenate([[0], np.sort(rng.random(number)), [1]])
    values = THRESHOLD + np.cumsum(rng.normal(0, 0.06, number + 2))
    return lambda x: np.interp(x, levels, values)


def dip(rng: np.random.Generator) -> Shape:
    """Level but for a dip or a peak to the other side."""
    off, deep = rng.choice([-1, 1]) * rng.uniform(0.01, 0.1), rng.uniform(1.2, 5)
    at, wide = rng.random(), rng.uniform(0.06, 0.25)
    return lambda x: THRESHOLD + off * (1 - deep * np.exp(-(((x - at) / wide) ** 2)))


def plateau(rng: np.random.Generator) -> Shape:
    """A fall, a plateau beside the threshold, a fall."""
    off = rng.choice([-1, 1]) * 10 ** rng.uniform(-2.5, -1.3)
    start, end = np.sort(rng.uniform(0.1, 0.9, 2))
    points = [0, start, max(end, start + 0.05), 1]
    values = THRESHOLD + np.array([0.17, off, off, -rng.uniform(0.1, 0.6)])
    return lambda x: np.interp(x, points, values)


def steps(rng: np.random.Generator) -> Shape:
    """Jumps at random levels."""
    number = rng.integers(1, 5)
    levels = np.sort(rng.random(number))
    values = THRESHOLD + np.sort(rng.normal(0, 0.07, number + 1))[::-1]
    return lambda x: values[np.searchsorted(levels, x)]


def logistics(rng: np.random.Generator) -> Shape:
    """Falls and rises, as steep as they may be."""
    number = rng.integers(1, 4)
    at, steep = rng.random(number), 10 ** rng.uniform(0.5, 2, number)
    heights = rng.choice([-1, -1, 1], number) * 10 ** rng.uniform(-2, -0.5, number)
    middle = THRESHOLD + rng.uniform(0, 0.5) * np.abs(heights).sum()
    return lambda x: np.clip(
        middle
        + sum(h * special.expit(s * (x - a)) for h, s, a in zip(heights, steep, at)),
        0.01,
        0.99,
    )


def walk(rng: np.random.Generator) -> Shape:
    """A random walk of 64 steps, of any size, that begins near the threshold."""
    size = 10 ** rng.uniform(-3.5, -1.7)
    values = THRESHOLD + rng.normal(0, 4 * size) + np.cumsum(rng.normal(0, size, 65))
    return lambda x: np.interp(x, np.linspace(0, 1, 65), values)


def cusp(rng: np.random.Generator) -> Shape:
    """A sharp maximum or minimum, whose feet are close to the threshold."""
    feet, height = rng.normal(0, 0.02), rng.choice([-1, 1]) * rng.uniform(0.01, 0.18)
    at, wide = rng.random(), rng.uniform(0.05, 0.5)
    return lambda x: THRESHOLD + feet + height * np.exp(-np.abs(x - at) / wide)


def bowl(rng: np.random.Generator) -> Shape:
    """A parabola whose vertex lies just beyond the threshold."""
    bend, at = rng.choice([-1, 1]) * 10 ** rng.uniform(-0.7, 0.3), rng.uniform(0.1, 0.9)
    off = -np.sign(bend) * 10 ** rng.uniform(-2.7, -1.4)
    return lambda x: np.clip(THRESHOLD + off + bend * (x - at) ** 2, 0, 1)


def valley(rng: np.random.Generator) -> Shape:
    """Level, but for a dip or hump that reaches just beyond the threshold."""
    off, side = rng.uniform(0.05, 0.15), rng.choice([-1, 1])
    at, wide = rng.uniform(0.1, 0.9), 10 ** rng.uniform(-1, -0.3)
    deep = off + 10 ** rng.uniform(-2.7, -1.4)
    return lambda x: THRESHOLD + side * (off - deep * np.exp(-(((x - at) / wide) ** 2)))


def humps(rng: np.random.Generator) -> Shape:
    """One to three dips or humps that end on either side, close to the threshold."""
    off, slope = rng.choice([-1, 1]) * 10 ** rng.uniform(-3, -1), rng.normal(0, 0.03)
    number = rng.integers(1, 4)
    at, wide = rng.random(number), 10 ** rng.uniform(-1.5, -0.3, number)
    ends = rng.choice([-1, 1], number) * 10 ** rng.uniform(-3.5, -1.5, number)
    heights = ends - off - slope * (at - 0.5)
    return lambda x: (
        THRESHOLD
        + off
        + slope * (x - 0.5)
        + sum(
            height * np.exp(-(((x - a) / w) ** 2))
            for height, a, w in zip(heights, at, wide)
        )
    )


SHAPES = (steep, smooth, near, jagged, dip, plateau, steps)
# Not looked at while the search was made.
OTHERS = (logistics, walk, cusp)
# They turn close to the threshold, between levels or at one.
TURNING = (bowl, valley, humps, dip)


if __name__ == "__main__":
    # Here, because tests import several studies.
    what = ("near", "shapes", "others", "turning")
    flags.DEFINE_enum("what", "near", what, "Which curves.")
    flags.DEFINE_integer("runs", 200, "Of each.", 1)
    flags.DEFINE_integer("seed", 0, "Of what is drawn.")
    flags.DEFINE_integer("parts", 1024, "Of the range.", 8)
    flags.DEFINE_float("seconds", 1e9, "Ends after so many of searching.")
    app.run(main)
