"""A report's numbers as data within its page."""

import dataclasses
import importlib.metadata
import json
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxrob._arguments.checks import checked_path
from jaxrob._assessment.assessment import Assessment
from jaxrob._files.reading import content_of, parsed
from jaxrob.reporting._results import Results, Run, with_plan
from jaxrob.reporting._words import by_cause

FORM = "jaxrob report 1"
_OPEN = '<script type="application/json" id="jaxrob-results">'
_DATA = re.compile(re.escape(_OPEN) + r"(.*?)</script>", re.DOTALL)
_MOST_BYTES = 64 << 20
_FIELDS = (
    *("alteration", "unit", "lower", "upper", "identity", "threshold", "measure"),
    *("strategy", "rule", "robustness", "error_bound", "confidence_level"),
    *("confidence_interval", "levels", "values", "decided_ratio", "accepted"),
)
_PACKAGES = ("jaxrob", "numpy", "pillow")


def element(results: Sequence[Results], earlier: Sequence[Results]) -> str:
    data = {
        "format": FORM,
        "versions": {name: _version(name) for name in _PACKAGES},
        "networks": [_network(one) for one in results],
        "earlier": [_network(one) for one in earlier],
    }
    text = json.dumps(_finite(data), separators=(",", ":"), allow_nan=False)
    # Nothing in a name can end the element, or open a comment in it.
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return f"{_OPEN}{text}</script>"


def read_report(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads the numbers that a report, an HTML page, holds as data.

    Nothing is executed. Numbers that are not known are None.

    Example::

        (network,) = reporting.read_report("report.html")["networks"]
        print([one["robustness"] for one in network["assessments"]])

    Args:
      path: the page.

    Returns:
      "versions" of the packages that made the page, and "networks", for each its name,
      requirements, runs and "assessments": for each the alteration, its range, the
      robustness with both errors, and the curve.

    Raises:
      OSError: if the page cannot be read.
      ValueError: if it is no page of `to_html`.
    """
    place = checked_path("path", path)
    page = content_of(place, _MOST_BYTES).decode("utf-8", "replace")
    return _data(page, str(place))


def _data(page: str, name: str) -> dict[str, Any]:
    found = _DATA.findall(page)
    if len(found) != 1:
        raise ValueError(f"{name} must be a page of jaxrob's report; it has no data")
    try:
        data = parsed(found[0])
    except ValueError as error:
        raise ValueError(f"{name}: its data are damaged: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORM:
        raise ValueError(f"{name}: its data must be of the format {FORM!r}")
    return data


def with_tester(
    results: Results, tester: str | None, organisation: str | None
) -> Results:
    """Returns results whose runs name who tested, and for whom, where that is given."""
    if not tester and not organisation:
        return results
    given = {"tester": tester, "organisation": organisation}
    named = {name: one for name, one in given.items() if one}
    runs = results.runs or (Run("", "", ""),)
    runs = tuple(one._replace(**named) for one in runs)
    return dataclasses.replace(results, runs=runs)


def _network(one: Results) -> dict[str, Any]:
    return {
        "name": one.network,
        "class_names": one.class_names,
        "requirements": [each._asdict() for each in one.requirements],
        "regressions": one.regressions,
        "plan": one.plan and one.plan.digest,
        "runs": [
            run._asdict() | {"files": [each._asdict() for each in run.files]}
            for run in one.runs
        ],
        "assessments": [_assessment(each) for each in with_plan(one)],
        "roma": one.roma
        and {
            "digest": parsed(one.roma.to_json())["digest"],
            "mean_plr": one.roma.mean_plr,
            "mean_plr_interval": one.roma.mean_plr_interval,
        },
    }


def _assessment(one: Assessment) -> dict[str, Any]:
    return {name: getattr(one, name) for name in _FIELDS} | {
        "warnings": [each.text for each in by_cause([one])],
        "provenance": one.provenance,
        # Of all answers, most of which are not on the page.
        "digest": parsed(one.to_json())["digest"],
    }


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
