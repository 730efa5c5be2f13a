"""The parts of an assessment's JSON text, checked one by one and against each other."""

import re
from typing import Any

import numpy as np

from jaxrob import metrics
from jaxrob._runtime.checks import (
    check_choice,
    check_levels_range,
    check_type,
    checked_number,
)
from jaxrob._runtime.strict_json import short, texts
from jaxrob.metrics import RULES
from jaxrob.metrics._checks import checked_confidence_level

# Beyond that, sums of counts would no longer be exact.
_MOST_INPUTS = 2**53
# Levels so close to an end, as a share of the range, are that end.
_NEAR = 1e-6
# Strategies that always ask for both ends, whatever the rule.
_WITH_ENDS = r"Uniform\(n=\d+\)|ASAP\(.*\)"


def check_settings(settings: dict[str, Any], has_scores: bool) -> None:
    """Refuses settings that no assessment has.

    Args:
      settings: the fields of `Assessment` that are plain values, by name.
      has_scores: whether the levels were scored.

    Raises:
      TypeError: if one has another type.
      ValueError: if one is outside its range, or they do not go together. The message
        names it.
    """
    for name in ("alteration", "unit", "strategy"):
        check_type(name, settings[name], str, "a text")
    lower = checked_number("lower", settings["lower"])
    upper = checked_number("upper", settings["upper"])
    check_levels_range("lower", lower, "upper", upper)
    checked_number("identity", settings["identity"], at_least=lower, at_most=upper)
    checked_number("threshold", settings["threshold"], at_least=0, at_most=1)
    check_choice("measure", settings["measure"], tuple(metrics.measures))
    check_choice("rule", settings["rule"], ("trapezoid",) if has_scores else RULES)
    if settings["error_bound"] is not None:
        checked_number("error_bound", settings["error_bound"], at_least=0, at_most=1)
    checked_confidence_level(settings["confidence_level"])
    checked_number("seconds", settings["seconds"], at_least=0)
    _check_provenance(settings["provenance"])


def check_levels(levels: np.ndarray, settings: dict[str, Any]) -> None:
    """Refuses levels that do not ascend, lie outside the range, or do not fit the rule.

    Levels that a strategy has at both ends must be there even where the rule counts
    them: they are all that tells a range that was changed later.

    Raises:
      ValueError: if they are such.
    """
    if not len(levels) or (np.diff(levels) <= 0).any():
        raise ValueError(f"levels must ascend, at least one; got {levels}")
    lower, upper = settings["lower"], settings["upper"]
    if levels[0] < lower or levels[-1] > upper:
        raise ValueError(
            f"levels must lie in the range [{lower:g}, {upper:g}]; got levels from "
            f"{levels[0]:g} to {levels[-1]:g}"
        )
    rule, strategy = settings["rule"], settings["strategy"]
    near = _NEAR * (upper - lower)
    if levels[0] - lower <= near and upper - levels[-1] <= near:
        return
    who = None
    if rule in ("right", "linear"):
        who = f"rule {rule!r} needs"
    elif re.fullmatch(_WITH_ENDS, strategy):
        who = f"{short(strategy)} looks at"
    if who is not None:
        raise ValueError(
            f"{who} levels at both ends of the range [{lower:g}, {upper:g}]; got "
            f"levels from {levels[0]:g} to {levels[-1]:g}"
        )


def checked_alpha(alpha: Any) -> float | None:
    """The confidence level of "unknown" answers, or None.

    Raises:
      TypeError: if it is neither.
      ValueError: if it lies outside [0, 1].
    """
    if alpha is None:
        return None
    return checked_number("alpha", alpha, at_least=0, at_most=1)


def numbers(name: str, values: Any) -> np.ndarray:
    """A list of finite numbers, as float64.

    Raises:
      TypeError: if it is none.
    """
    if not isinstance(values, list) or not set(map(type, values)) <= {int, float}:
        raise TypeError(f"{name} must be a list of numbers")
    return np.array(values, np.float64)


def counts(values: Any, num_levels: int, is_sampled: bool = False) -> np.ndarray:
    """Counts by level, label and answer, int64 `[L, K, K + 1]`.

    Raises:
      ValueError: if they are none, or do not count the same inputs at every level.
    """
    if not _are_nested_lists(values):
        raise ValueError("confusion must be lists [L][K][K + 1] of whole numbers")
    confusion = np.array(values)  # Of unequal lengths: a ValueError.
    num_classes = confusion.shape[1] if confusion.ndim == 3 else 0
    if confusion.shape != (num_levels, num_classes, num_classes + 1) or not num_classes:
        raise ValueError(
            f"confusion must have the shape [L, K, K + 1] for L = {num_levels} levels; "
            f"got {confusion.shape}"
        )
    if confusion.dtype != np.int64 or (confusion < 0).any():
        raise ValueError("confusion must hold counts, integers from 0")
    inputs = confusion.sum(axis=(1, 2), dtype=np.float64)
    if not 1 <= inputs.max() <= _MOST_INPUTS:
        raise ValueError(f"confusion counts {inputs.max():g} inputs at a level")
    if is_sampled and not inputs.min() >= 1:
        raise ValueError("confusion must count an input at every level")
    if not is_sampled and (confusion.sum(-1) != confusion[0].sum(-1)).any():
        raise ValueError("confusion must count the same inputs at every level")
    return confusion


def check_interval(interval: Any) -> None:
    """Refuses what is no interval of a robustness. It is computed anew, not kept.

    Raises:
      ValueError: if it is none.
    """
    if not isinstance(interval, list) or len(interval) != 2:
        raise ValueError(f"confidence_interval must be two numbers; got {interval!r}")
    if interval == [None, None]:  # It is not known.
        return
    low, high = numbers("confidence_interval", interval)
    if not 0 <= low <= high <= 1:
        raise ValueError(
            f"confidence_interval must ascend and lie in [0, 1]; got {interval}"
        )


def _check_provenance(provenance: dict[str, Any]) -> None:
    """`compare` tells by these entries whether two assessments are of the same."""
    check_type("provenance", provenance, dict, "an object")
    dataset = provenance.get("dataset")
    dataset = dataset if isinstance(dataset, dict) else {}
    fingerprint = dataset.get("fingerprint")
    if not isinstance(fingerprint, str):
        raise ValueError(
            f"provenance must have dataset.fingerprint, a text; got {fingerprint!r}"
        )
    if not isinstance(dataset.get("labels", ""), str):
        raise ValueError(
            f"provenance must have dataset.labels, a text; got {dataset['labels']!r}"
        )
    key = provenance.get("key")
    if key is not None and not _are_integers(key):
        raise ValueError(f"provenance: key must be a list of integers; got {key!r:.80}")
    _check_network(provenance)
    _check_alteration(provenance)


def _are_integers(value: Any) -> bool:
    return isinstance(value, list) and all(
        type(one) is int or _are_integers(one) for one in value
    )


def _check_network(provenance: dict[str, Any]) -> None:
    """Reports print them."""
    network = provenance.get("network", {})
    check_type("provenance: network", network, dict, "an object")
    if not isinstance(network.get("name"), str | None):
        raise ValueError(
            "provenance must have network.name, a text or null; got "
            f"{short(network['name'])}"
        )
    if network.get("class_names") is not None:
        texts("provenance: network.class_names", network["class_names"])


def _check_alteration(provenance: dict[str, Any]) -> None:
    # Null of an alteration that calls the host, which nothing tells from others.
    if not isinstance(provenance.get("alteration", 0), str | None):
        raise ValueError(
            "provenance must have alteration, a text or null; got "
            f"{provenance.get('alteration')!r}"
        )
    settings = provenance.get("settings", {})
    check_type("provenance: settings", settings, dict, "an object")
    if not all(isinstance(one, str | int | float) for one in settings.values()):
        raise ValueError(
            "provenance: settings must hold texts, numbers and booleans; got "
            f"{short(settings)}"
        )
    words = provenance.get("words", {})
    check_type("provenance: words", words, dict, "an object")
    texts("provenance: words", list(words.values()))
    plan = provenance.get("plan", "0" * 64)
    if not isinstance(plan, str) or not re.fullmatch("[0-9a-f]{64}", plan):
        raise ValueError(
            f"provenance: plan must be 64 hexadecimal digits; got {short(plan)}"
        )


def _are_nested_lists(values: Any) -> bool:
    """Whether these are lists of lists of lists of whole numbers.

    Texts of different lengths would make NumPy take far more memory than they do.
    """
    return (
        isinstance(values, list)
        and all(isinstance(level, list) for level in values)
        and all(isinstance(row, list) for level in values for row in level)
        and all(set(map(type, row)) <= {int} for level in values for row in level)
    )
