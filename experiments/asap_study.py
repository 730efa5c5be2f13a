r"""How often ASAP's bound and the confidence interval hold, on many ranges at once.

    python experiments/asap_study.py
    python experiments/asap_study.py --benchmark=mnist --network=mlp --population=10000

Evaluates a network on a population of images at every level of a fine grid, for easy
and hard ranges of each alteration. The strategies are replayed on these answers, kept
in the folder `--output`, without the network:

* on the first `--num_images` images, over thresholds from 0.7 to 0.95: levels taken,
  error against the whole grid, and whether the bound held;
* on `--draws` test sets drawn with replacement from the population: how often the 95 %
  interval covers the population's robustness, on curves that cross the threshold.

Prints both and writes them as JSON into `--output`. Here "a=128" applies to the range
mapped to [0, 1] for ranges of any length, as in the paper's ranges of length 1. On the
digits it takes about 10 minutes on two CPU cores.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import app, flags
from common import benchmarks, define, files, intervals, startup
from common.quadrature import Quadrature, robustness_by_quad

import jaxrob
from jaxrob import alterations, metrics
from jaxrob.strategies import ASAP, Found, History, Random, Strategy, Task, Uniform
from jaxrob.strategies import sample as sampled

# Easy and hard ranges: in most hard ones, the accuracy crosses the threshold.
_RANGES = {
    "noise, easy": alterations.gaussian_noise(0.0, 0.01),
    "noise, hard": alterations.gaussian_noise(0.0, 0.3),
    "blur, easy": alterations.gaussian_blur(0.0, 2.0),
    "blur, hard": alterations.gaussian_blur(0.0, 4.0),
    "brightness, easy": alterations.brightness(-0.5, 0.5),
    "brightness, hard": alterations.brightness(-0.98, 4.0),
    "vertical translation, crop": alterations.vertical_translation(
        -0.1, 0.1, fill="crop", unit="relative"
    ),
    "vertical translation, hard": alterations.vertical_translation(-6, 6, "constant"),
    "horizontal translation, hard": alterations.horizontal_translation(
        -6, 6, "constant"
    ),
    "zoom, easy": alterations.zoom(1.0, 2.0),
    "zoom, hard": alterations.zoom(1.0, 4.0),
    "rotation, easy": alterations.rotation(-60.0, 60.0, fill="constant"),
    "rotation, hard": alterations.rotation(-180.0, 180.0, fill="constant"),
    "jpeg": alterations.jpeg_compression(0.0, 100.0),
}

flags.adopt_module_key_flags(benchmarks)
_FIRST = flags.DEFINE_integer("first", 0, "First image of the population.", 0)
_POPULATION = flags.DEFINE_integer(
    "population", None, "Images evaluated; by default as many as in a test set.", 1
)
_N = define.n()
_DRAWS = flags.DEFINE_integer("draws", 500, "Test sets drawn; 0 for none.", 0)

_THRESHOLDS = tuple(np.round(np.arange(0.7, 0.951, 0.025), 3).tolist())


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    benchmark = benchmarks.load(_FIRST.value, _POPULATION.value)
    levels, first = _N.value + 1, _FIRST.value
    correct = {
        name: benchmarks.correct(benchmark, alteration, levels, f"{name}-{first}")
        for name, alteration in _RANGES.items()
    }
    unaltered = np.mean(correct["noise, easy"][0])
    print(
        f"{benchmarks.title()}: {len(benchmark.test_set)} images from number "
        f"{_FIRST.value}, {unaltered:.2%} right unaltered"
    )
    document = {
        "benchmark": benchmarks.title(),
        "first": _FIRST.value,
        "population": len(benchmark.test_set),
        "unaltered": unaltered,
        "bounds": _bounds(correct),
    }
    if _DRAWS.value:
        document["coverage"] = _coverage(correct)
    name = f"study-{benchmarks.title()}-{_FIRST.value}.json"
    files.save(benchmarks.OUTPUT.value, name, document)


def _bounds(correct: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    strategies = {
        "ASAP a=128": ASAP(_N.value, 128.0),
        "ASAP auto": ASAP(_N.value, statistical_stopping=False),
        "ASAP auto, stopping": ASAP(_N.value),
    }
    rows = []
    for name, alteration in _RANGES.items():
        right = correct[name][:, : benchmarks.NUM_IMAGES.value]
        values = right.sum(axis=1) / right.shape[1]
        for threshold in sorted({*_THRESHOLDS, benchmarks.THRESHOLD.value}):
            for label, strategy in strategies.items():
                row = _replayed(alteration, values, right.shape[1], threshold, strategy)
                rows.append({"range": name, "strategy": label, **row})
    _print_bounds(rows, tuple(strategies))
    return rows


def _print_bounds(rows: Sequence[dict[str, Any]], strategies: Sequence[str]) -> None:
    threshold = benchmarks.THRESHOLD.value
    at = [row for row in rows if row["threshold"] == threshold]
    print(
        f"\naccuracy >= {threshold:g}: points, rounds, error and bound in steps, by "
        f"{', '.join(strategies)}"
    )
    for name in _RANGES:
        some = [row for row in at if row["range"] == name]
        cells = "   ".join(
            f"{row['points']:3d} {row['rounds']:2d} {row['error'] * _N.value:5.1f} "
            f"{row['bound'] * _N.value:6.1f}"
            for row in some
        )
        print(f"{name:30}{some[0]['robustness']:8.2%}   {cells}")
    for title, chosen in (("at the threshold", at), ("over thresholds", rows)):
        for strategy in strategies:
            some = [row for row in chosen if row["strategy"] == strategy]
            print(f"{title}, {strategy}: {_summary(some)}")


def _summary(rows: Sequence[dict[str, Any]]) -> str:
    points = [row["points"] for row in rows]
    rounds = [row["rounds"] for row in rows]
    errors = [row["error"] for row in rows]
    held = sum(row["error"] <= row["bound"] + 1e-12 for row in rows)
    widths = [row["width"] / row["full_width"] for row in rows if row["full_width"]]
    return (
        f"{np.mean(points):.1f} points on average, {max(points)} at most, "
        f"{np.mean(rounds):.1f} rounds; error 0 on {errors.count(0)} of {len(rows)}, "
        f"{max(errors):.2%} at most; the bound held on {held}, "
        f"{np.mean([row['bound'] for row in rows]):.2%} on average; 95 % interval "
        f"{np.median(widths or [1]):.3f} times as wide as from all levels in the "
        f"median, {max(widths, default=1):.2f} at most"
    )


def _replayed(
    alteration: jaxrob.Alteration,
    values: np.ndarray,
    num_inputs: int,
    threshold: float,
    strategy: Strategy,
) -> dict[str, Any]:
    given = alteration, values, num_inputs, threshold, strategy
    found, concluded, task = _replay(*given)
    truth = np.mean(values[1:] >= threshold)
    robustness = metrics.heaviside_robustness(found.levels, found.values, threshold)
    grid = np.linspace(alteration.lower, alteration.upper, len(values))
    every = History(grid, values, np.full(len(values), num_inputs))
    return {
        "threshold": threshold,
        "robustness": truth,
        "points": len(np.unique(alteration.canonical(found.levels))),
        "rounds": found.rounds,
        # Sums of the same widths in different orders differ by rounding.
        "error": round(abs(robustness - truth), 12),
        "bound": concluded.error_bound,
        "width": np.ptp(_interval(found, task)),
        "full_width": np.ptp(_interval(every, task)),
    }


def _coverage(correct: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    # Each maps the number of a draw to a strategy.
    strategies: dict[str, Callable[[int], Strategy]] = {
        "ASAP auto": lambda draw: ASAP(_N.value),
        "ASAP a=128": lambda draw: ASAP(_N.value, 128.0),
        "uniform": lambda draw: Uniform(41),
        "random": lambda draw: Random(41, draw),
        "integration": lambda draw: Quadrature(),
    }
    rows = []
    print(
        f"\n{_DRAWS.value} draws of {benchmarks.NUM_IMAGES.value}: share whose "
        "interval holds, and its width"
    )
    for name, alteration in _RANGES.items():
        right = correct[name].astype(np.float32)
        grid = np.linspace(alteration.lower, alteration.upper, len(right))
        mean, threshold = right.mean(axis=1, dtype=float), benchmarks.THRESHOLD.value
        truth = metrics.heaviside_robustness(grid, mean, threshold, "linear")
        if not 0 < truth < 1:
            continue
        curves = _drawn_curves(right)
        found = [
            {"range": name, "strategy": label, "robustness": truth}
            | _held(alteration, curves, truth, make)
            for label, make in strategies.items()
        ]
        cells = (f"{r['strategy']} {r['held']:.1%} {r['width']:.2%}" for r in found)
        print(f"{name:30}{truth:8.2%}   {'   '.join(cells)}")
        rows += found
    for label in strategies:
        held = [row["held"] for row in rows if row["strategy"] == label]
        if held:
            share = f"{np.mean(held):.1%} of {len(held)} curves' draws"
            print(f"all curves, {label}: {share}")
    return rows


def _drawn_curves(right: np.ndarray) -> np.ndarray:
    """Returns the accuracy on each test set drawn, `[draws, levels]`."""
    size = benchmarks.NUM_IMAGES.value
    # The same draws for every range.
    rng = np.random.default_rng(benchmarks.SEED.value)
    even = np.full(right.shape[1], 1 / right.shape[1])
    weights = rng.multinomial(size, even, size=_DRAWS.value)
    curves = np.rint(right @ weights.T.astype(np.float32)) / size
    return curves.T.astype(np.float64)


def _held(
    alteration: jaxrob.Alteration,
    curves: np.ndarray,
    truth: float,
    make: Callable[[int], Strategy],
) -> dict[str, float]:
    held, widths, points = 0, [], []
    threshold = benchmarks.THRESHOLD.value
    for draw, values in enumerate(curves):
        strategy = make(draw)
        given = alteration, values, benchmarks.NUM_IMAGES.value, threshold, strategy
        found, _, task = _replay(*given)
        interval = _interval(found, task)
        # It includes the estimate, like `Assessment.confidence_interval`.
        curve = found.levels, found.values, threshold
        if isinstance(strategy, Quadrature):
            bounds = alteration.lower, alteration.upper
            robustness = robustness_by_quad(*curve, bounds)
        else:
            robustness = metrics.heaviside_robustness(*curve, strategy.rule)
        low = np.fmin(interval.low, robustness)
        high = np.fmax(interval.high, robustness)
        held += bool(low <= truth <= high)
        widths.append(high - low)
        points.append(len(found.levels))
    return {
        "held": held / _DRAWS.value,
        "width": float(np.mean(widths)),
        "points": float(np.mean(points)),
    }


def _replay(
    alteration: jaxrob.Alteration,
    values: np.ndarray,
    num_inputs: int,
    threshold: float,
    strategy: Strategy,
) -> tuple[History, Found, Task]:
    """Replays a strategy, with the values of the grid's nearest levels."""
    task = Task(alteration.lower, alteration.upper, threshold, alteration.identity)
    step = (alteration.upper - alteration.lower) / (len(values) - 1)

    def value(levels: np.ndarray) -> np.ndarray:
        return values[np.rint((levels - alteration.lower) / step).astype(int)]

    return *sampled(strategy, task, value, num_inputs), task


def _interval(history: History, task: Task) -> metrics.ConfidenceInterval:
    """Returns the 95 % interval of robustness from accuracies on a test set."""
    num_inputs = np.asarray(history.num_inputs)
    right = np.rint(history.values * num_inputs).astype(int)
    bounds = task.lower, task.upper
    return intervals.of_robustness(
        history.levels, right, num_inputs, task.threshold, bounds
    )


if __name__ == "__main__":
    app.run(main)
