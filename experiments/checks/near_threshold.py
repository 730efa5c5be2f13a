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
cover significantly less than 95 % (Holm), and whether all together do.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import app, flags
from common import holm
from scipy import stats

from checks import drawn_curves
from checks.drawn_curves import Right, search, truth
from jaxrob import metrics

# Answers farther off than so many half widths are gross errors.
_GROSS = 3.0
# Rounding of shares of the range.
_ROUNDING = 1e-9


class Run(NamedTuple):
    """One search."""

    held: bool  # whether the interval holds the truth
    gross: bool  # whether the answer is far off, without a sign of it
    precise: bool  # whether the status is "precise"
    cost: float  # altered images over N
    seconds: float  # it took


class Decided(NamedTuple):
    """One search that decides levels."""

    wrong: bool  # whether a level or the interval contradicts all images there
    missed: bool  # whether the interval misses what they give at all levels
    evaluations: int  # altered images classified
    levels: int  # what all images would be at the levels looked at


def main(argv: Sequence[str]) -> None:
    del argv
    asked = flags.FLAGS
    if asked.what == "turning":
        return report_turning(asked.runs, asked.seed, asked.parts)
    kinds = drawn_curves.OTHERS if asked.what == "others" else drawn_curves.SHAPES
    names = [kind.__name__ for kind in kinds]
    if asked.what == "near":
        names = [str(tuple(case)) for case in drawn_curves.NEAR]
    found: list[list[Run]] = [[] for _ in names]
    # Each gets the same time, as far as this is limited.
    while open_ones := [k for k, runs in enumerate(found) if len(runs) < asked.runs]:
        spent = [sum(run.seconds for run in runs) for runs in found]
        if sum(spent) > asked.seconds:
            break
        number = min(open_ones, key=lambda k: (spent[k], len(found[k])))
        rng = np.random.default_rng([asked.seed, number, len(found[number])])
        if asked.what == "near":
            run = near(drawn_curves.NEAR[number], rng, asked.parts)
        else:
            run = of_shape(kinds[number](rng), rng, asked.parts)
        found[number].append(run)
    report(names, found)


def near(case: drawn_curves.Near, rng: np.random.Generator, parts: int) -> Run:
    """A search of one of the curves close to the threshold."""
    right = drawn_curves.answers(case.shape, case.num_images, case.varying, rng)
    return _run(right, case.num_images, parts, {"half_width": case.half_width})


def of_shape(shape: drawn_curves.Shape, rng: np.random.Generator, parts: int) -> Run:
    """A search of another curve, of some half width."""
    num_images = int(10 ** rng.uniform(2.7, 4))
    asked: dict[str, Any] = {"half_width": float(10 ** rng.uniform(-2, -1))}
    varying = float(rng.choice([0, 0, 0.001, 0.02, 0.2]))
    right = drawn_curves.answers(shape, num_images, varying, rng)
    return _run(right, num_images, parts, asked)


def turning(
    shape: drawn_curves.Shape, rng: np.random.Generator, parts: int, **asked: Any
) -> Decided:
    """A search that decides levels, on a curve that turns close to the threshold."""
    num_images = int(np.exp(rng.uniform(np.log(50), np.log(4001))))
    varying = float(rng.choice([0, 0, 0.001, 0.02, 0.2]))
    right = drawn_curves.answers(shape, num_images, varying, rng)
    least, slack = drawn_curves.THRESHOLD, 0.5 / parts
    found = search(right, num_images, least, parts, **asked)
    values = np.array([right(level).mean() for level in found.levels])
    wrong = (found.sides * np.where(values >= least, 1, -1) < 0).any()
    for rule in ("right", "linear"):
        same = metrics.heaviside_robustness(found.levels, values, least, rule)
        wrong |= not found.low - _ROUNDING <= same <= found.high + _ROUNDING
    missed = not found.low - slack <= truth(right, least, parts) <= found.high + slack
    every = len(values) * num_images
    return Decided(bool(wrong), missed, found.evaluations, every)


def report_turning(runs: int, seed: int, parts: int) -> None:
    """Prints how often searches that decide levels are wrong."""
    for asked in ({"curtail": True}, {"half_width": 0.0}):
        for number, kind in enumerate(drawn_curves.TURNING):
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


def _run(right: Right, num_images: int, parts: int, asked: dict[str, Any]) -> Run:
    least, slack = drawn_curves.THRESHOLD, 0.5 / parts
    real = truth(right, least, parts)
    start = time.perf_counter()
    found = search(right, num_images, least, parts, **asked)
    seconds = time.perf_counter() - start
    half = (found.high - found.low) / 2
    if found.status == "precise":
        half = max(asked.get("half_width", 0.0), half)
    return Run(
        found.low - slack <= real <= found.high + slack,
        abs(found.robustness - real) > _GROSS * half + slack,
        found.status == "precise",
        found.evaluations / num_images,
        seconds,
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
    below = holm.significantly_below(held, numbers, 0.95)
    bad = [name for name, one in zip(names, below) if one]
    print(f"significantly below 95 %: {'; '.join(bad) or 'none'}")
    total, all_held = numbers.sum(), held.sum()
    p = stats.binom.cdf(all_held, total, 0.95)
    print(f"all: missed {total - all_held} of {total} (p {p:.3g}), gross {gross.sum()}")


if __name__ == "__main__":
    # Here, because tests import several studies.
    flags.DEFINE_enum(
        "what", "near", ("near", "shapes", "others", "turning"), "Which curves."
    )
    flags.DEFINE_integer("runs", 200, "Of each.", 1)
    flags.DEFINE_integer("seed", 0, "Of what is drawn.")
    flags.DEFINE_integer("parts", 1024, "Of the range.", 8)
    flags.DEFINE_float("seconds", 1e9, "Ends after so many of searching.")
    app.run(main)
