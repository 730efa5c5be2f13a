r"""How often an interval of the mean of scores covers it, and how wide it is.

    python experiments/bounded_means.py
    python experiments/bounded_means.py --draws=200 --num_inputs=50,500

Draws scores in [0, 1] from nine distributions of known means, and computes the 95 %
interval of the library, `jaxrob.metrics.bounded_mean`, beside four others: Wilson's of
the sum of the scores, as if it were a number of ones; the normal approximation;
Hoeffding's (1963); and the empirical Bernstein bound (Maurer and Pontil, 2009, theorem
4). For zeros and ones the library's is Clopper and Pearson's. Prints each one's
coverage and mean width, and which cells of the library's are significantly below 95 %.
Writes JSON into the folder `--output`.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import app, flags
from common import define, files, intervals, startup
from scipy import special

from jaxrob import metrics

_CONFIDENCE = 0.95

_NUM_INPUTS = flags.DEFINE_list(
    "num_inputs", ["5", "10", "20", "50", "200", "1000", "5000"], "Scores."
)
_DRAWS = flags.DEFINE_integer("draws", 2000, "Sets of scores of each.", 1)
_SEED = define.seed()
_OUTPUT = define.output("results/bounded_means")

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
Ends = tuple[np.ndarray, np.ndarray]


class Scores(NamedTuple):
    """A distribution of scores."""

    mean: float  # its mean
    draw: Draw  # draws scores of a shape


def _ones(share: float) -> Scores:
    return Scores(share, lambda rng, shape: (rng.random(shape) < share).astype(float))


def _beta(a: float, b: float) -> Scores:
    return Scores(a / (a + b), lambda rng, shape: rng.beta(a, b, shape))


def _masks(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """As overlaps of masks: a tenth found nothing, three tenths are perfect."""
    kind, between = rng.random(shape), rng.beta(4, 2, shape)
    return np.where(kind < 0.1, 0.0, np.where(kind < 0.4, 1.0, between))


DISTRIBUTIONS: dict[str, Scores] = {
    **{f"zeros and ones, {share:g}": _ones(share) for share in (0.02, 0.8, 0.99)},
    **{f"beta({a:g}, {b:g})": _beta(a, b) for a, b in ((0.1, 1.9), (4, 1), (40, 10))},
    "uniform": _beta(1, 1),
    "0, 1 and between": Scores(0.3 + 0.6 * 2 / 3, _masks),
    "0.9, rarely 0": Scores(
        0.9 * 0.99, lambda rng, shape: np.where(rng.random(shape) < 0.01, 0.0, 0.9)
    ),
}


def _wilson_of_sum(scores: np.ndarray) -> Ends:
    number = np.full(len(scores), scores.shape[1])
    return metrics.wilson(scores.sum(axis=1), number, _CONFIDENCE)


def _normal(scores: np.ndarray) -> Ends:
    error = scores.std(axis=1, ddof=1) / np.sqrt(scores.shape[1])
    return _around(scores, special.ndtri((1 + _CONFIDENCE) / 2) * error)


def _hoeffding(scores: np.ndarray) -> Ends:
    half = np.sqrt(np.log(2 / (1 - _CONFIDENCE)) / (2 * scores.shape[1]))
    return _around(scores, np.full(len(scores), half))


def _empirical_bernstein(scores: np.ndarray) -> Ends:
    number, variance = scores.shape[1], scores.var(axis=1, ddof=1)
    # Each side has half of the error, and 2 over it.
    log = np.log(4 / (1 - _CONFIDENCE))
    return _around(
        scores, np.sqrt(2 * variance * log / number) + 7 * log / (3 * (number - 1))
    )


def _around(scores: np.ndarray, half: np.ndarray) -> Ends:
    mean = scores.mean(axis=1)
    return np.maximum(mean - half, 0), np.minimum(mean + half, 1)


INTERVALS: dict[str, Callable[[np.ndarray], Ends]] = {
    "bounded_mean": lambda scores: metrics.bounded_mean(scores, _CONFIDENCE),
    "Wilson of the sum": _wilson_of_sum,
    "normal": _normal,
    "Hoeffding": _hoeffding,
    "empirical Bernstein": _empirical_bernstein,
}


def _cell(title: str, scores: Scores, number: int) -> dict[str, Any]:
    # A stream for each cell, independent of the other cells.
    rng = np.random.default_rng([_SEED.value, number, zlib.crc32(title.encode())])
    drawn = scores.draw(rng, (_DRAWS.value, number))
    found: dict[str, Any] = {"scores": title, "inputs": number, "mean": scores.mean}
    for name, interval in INTERVALS.items():
        low, high = interval(drawn)
        # A mean that an end equals up to rounding is covered.
        held = (low <= scores.mean + 1e-12) & (scores.mean - 1e-12 <= high)
        found[name] = {"times_held": int(held.sum()), "width": (high - low).mean()}
    return found


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    rows = []
    print(f"coverage and width\n{'scores':22}{'inputs':>7}" + _line(INTERVALS))
    for title, scores in DISTRIBUTIONS.items():
        for number in map(int, _NUM_INPUTS.value):
            rows.append(row := _cell(title, scores, number))
            found = (row[name] for name in INTERVALS)
            cells = (
                f"{one['times_held'] / _DRAWS.value:7.1%} {one['width']:.4f}"
                for one in found
            )
            print(f"{title:22}{number:7}" + _line(cells), flush=True)
    for name in INTERVALS:
        held = [row[name]["times_held"] for row in rows]
        below = intervals.significantly_below(held, _DRAWS.value, _CONFIDENCE)
        print(
            f"{name}: {min(held) / _DRAWS.value:.1%} at least; significantly below "
            f"95 % in {below.sum()} of {len(rows)} cells"
        )
    files.save(_OUTPUT.value, "bounded_means.json", rows)


def _line(cells: Iterable[str]) -> str:
    return "".join(f"{cell:>21}" for cell in cells)


if __name__ == "__main__":
    app.run(main)
