"""A result of RoMA from its JSON."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from jaxrob._runtime.checks import (
    check_choice,
    checked_array,
    checked_integer,
    checked_number,
    checked_text,
)
from jaxrob._runtime.seal import SEAL, check_seal
from jaxrob._runtime.strict_json import floats, integers, parsed_object, short, texts
from jaxrob.metrics._checks import checked_confidence_level
from jaxrob.roma._estimate import MOST_MODES, UNDECIDED, UNSEEN
from jaxrob.roma._estimators import ESTIMATORS
from jaxrob.roma._inputs_mean import check_places

T = TypeVar("T")

#: What tells its JSON from any other.
FORMAT = "jaxrob roma 1"
# Without an answer.
_UNANSWERED = (
    *("failed", "constant", "unresolved"),
    *("untrusted", "incomplete"),
    UNDECIDED,
    UNSEEN,
)
_STATUSES = (
    *("normal", "transformed"),
    *("counted", "extrapolated", "importance", "splitting", "bounded"),
    *_UNANSWERED,
)
# An extrapolation adds probabilities of classes, which may be more than 1 together.
_MOST_LOG = float(np.log(2.0**31))
_ROUNDING = 1e-5
# Of Algorithm 1 alone.
_OF_ROMA = ("statistic", "boxcox_lambda", "mean", "std")


def from_json(text: Any, kind: Callable[..., T]) -> T:
    """The text as an object of the class `kind`; see `RomaResult.from_json`."""
    names = [field.name for field in dataclasses.fields(cast(Any, kind))]
    found = parsed_object(text, FORMAT, [*names, "caveats", SEAL])
    try:
        texts("caveats", found["caveats"])
        made = _settings(found) | _inputs(found) | _answers(found) | _details(found)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"a part is malformed: {error}") from error
    _check_lengths(made)
    _check_together(made)
    check_seal(found)
    return kind(**made)


def _settings(found: dict[str, Any]) -> dict[str, Any]:
    epsilon = found["epsilon"]
    if epsilon is not None:
        epsilon = checked_number("epsilon", epsilon, at_least=0)
    precision = found["precision"]
    if precision is not None:
        precision = checked_number("precision", precision, above=0, below=0.5)
    check_choice("estimator", found["estimator"], ESTIMATORS)
    budget = found["budget"]
    if budget is not None:
        budget = checked_integer("budget", budget, at_least=1)
        if found["estimator"] != "auto":
            raise ValueError('budget must be null unless the estimator is "auto"')
    return {
        "estimator": found["estimator"],
        "perturbation": checked_text("perturbation", found["perturbation"]),
        "epsilon": epsilon,
        "delta": checked_number("delta", found["delta"], above=0, below=1),
        "num_samples": checked_integer("num_samples", found["num_samples"], at_least=1),
        "warnings": texts("warnings", found["warnings"]),
        "budget": budget,
        "precision": precision,
        "confidence_level": checked_confidence_level(found["confidence_level"]),
    }


def _inputs(found: dict[str, Any]) -> dict[str, Any]:
    labels, place = found["labels"], found["place"]
    if place is not None:
        place = integers("place", place, at_least=-1).astype(np.int32)
    return {
        "excluded": integers("excluded", found["excluded"]).astype(np.int32),
        "labels": None
        if labels is None
        else integers("labels", labels).astype(np.int32),
        "place": place,
    }


def _answers(found: dict[str, Any]) -> dict[str, Any]:
    status = texts("status", found["status"])
    for name in sorted(set(status)):
        check_choice("status", name, _STATUSES)
    if (found["place"] is None) != (found["precision"] is None):
        raise ValueError("place must be given if precision is, and else null")
    hits, most = found["hits"], found["num_samples"]
    least = 0 if found["place"] is None else -1
    return {
        "status": np.array(status, "U16"),
        "hits": None
        if hits is None
        else integers("hits", hits, at_least=least, at_most=most),
        "evaluations": integers("evaluations", found["evaluations"], at_most=2**53),
    } | {
        name: floats(name, found[name], at_most=_MOST_LOG, may_be_infinite=True)
        for name in ("log_adversarial_probability", "log_low", "log_high")
    }


def _details(found: dict[str, Any]) -> dict[str, Any]:
    """What only some estimators tell; None for the others."""
    made: dict[str, Any] = {name: found[name] for name in _OF_ROMA}
    for name, given in made.items():
        if given is not None:
            made[name] = floats(name, given, may_be_infinite=True)
    size, modes = found["effective_sample_size"], found["modes"]
    needed = found["needed"]
    if needed is not None:
        needed = integers("needed", needed, at_most=2**53)
    if size is not None:
        size = floats("effective_sample_size", size, at_least=0)
    if modes is not None:
        modes = _modes(modes)
    return made | {"modes": modes, "effective_sample_size": size, "needed": needed}


def _modes(given: Any) -> np.ndarray:
    if not isinstance(given, list):
        raise TypeError(f"modes must be a list of lists; got {short(given)}")
    rows = [floats("modes", row, at_least=0, at_most=1 + _ROUNDING) for row in given]
    if any(len(row) != MOST_MODES for row in rows):
        raise ValueError(f"modes must hold {MOST_MODES} shares for each input")
    return checked_array("modes", np.array(rows), f"N, {MOST_MODES}")


def _check_lengths(made: dict[str, Any]) -> None:
    """Refuses arrays that are not of the same N inputs, or of none."""
    number = len(made["excluded"])
    for name, value in made.items():
        if not isinstance(value, np.ndarray):
            continue
        if len(value) != number or not number:
            raise ValueError(
                f"{name} must have an entry for each input, of excluded there are "
                f"{number}; got {len(value)}"
            )


def _check_together(made: dict[str, Any]) -> None:
    status, log_p = made["status"], made["log_adversarial_probability"]
    unanswered = np.isin(status, _UNANSWERED)
    if not np.isnan(log_p[unanswered]).all():
        name = status[unanswered & ~np.isnan(log_p)][0]
        raise ValueError(
            f"log_adversarial_probability must be null where {str(name)!r}"
        )
    for name in ("log_adversarial_probability", "log_low", "log_high"):
        above = (made[name] > _ROUNDING) & (status != "extrapolated")
        if above.any():
            raise ValueError(f"{name} must be at most 0; got {made[name][above][0]}")
    _check_places(made)
    _check_budget(made)
    # A sum without a hit has a lower end, -inf, and no upper one.
    if (made["log_low"] > made["log_high"]).any():
        raise ValueError("log_low must be at most log_high")


def _check_budget(made: dict[str, Any]) -> None:
    """Refuses what no budget left undecided, and more than one allowed for."""
    undecided, needed = made["status"] == UNDECIDED, made["needed"]
    more = np.zeros(len(undecided), bool) if needed is None else needed > 0
    if (undecided != more).any():
        raise ValueError(
            f"needed must be above 0 where the status is {UNDECIDED!r}, only there"
        )
    budget = made["budget"]
    if undecided.any() and budget is None:
        raise ValueError(f"budget must be given where a status is {UNDECIDED!r}")
    if budget is not None and made["evaluations"].max(initial=0) > budget:
        raise ValueError(
            f"evaluations must be at most the budget, {budget}; got "
            f"{made['evaluations'].max()}"
        )
    if undecided.any() and (needed <= made["evaluations"])[undecided].any():
        raise ValueError("needed must be more than evaluations where it is given")


def _check_places(made: dict[str, Any]) -> None:
    """Refuses inputs that were looked at in one part, and not in another."""
    place, unseen = made["place"], made["status"] == UNSEEN
    missing = np.zeros(len(unseen), bool) if place is None else place < 0
    if place is not None:
        check_places(place)
    if (unseen != missing).any():
        raise ValueError(f"place must be -1 where the status is {UNSEEN!r}, only there")
    if made["hits"] is not None and ((made["hits"] < 0) != unseen).any():
        raise ValueError(f"hits must be -1 where the status is {UNSEEN!r}, only there")
