r"""How often the interval of the default ASAP covers the robustness, on known curves.

    python experiments/interval_coverage.py
    python experiments/interval_coverage.py --curves=held_out
    python experiments/interval_coverage.py --draws=100 --num_inputs=1000

A curve is a formula: the probability that an input is classified correctly at a level,
or the expected score. Test sets are drawn from it, ASAP samples each of them, and the
interval is compared with the robustness of the formula. There are 16 smooth curves,
jumps, peaks, and plateaus on the threshold of 0.8 and beside it, which were in view
when the library's constants were chosen, and 16 that were not ("held_out").

Prints for each curve, number of inputs and kind of test set the coverage of the
intervals, their median width, the levels taken, and how often the error bound holds;
and which cells are significantly below 95 %. Writes JSON into the folder `--output`.
"""

import itertools
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import app, flags
from common import define, files, intervals, known_curves, startup
from common.known_curves import Shape

from jaxrob import ScoreCurve, metrics
from jaxrob.strategies import ASAP, History, Task, sample

# How inputs turn wrong: all in one order, the weakest first; or each at levels of its
# own, some of them several times, as under noise. Or they have scores, which fall.
_FLIPS = ["ordered", "own"]
_SCORES = "scores"

_NUM_INPUTS = flags.DEFINE_list(
    "num_inputs", ["200", "1000", "10000"], "Inputs in a test set."
)
_DRAWS = flags.DEFINE_integer("draws", 400, "Test sets of each.", 1)
_HOW = define.choices(
    "flips", _FLIPS, [*_FLIPS, _SCORES], "How inputs turn wrong; with scores, how bad"
)
_SEED = define.seed()
_OUTPUT = define.output("results/interval_coverage")


# Curves that were not looked at before the library's constants were fixed: straight
# pieces through points (level, probability), and more.
_HELD_OUT_PIECES = {
    "early plateau at 0.80": [(0, 0.93), (0.08, 0.8), (0.35, 0.8), (1, 0.35)],
    "late plateau at 0.80": [(0, 0.99), (0.55, 0.8), (0.93, 0.8), (1, 0.6)],
    "plateau at 0.803": [(0, 0.96), (0.41, 0.803), (0.77, 0.803), (1, 0.55)],
    "plateau at 0.796": [(0, 0.91), (0.19, 0.796), (0.52, 0.796), (1, 0.3)],
    "plateau at 0.82": [(0, 0.9), (0.25, 0.82), (0.61, 0.82), (1, 0.05)],
    "rises back to 0.80": [(0, 0.95), (0.33, 0.6), (0.6, 0.8), (0.84, 0.8), (1, 0.5)],
    "sawtooth": [(0, 0.92), (0.31, 0.7), (0.47, 0.9), (0.78, 0.66), (1, 0.85)],
    "kink at the threshold": [(0, 0.84), (0.45, 0.8), (1, 0.1)],
}


_HELD_OUT: dict[str, Shape] = {
    name: known_curves.joined(points) for name, points in _HELD_OUT_PIECES.items()
} | {
    "staircase": lambda x: 0.95 - 0.09 * np.floor(x / 0.21),
    "exponential decay": lambda x: 0.2 + 0.77 * np.exp(-1.9 * x),
    "late fall": lambda x: 0.97 - 0.7 * x**9,
    "square root": lambda x: 0.98 - 0.45 * np.sqrt(x),
    "touches from above": lambda x: np.minimum(0.8 + 0.9 * (x - 0.62) ** 2, 1),
    "jump up": lambda x: np.where(x < 0.683, 0.72, 0.88),
    "off centre bell": lambda x: 0.45 + 0.5 * np.exp(-(((x - 0.27) / 0.22) ** 2)),
    "jump from a slope": lambda x: np.where(x < 0.294, 0.9 - 0.25 * x, 0.78 - 0.2 * x),
}

_CURVES = {"tuned": known_curves.SHAPES, "held_out": _HELD_OUT}
_WHICH = flags.DEFINE_enum("curves", "tuned", list(_CURVES), "Which curves.")


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    rows = []
    print(f"{'curve':22}{'flips':9}{'inputs':>7}  held  width  levels  bound held")
    curves, sizes = _CURVES[_WHICH.value].items(), map(int, _NUM_INPUTS.value)
    for flips, curve, number in itertools.product(_HOW.value, curves, sizes):
        rows.append(row := _cell(*curve, flips, number))
        print(
            f"{curve[0]:22}{flips:9}{number:7}{row['held']:6.1%}"
            f"{row['width']:7.2%}{row['levels']:8.1f}{row['bound_held']:12.1%}",
            flush=True,
        )
    name = "{curve}, {flips}, {num_inputs}"
    found = intervals.named(rows, "times_held", _DRAWS.value, name)
    held = [row["held"] for row in rows]
    print(
        f"{len(rows)} cells: held {np.mean(held):.1%} on average, {min(held):.1%} at "
        f"least; significantly below 95 %: {found}"
    )
    files.save(_OUTPUT.value, f"{_WHICH.value}.json", rows)


def _cell(title: str, shape: Shape, flips: str, num_inputs: int) -> dict[str, Any]:
    truth = known_curves.robustness(shape)
    # A stream for each cell, independent of the other cells.
    cell = zlib.crc32(f"{title} {flips}".encode())
    rng = np.random.default_rng([_SEED.value, num_inputs, cell])
    given = shape, flips, num_inputs, truth, rng
    found = [_draw(*given) for _ in range(_DRAWS.value)]
    held, width, levels, bound_held = np.array(found).T
    row = {"curve": title, "flips": flips, "num_inputs": num_inputs}
    row |= {"robustness": truth, "times_held": int(held.sum()), "held": held.mean()}
    row |= {"width": np.median(width), "levels": levels.mean()}
    return row | {"bound_held": bound_held.mean()}


def _draw(
    shape: Shape, flips: str, num_inputs: int, truth: float, rng: np.random.Generator
) -> tuple[float, ...]:
    """Returns coverage, the interval's width, the levels, whether the bound holds."""
    values, interval = _test_set(shape, flips, num_inputs, rng)
    threshold, strategy = known_curves.THRESHOLD, ASAP()
    task = Task(0.0, 1.0, threshold, 0.0)
    found, concluded = sample(strategy, task, values, num_inputs)
    curve = found.levels, found.values, threshold
    robustness = metrics.heaviside_robustness(*curve, strategy.rule)
    low, high = interval(found)
    # It includes the estimate, like `Assessment.confidence_interval`.
    low, high = min(low, robustness), max(high, robustness)
    grid = np.linspace(0, 1, strategy.n + 1)[1:]
    of_test_set = np.mean(values(grid) >= known_curves.THRESHOLD)
    error = abs(robustness - of_test_set)
    assert concluded.error_bound is not None
    bound_held = error <= concluded.error_bound + 1e-12
    return low <= truth <= high, high - low, len(found.levels), bound_held


def _test_set(
    shape: Shape, flips: str, num_inputs: int, rng: np.random.Generator
) -> tuple[Shape, Callable[[History], metrics.ConfidenceInterval]]:
    """Returns a test set's values by level, and its interval from some levels."""
    threshold = known_curves.THRESHOLD

    def of_counts(found: History) -> metrics.ConfidenceInterval:
        right = np.rint(found.values * num_inputs).astype(int)
        return intervals.of_robustness(found.levels, right, num_inputs, threshold)

    if flips != _SCORES:
        return known_curves.test_set(shape, flips, num_inputs, rng), of_counts
    scores = known_curves.scores(shape, num_inputs, rng)

    def of_scores(found: History) -> metrics.ConfidenceInterval:
        curve = ScoreCurve(found.levels, scores(found.levels), "score")
        given = found.levels, curve.counts, curve.measure, threshold
        return metrics.confidence_interval(*given, bounds=(0.0, 1.0))

    return lambda levels: scores(levels).mean(axis=1), of_scores


if __name__ == "__main__":
    app.run(main)
