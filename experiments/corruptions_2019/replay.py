"""Published tables of accuracies by corruption and severity, turned into curves."""

import csv
import json
import math
import pathlib
from typing import Any, NamedTuple

import numpy as np

from corruptions_2019.cells import CORRUPTIONS, MOST, SEVERITIES, failing
from jaxrob import metrics

# RobustBench has a file for each model beside the table, some under an older name.
_CLEAN = "clean_acc"
# By whose errors the mCE divides.
_REFERENCE = "AlexNet"
_ASSUMED = "bounds assume that accuracy is monotone between one severity and the next"
_ASSUMED_OF_UNKNOWN = (
    "; and of models whose accuracy on unaltered images is not known, that it is at "
    "least that at severity 1"
)


class Published(NamedTuple):
    """A table's entries of one model."""

    clean: float  # the clean accuracy; NaN if it is not known
    accuracy: dict[str, np.ndarray]  # `[5]` at severities 1 to 5, by corruption


def read(path: pathlib.Path) -> dict[str, Published]:
    # It lacks the clean accuracy: `clean_acc`, in per cent, of "<model>.json" beside
    # it.
    try:
        with path.open(newline="") as file:
            corruptions, severities, *rows = csv.reader(file)
        columns = list(zip(corruptions[1:], map(int, severities[1:])))
        models = {name: list(map(float, cells)) for name, *cells in rows}
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: not a table as RobustBench's: {error}") from error
    found = {}
    for name, cells in models.items():
        if len(cells) != len(columns) or not all(0 <= cell <= 1 for cell in cells):
            raise ValueError(
                f"{path}: {name} must have {len(columns)} accuracies in [0, 1]"
            )
        by_cell = dict(zip(columns, cells))
        found[name] = Published(
            _clean_accuracy(path.parent / f"{name}.json"), _in_order(path, by_cell)
        )
    return found


def _in_order(
    path: pathlib.Path, by_cell: dict[tuple[str, int], float]
) -> dict[str, np.ndarray]:
    there = {name for name, _ in by_cell}
    known = [name for name in CORRUPTIONS if name in there]
    others = sorted(there.difference(CORRUPTIONS))
    try:
        return {
            name: np.array([by_cell[name, severity] for severity in SEVERITIES])
            for name in (*known, *others)
        }
    except KeyError as error:
        name, severity = error.args[0]
        raise ValueError(f"{path}: no severity {severity} of {name}") from error


def _clean_accuracy(path: pathlib.Path) -> float:
    try:
        return float(json.loads(path.read_text())[_CLEAN]) / 100
    except FileNotFoundError:
        return math.nan
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: no number {_CLEAN!r}: {error}") from error


def robustness(
    clean: float, accuracy: np.ndarray, threshold: float
) -> dict[str, float | None]:
    """The robustness over severities 0 to 5 by straight lines, and its bounds."""
    # Between two points on different sides of the threshold any curve may cross
    # anywhere, between two on one side a monotone one stays there.
    known = not math.isnan(clean)
    accepted = accuracy >= threshold
    if not known and accepted[0]:
        clean, known = accuracy[0], True
    if known:
        accepted = np.append(clean >= threshold, accepted)
    low = int((accepted[:-1] & accepted[1:]).sum())
    high = int((accepted[:-1] | accepted[1:]).sum()) + (not known)
    ends = {"low": low / MOST, "high": high / MOST}
    if not known:
        return {"robustness": None, "bound": None, "fails at": None, **ends}
    levels, values = np.array((0, *SEVERITIES), float), np.append(clean, accuracy)
    found = metrics.heaviside_robustness(levels, values, threshold, "linear")
    return {
        "robustness": found,
        "bound": max(found - ends["low"], ends["high"] - found),
        "fails at": failing(levels, values, threshold),
        **ends,
    }


def table(models: dict[str, Published], threshold: float) -> dict[str, Any]:
    return {
        name: {
            "clean": one.clean,
            "mean accuracy": float(np.mean([*one.accuracy.values()])),
            "mCE": _against(one, models.get(_REFERENCE)),
            "corruptions": {
                corruption: {"accuracy": accuracy.tolist()}
                | robustness(one.clean, accuracy, threshold)
                for corruption, accuracy in one.accuracy.items()
            },
        }
        for name, one in models.items()
    }


def _against(one: Published, reference: Published | None) -> float | None:
    if reference is None or not set(CORRUPTIONS) <= set(reference.accuracy):
        return None
    if math.isnan(one.clean) or math.isnan(reference.clean):
        return None
    return metrics.mean_corruption_error(_errors(one), _errors(reference)).value


def _errors(one: Published) -> dict[str, metrics.ReferenceErrors]:
    return {
        name: metrics.ReferenceErrors(1 - one.clean, float(1 - accuracy.mean()))
        for name, accuracy in one.accuracy.items()
    }


def lines(found: dict[str, Any]) -> list[str]:
    text = []
    for name, one in found.items():
        clean = "not known" if math.isnan(one["clean"]) else f"{one['clean']:.2%}"
        mce = "" if one["mCE"] is None else f", mCE {one['mCE']:.1%}"
        low, high = (
            np.mean([cell[end] for cell in one["corruptions"].values()])
            for end in ("low", "high")
        )
        text.append(
            f"{name}: {clean} unaltered, mean {one['mean accuracy']:.2%} over the "
            f"cells{mce}, mean robustness in [{low:.1%}, {high:.1%}]"
        )
        for corruption, cell in one["corruptions"].items():
            within = f"[{cell['low']:.0%}, {cell['high']:.0%}]"
            if cell["robustness"] is None:
                known = "not known, since level 0 is not"
            else:
                known = f"{cell['robustness']:6.1%} +- {cell['bound']:.1%}"
            text.append(f"  {corruption:20} robustness {known} {within}")
    known = not any(math.isnan(one["clean"]) for one in found.values())
    return [*text, _ASSUMED if known else _ASSUMED + _ASSUMED_OF_UNKNOWN]
