r"""How often ASAP's error bound fails without a warning, and false warnings.

    python experiments/asap_warnings.py
    python experiments/asap_warnings.py --generator=other --seed=1

Makes random shapes of accuracy curves, draws test sets of 200 to 10,000 images on
them and runs ASAP with the automatic concavity and with 128, without a network. Prints
for each family of shapes on how many curves the error bound held; among failures, on
how many there was no warning; and among successes, on how many the sign "margin" of
`Diagnostics.signs` warned. The constants of that sign were chosen on the generator
"first". Single dips are listed apart: no level shows a dip between levels, and
`Diagnostics.excursions` marks them. With "gaussian" the values are exact, and the
families are length scales of Gaussian processes. Writes JSON into `--output`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import app, flags
from checks import shapes
from common import define, files, startup

from jaxrob import Diagnostics, metrics
from jaxrob.strategies import ASAP, Strategy, Task, sample

_GENERATORS = {
    "first": (shapes.first, shapes.FAMILIES),
    "other": (shapes.other, shapes.FAMILIES),
    "gaussian": (shapes.gaussian, shapes.LENGTHS),
}
_GENERATOR = flags.DEFINE_enum(
    "generator", "first", tuple(_GENERATORS), "What makes the shapes."
)
_CURVES = flags.DEFINE_integer("curves", 500, "Curves of each family.", 1)
_SEED = define.seed()
_OUTPUT = define.output("results/asap_warnings")

_STRATEGIES: dict[str, Strategy] = {"auto": ASAP(), "a=128": ASAP(concavity=128.0)}
_NUM_INPUTS = (200, 500, 1000, 10_000)
_LAST = len(shapes.GRID) - 1


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    families = _GENERATORS[_GENERATOR.value][1]
    rows = [
        row
        for number, family in enumerate(families)
        for i in range(_CURVES.value)
        for row in _measured(family, np.random.default_rng([_SEED.value, number, i]))
    ]
    print(f"generator {_GENERATOR.value}, seed {_SEED.value}")
    for name in _STRATEGIES:
        mine = [row for row in rows if row["strategy"] == name]
        for family in families:
            _print(f"{name}, {family}", [r for r in mine if r["family"] == family])
        if shapes.SMOOTH[0] in families:
            smooth = [r for r in mine if r["family"] in shapes.SMOOTH]
            _print(f"{name}, smooth", smooth)
        _print(f"{name}, all but dips", [r for r in mine if r["family"] != "dip"])
    _print("both, all but dips", [r for r in rows if r["family"] != "dip"])
    files.save(_OUTPUT.value, f"{_GENERATOR.value}.json", rows)


def _print(title: str, rows: Sequence[dict[str, Any]]) -> None:
    held = [row for row in rows if row["held"]]
    failed = [row for row in rows if not row["held"]]
    silent = sum(not row["signs"] for row in failed)
    false = sum("margin" in row["signs"] for row in held)
    levels = np.mean([row["levels"] for row in rows])
    print(
        f"{title:22} {levels:5.1f} levels; held on {len(held)} of {len(rows)}; "
        f'{silent} of {len(failed)} failures silent; "margin" on {false} of '
        f"{len(held)} that held"
    )


def _measured(family: str, rng: np.random.Generator) -> list[dict[str, Any]]:
    shape, threshold = _GENERATORS[_GENERATOR.value][0](rng, family)
    num_inputs, values = None, shape
    if _GENERATOR.value != "gaussian":
        num_inputs = int(rng.choice(_NUM_INPUTS))
        values = shapes.drawn_counts(shape, num_inputs, rng) / num_inputs
    truth = float(np.mean(values[1:] >= threshold))
    task = Task(0.0, 1.0, threshold)
    rows = []

    def value(levels: np.ndarray) -> np.ndarray:
        return values[np.rint(levels * _LAST).astype(int)]

    for name, strategy in _STRATEGIES.items():
        found, concluded = sample(strategy, task, value, num_inputs)
        curve = found.levels, found.values, threshold
        robustness = metrics.heaviside_robustness(*curve, strategy.rule)
        bound = concluded.error_bound
        assert bound is not None
        row = {"family": family, "strategy": name, "num_inputs": num_inputs}
        error, signs = abs(robustness - truth), list(Diagnostics.of(task, found).signs)
        row |= {"levels": len(found.levels), "error": error, "bound": bound}
        rows.append(row | {"held": error <= bound + 1e-12, "signs": signs})
    return rows


if __name__ == "__main__":
    app.run(main)
