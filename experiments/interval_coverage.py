r"""How often the default ASAP's interval covers the robustness: 16 curves.

    python experiments/interval_coverage.py
    python experiments/interval_coverage.py --draws=100 --num_inputs=1000

The curves are smooth ones, jumps, peaks, and plateaus on the threshold of 0.8 and
beside it. They were in view when the library's constants were chosen;
`interval_coverage_check.py` has other curves. Prints for each curve, number of inputs
and kind of test set the coverage of the intervals, their median width, the levels
taken, and how often the error bound holds; and which cells are significantly below
95 %. Writes JSON into the folder `--output`.
"""

from collections.abc import Sequence

from absl import app
from common import coverage, known_curves, startup


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    coverage.study("curves", known_curves.SHAPES)


if __name__ == "__main__":
    app.run(main)
