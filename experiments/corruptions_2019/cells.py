"""The benchmark's cells, corruption by severity, and quantities of their curves."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import jaxrob
from jaxrob import metrics
from jaxrob.alterations import corruptions, presets

CORRUPTIONS = presets.CORRUPTIONS
SEVERITIES = tuple(int(severity) for severity in presets.SEVERITIES[1:])
MOST = 5.0


def alterations(
    names: Sequence[str], frost_folder: str | os.PathLike[str] | None
) -> dict[str, jaxrob.Alteration]:
    """The corruptions by name; frost is left out if its pictures are missing."""
    found = {}
    for name in names:
        if name == "frost":
            try:
                found[name] = corruptions.frost(folder=frost_folder)
            except (FileNotFoundError, ImportError) as error:
                if frost_folder is not None:
                    raise
                print(f"frost is left out: {error}")
        else:
            found[name] = getattr(corruptions, name)()
    return found


def failing(levels: np.ndarray, values: np.ndarray, threshold: float) -> float:
    """Where values, interpolated linearly, first fall below; or infinity."""
    accepted = metrics.accepted_intervals(levels, values, threshold)
    if not accepted or accepted[0].start > levels[0]:
        return float(levels[0])
    end = accepted[0].end
    return math.inf if end >= levels[-1] and values[-1] >= threshold else end


def row(name: str, assessment: jaxrob.Assessment) -> dict[str, Any]:
    levels, threshold = assessment.levels, assessment.threshold
    low, high = metrics.bands(assessment.curve.confusion, assessment.measure)
    values = assessment.values
    return {
        "corruption": name,
        "clean error": 1 - float(values[0]),
        "errors": [1 - float(values[levels == at].item()) for at in SEVERITIES],
        "fails at": failing(levels, values, threshold),
        "fails within": [failing(levels, one, threshold) for one in (low, high)],
        "robustness": assessment.robustness,
        "robustness within": list(assessment.confidence_interval),
        "levels": levels.tolist(),
        "accuracy": [float(value) for value in values],
        "seconds": assessment.seconds,
    }


def lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    head = "".join(f"{severity:7d}" for severity in SEVERITIES)
    found = [f"{'error [%] at severity':22}{head}   mean   fails at severity  robust"]
    for one in rows:
        errors = "".join(f"{100 * error:7.2f}" for error in one["errors"])
        found.append(
            f"{one['corruption']:22}{errors}{100 * np.mean(one['errors']):7.2f}   "
            f"{_severity_text(one):17}  {one['robustness']:6.1%}"
        )
    return found


def _severity_text(row: dict[str, Any]) -> str:
    first, last = row["fails within"]
    if math.isinf(first):
        return _number(first)
    return f"{_number(row['fails at'])} [{_number(first)}, {_number(last)}]"


def mean_line(assessments: Mapping[str, jaxrob.Assessment]) -> str:
    missing = [name for name in CORRUPTIONS if name not in assessments]
    if missing:
        return (
            "no mean corruption error, which is over all fifteen: without "
            + ", ".join(missing)
        )
    found = metrics.mean_corruption_error(assessments, None)
    low, high = found.confidence_interval
    return (
        f"mean corruption error, the plain mean over the 75 cells: {found.value:.2%} "
        f"[{low:.2%}, {high:.2%}]"
    )


def _number(level: float) -> str:
    return f"> {MOST:g}" if math.isinf(level) else f"{level:.2f}"
