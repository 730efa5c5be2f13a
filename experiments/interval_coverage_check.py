r"""How often the default ASAP's interval covers the robustness: 16 held-out curves.

    python experiments/interval_coverage_check.py

As `interval_coverage.py`, on curves that were not looked at before the library's
constants were fixed.
"""

from collections.abc import Sequence

import numpy as np
from absl import app
from common import coverage, known_curves, startup

# Straight pieces through points (level, probability).
_PIECES = {
    "early plateau at 0.80": [(0, 0.93), (0.08, 0.8), (0.35, 0.8), (1, 0.35)],
    "late plateau at 0.80": [(0, 0.99), (0.55, 0.8), (0.93, 0.8), (1, 0.6)],
    "plateau at 0.803": [(0, 0.96), (0.41, 0.803), (0.77, 0.803), (1, 0.55)],
    "plateau at 0.796": [(0, 0.91), (0.19, 0.796), (0.52, 0.796), (1, 0.3)],
    "plateau at 0.82": [(0, 0.9), (0.25, 0.82), (0.61, 0.82), (1, 0.05)],
    "rises back to 0.80": [(0, 0.95), (0.33, 0.6), (0.6, 0.8), (0.84, 0.8), (1, 0.5)],
    "sawtooth": [(0, 0.92), (0.31, 0.7), (0.47, 0.9), (0.78, 0.66), (1, 0.85)],
    "kink at the threshold": [(0, 0.84), (0.45, 0.8), (1, 0.1)],
}


def _staircase(x: np.ndarray) -> np.ndarray:
    return 0.95 - 0.09 * np.floor(x / 0.21)


SHAPES: dict[str, known_curves.Shape] = {
    name: known_curves.joined(points) for name, points in _PIECES.items()
} | {
    "staircase": _staircase,
    "exponential decay": lambda x: 0.2 + 0.77 * np.exp(-1.9 * x),
    "late fall": lambda x: 0.97 - 0.7 * x**9,
    "square root": lambda x: 0.98 - 0.45 * np.sqrt(x),
    "touches from above": lambda x: 0.8 + 0.9 * (x - 0.62) ** 2,
    "jump up": lambda x: np.where(x < 0.683, 0.72, 0.88),
    "off centre bell": lambda x: 0.45 + 0.5 * np.exp(-(((x - 0.27) / 0.22) ** 2)),
    "jump from a slope": lambda x: np.where(x < 0.294, 0.9 - 0.25 * x, 0.78 - 0.2 * x),
}


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    coverage.study("check", SHAPES)


if __name__ == "__main__":
    app.run(main)
