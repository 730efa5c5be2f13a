r"""How often the default ASAP's interval holds the robustness: 16 curves.

    python experiments/interval_coverage.py
    python experiments/interval_coverage.py --draws=100 --num_inputs=1000

The curves are smooth ones, jumps, peaks, and plateaus on the threshold of 0.8 and
beside it. The library's constants were chosen while looking at them:
`interval_coverage_check.py` has curves that nobody looked at. Prints for each curve,
number of inputs and kind of test set the share of intervals that hold, their median
width, the levels taken, and how often the error bound holds; and which cells are
significantly below 95 %. Writes JSON into the folder `--output`.
"""

from collections.abc import Sequence

import numpy as np
from absl import app
from common import coverage, startup

# Straight pieces through points (level, probability).
_PIECES = {
    "plateau at 0.80": [(0, 0.98), (0.3, 0.8), (0.7, 0.8), (1, 0.2)],
    "plateau at 0.81": [(0, 0.98), (0.3, 0.81), (0.7, 0.81), (1, 0.2)],
    "plateau at 0.805": [(0, 0.98), (0.22, 0.805), (0.63, 0.805), (1, 0.1)],
    "plateau at 0.79": [(0, 0.98), (0.3, 0.79), (0.7, 0.79), (1, 0.2)],
    "plateau at the end": [(0, 0.97), (0.4, 0.8), (1, 0.8)],
    "slow decline": [(0, 0.83), (1, 0.77)],
    "never below": [(0, 0.95), (1, 0.85)],
    "tent": [(0, 0.52), (0.5, 0.97), (1, 0.52)],
}


SHAPES: dict[str, coverage.Shape] = {
    name: coverage.joined(points) for name, points in _PIECES.items()
} | {
    "parabola": lambda x: 0.98 - 0.6 * x**2,
    "logistic": lambda x: 0.1 + 0.88 / (1 + np.exp((x - 0.55) * 14)),
    "steep logistic": lambda x: 0.1 + 0.88 / (1 + np.exp((x - 0.37) * 60)),
    "jump": lambda x: np.where(x < 0.431, 0.95, 0.5),
    "small jump": lambda x: np.where(x < 0.431, 0.86, 0.74),
    "plateau, then a jump": lambda x: np.where(x < 0.57, 0.81, 0.4),
    "cusp": lambda x: 0.3 + 0.68 * np.exp(-np.abs(x - 0.5) * 6),
    "two humps": lambda x: 0.8 + 0.1 * np.cos(4 * np.pi * x) - 0.05 * x,
}


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    coverage.study("curves", SHAPES)


if __name__ == "__main__":
    app.run(main)
