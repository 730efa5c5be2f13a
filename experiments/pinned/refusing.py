"""Errors for wrong arguments, of the most used functions."""

import collections
from typing import Any

from checks.cases import VALUES, Case
from checks.of_images import of_images
from checks.of_numbers import of_numbers


def entry_points() -> Any:
    """The entry points: evaluation, assessment, comparisons, RoMA and attacks."""
    return _said(
        of_images(),
        ("evaluate", "assess", "compare", "compare_sequentially", "roma.assess",
         "provenance", "adversarial.fgsm", "adversarial.lbfgs",
         "adversarial.adversariability"),
    )  # fmt: skip


def parts() -> Any:
    """Alterations, data sets, classifiers, curves and reports."""
    return _said(
        of_images(),
        ("Alteration", "alterations.compose", "alterations.rescale",
         "alterations.followed_by", "alterations.rotation", "alterations.gaussian_blur",
         "Dataset", "Dataset.from_batches", "Classifier", "Classifier.from_host",
         "Curve", "reporting.table", "reporting.to_html", "reporting.unmet"),
    )  # fmt: skip


def numbers() -> Any:
    """Metrics and strategies."""
    return _said(of_numbers(), None)


def _said(cases: list[Case], names: tuple[str, ...] | None) -> Any:
    found: dict[str, Any] = {}
    times: collections.Counter[str] = collections.Counter()
    for one in cases:
        if names is not None and one.name not in names:
            continue
        # Not its place among all, which a new case would move.
        times[one.name] += 1
        rejections = found.setdefault(f"{one.name} {times[one.name]}", {})
        for argument, given in one.arguments.items():
            for value in VALUES:
                if value not in given.allowed:
                    rejections[f"{argument}={value}"] = _answer(one, argument, value)
    return found


def _answer(case: Case, argument: str, value: str) -> str:
    """The error for one wrong argument, or the type of what is returned."""
    arguments = {name: each.value for name, each in case.arguments.items()}
    try:
        result = case.function(**arguments | {argument: VALUES[value]})
    # Whatever is raised is kept.
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return type(result).__name__
