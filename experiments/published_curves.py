r"""How often ASAP's bound holds on the accuracy curves that the 2020 authors published.

    git clone https://github.com/fmselab/CNNRobustnessEvaluation
    python experiments/published_curves.py --curves=CNNRobustnessEvaluation

The curves are of five networks and eight alterations, at about 41 levels each, on
66,931 patches: the files `Robustness Evaluation/*/Data_*.csv`. A curve is interpolated
linearly. Prints for each the levels that ASAP takes, its error and its bound, with the
2022 paper's concavity of 128 and with the automatic one; and the narrowest excursion
across the threshold, as a share of the range: the automatic concavity begins with
levels an eighth of the range apart, and may miss a narrower excursion. Writes JSON into
the folder `--output`.
"""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import app, flags
from common import define, files, startup

from jaxrob import metrics
from jaxrob.strategies import ASAP, Strategy, Task, sample

_CURVES = flags.DEFINE_string("curves", None, "Folder of the authors' repository.")
_NUM_INPUTS = flags.DEFINE_integer("num_inputs", 66_931, "Patches of each curve.", 1)
_THRESHOLD = define.threshold()
_OUTPUT = define.output("results/published_curves")

_STRATEGIES: dict[str, Strategy] = {"a=128": ASAP(concavity=128.0), "auto": ASAP()}


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    if _CURVES.value is None:
        raise app.UsageError("--curves must be given: the authors' repository")
    paths = sorted(pathlib.Path(_CURVES.value).glob("Robustness Evaluation/*/*.csv"))
    if not paths:
        raise app.UsageError(
            f"--curves: no Robustness Evaluation/*/*.csv in {_CURVES.value}"
        )
    print(f"{'curve':48}  excursion   levels, error, bound: {', '.join(_STRATEGIES)}")
    rows = []
    for path in paths:
        title = f"{path.parent.name}, {path.stem.removeprefix('Data_')}"
        row = {"curve": title, **_measured(*_read(path))}
        rows.append(row)
        cells = "   ".join(
            f"{one['levels']:3d} {one['error']:7.3%} {one['bound']:7.3%}"
            f"{' ' if one['held'] else '!'}"
            for one in (row[name] for name in _STRATEGIES)
        )
        print(f"{title:48}{row['excursion']:10.1%}   {cells}")
    for name in _STRATEGIES:
        held = sum(row[name]["held"] for row in rows)
        levels = np.mean([row[name]["levels"] for row in rows])
        print(f"{name}: the bound held on {held} of {len(rows)}, {levels:.1f} levels")
    path = files.output_folder(_OUTPUT.value) / "published_curves.json"
    files.write_json(path, rows)
    print(f"wrote {path}")


def _read(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns levels, ascending, and accuracies."""
    try:
        levels, values = np.loadtxt(path, delimiter=",", ndmin=2).T
    except ValueError as error:
        raise app.UsageError(f"{path}: not two columns of numbers: {error}") from None
    order = np.argsort(levels)
    return levels[order], values[order]


def _measured(levels: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    threshold, num_inputs = _THRESHOLD.value, _NUM_INPUTS.value
    task = Task(float(levels[0]), float(levels[-1]), threshold)
    truth = metrics.heaviside_robustness(levels, values, threshold, "linear")
    row: dict[str, Any] = {
        "robustness": truth,
        "excursion": _narrowest_excursion(task, levels, values),
    }
    for name, strategy in _STRATEGIES.items():
        found = sample(
            strategy, task, lambda x: np.interp(x, levels, values), num_inputs
        )
        robustness = metrics.heaviside_robustness(
            found.levels, found.values, threshold, strategy.rule
        )
        bound = strategy.result(task, found).error_bound
        assert bound is not None
        row[name] = {
            "levels": len(found.levels),
            "error": abs(robustness - truth),
            "bound": bound,
            "held": abs(robustness - truth) <= bound + 1e-12,
        }
    return row


def _narrowest_excursion(task: Task, levels: np.ndarray, values: np.ndarray) -> float:
    """Returns the width of the narrowest stretch inside the range on one side.

    The width is a share of the range; 1 if the curve crosses the threshold less than
    twice.
    """
    accepted = metrics.accepted_intervals(levels, values, task.threshold)
    inside = [end for one in accepted for end in (one.start, one.end)]
    inside = [one for one in inside if task.lower < one < task.upper]
    return float(np.diff(inside).min(initial=task.width) / task.width)


if __name__ == "__main__":
    app.run(main)
