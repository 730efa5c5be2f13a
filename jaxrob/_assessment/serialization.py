"""Assessments as JSON, and back."""

import base64
import dataclasses
import json
import math
import typing
import zlib
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from jaxrob._assessment.diagnostics import Diagnostics, diagnose_few
from jaxrob._assessment.document import (
    check_interval,
    check_levels,
    check_settings,
    checked_alpha,
    counts,
    numbers,
)
from jaxrob._assessment.sampling import Beside, sampling_document, sampling_of
from jaxrob._assessment.scoring import Scores
from jaxrob._curve import Curve, ReducedCurve
from jaxrob._runtime.checks import check_type, checked_integer, checked_number
from jaxrob._runtime.files import most_unpacked
from jaxrob._runtime.seal import SEAL, check_seal, sealed
from jaxrob._runtime.strict_json import parsed, short
from jaxrob.strategies import History, Task

T = TypeVar("T")

_FORMAT = "jaxrob assessment 1"
# Fields that are no plain JSON values.
_NESTED = ("curve", "diagnostics", "sampling", "scores", "warnings")
# Ends of intervals of other versions of NumPy and SciPy are so near.
_ROUNDING = 1e-6
# What is computed from the others, and stands there for readers without jaxrob. So does
# the confidence interval, which tells a confidence level that was changed.
_DERIVED = ("evaluations", "robustness", "robustness_per_class", "values")
# Arrays of single answers, by name, with the types they may have.
_ANSWERS = {
    "predicted": ("int16", "int32"),
    "confidence": ("float32",),
    "uncertainty": ("float32",),
    "labels": ("int32",),
}


def to_json(assessment: Any, answers: bool) -> str:
    """See `Assessment.to_json`."""
    document = _document(assessment)
    curve = assessment.curve
    if answers and isinstance(curve, Curve):
        document["answers"] = {
            name: _packed(getattr(curve, name))
            for name in _ANSWERS
            if getattr(curve, name) is not None
        }
    # From few images, the numbers are not those of the counts alone.
    if assessment.sampling is not None:
        document = sealed(document)
    return json.dumps(document, allow_nan=False)


def from_json(text: str | bytes, kind: Callable[..., T]) -> T:
    """The text as an object of the class `kind`; see `Assessment.from_json`."""
    document = parsed(text)
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        found = document.get("format") if isinstance(document, dict) else None
        raise ValueError(f"the format must be {_FORMAT!r}; got {found!r}")
    try:
        assessment: Any = _made(document, kind, most_unpacked(len(text)))
        again = _document(assessment)
        more, derived = {"answers"}, _DERIVED
        if assessment.sampling is not None:
            # All that is known of it stands there.
            more, derived = {SEAL}, (*_DERIVED, "confidence_interval")
        for name in derived:
            if document[name] != again[name]:
                raise ValueError(
                    f"the {name} stated, {short(document[name])}, is not that of the "
                    f"counts, {short(again[name])}"
                )
        stated = numbers("confidence_interval", document["confidence_interval"])
        if not np.allclose(stated, again["confidence_interval"], 0, _ROUNDING):
            raise ValueError(
                f"the confidence_interval stated, {short(stated.tolist())}, is not "
                f"that of the counts and the confidence_level, "
                f"{short(again['confidence_interval'])}"
            )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"a part is missing or malformed: {error!r}") from error
    if assessment.sampling is not None:
        _check_diagnostics(assessment)
        check_seal(document)
    if unknown := sorted(document.keys() - again.keys() - more):
        raise ValueError(f"unknown parts: {unknown}")
    return assessment


def _document(assessment: Any) -> dict[str, Any]:
    """All but the single answers."""
    curve = assessment.curve
    document = {
        "format": _FORMAT,
        "robustness": _number(assessment.robustness),
        "confidence_interval": list(assessment.confidence_interval),
        "lowest_decided_ratio": _number(assessment.lowest_decided_ratio),
        "evaluations": assessment.evaluations,
        "robustness_per_class": None
        if assessment.scores is not None or assessment.sampling is not None
        else _numbers(assessment.robustness_per_class),
    }
    document |= {
        field.name: getattr(assessment, field.name)
        for field in dataclasses.fields(assessment)
        if field.name not in _NESTED
    }
    diagnostics = assessment.diagnostics._asdict()
    return document | {
        "diagnostics": {name: _number(some) for name, some in diagnostics.items()},
        "warnings": list(assessment.warnings),
        "scores": _scores_document(assessment.scores),
        "sampling": sampling_document(assessment.sampling),
        "levels": _numbers(assessment.levels),
        "values": _numbers(assessment.values),
        "confusion": curve.confusion.tolist(),
        "alpha": curve.alpha,
    }


def _made(document: dict[str, Any], kind: Callable[..., T], most: int) -> T:
    """The object; its answers are unpacked to at most so many bytes."""
    settings = {
        field.name: _checked(document[field.name], field)
        for field in dataclasses.fields(cast(Any, kind))
        if field.name not in _NESTED
    }
    check_settings(settings, has_scores=document["scores"] is not None)
    check_interval(document["confidence_interval"])
    curve = _curve(document, most)
    check_levels(curve.levels, settings)
    diagnostics = _diagnostics(document)
    beside = Beside(
        curve.levels, curve.confusion, settings, curve.alpha, diagnostics.points
    )
    return kind(
        sampling=sampling_of(document["sampling"], beside),
        curve=curve,
        diagnostics=diagnostics,
        warnings=_warnings(document),
        scores=_scores(document),
        **settings,
    )


def _curve(document: dict[str, Any], most: int) -> Curve | ReducedCurve:
    levels = numbers("levels", document["levels"])
    is_sampled = document["sampling"] is not None
    confusion = counts(document["confusion"], len(levels), is_sampled)
    alpha = checked_alpha(document["alpha"])
    if alpha is None and confusion[..., -1].any():
        raise ValueError('confusion counts "unknown" answers, but alpha is null')
    if "answers" not in document:
        return ReducedCurve(levels, confusion, alpha)
    num_classes, num_images = confusion.shape[1], int(confusion[0].sum())
    answers = _answers(document["answers"], len(levels), num_images, most)
    for name in ("predicted", "labels"):
        if ((answers[name] < 0) | (answers[name] >= num_classes)).any():
            raise ValueError(f"{name} must lie in 0 ... {num_classes - 1}")
    for name in ("confidence", "uncertainty"):
        if name in answers and not _in_unit_range(answers[name]):
            raise ValueError(f"{name} must lie in [0, 1]")
    if ("confidence" in answers) != ("uncertainty" in answers):
        raise ValueError("confidence and uncertainty must both be there, or neither")
    if alpha is not None and "uncertainty" not in answers:
        raise ValueError("alpha needs the uncertainty of the answers")
    curve = Curve(
        levels,
        answers["predicted"],
        answers.get("confidence"),
        answers.get("uncertainty"),
        answers["labels"],
        num_classes,
        alpha,
    )
    if (curve.confusion != confusion).any():
        raise ValueError("the counts are not those of the single answers")
    return curve


def _answers(
    packed: Any, num_levels: int, num_images: int, most: int
) -> dict[str, np.ndarray]:
    """The arrays of single answers that are there, by name."""
    check_type("answers", packed, dict, "an object")
    if unknown := sorted(packed.keys() - _ANSWERS.keys()):
        raise ValueError(f"unknown answers: {unknown}")
    of_images, of_levels = (num_images,), (num_levels, num_images)
    shapes = {name: of_images if name == "labels" else of_levels for name in packed}
    widest = sum(4 * math.prod(shape) for shape in shapes.values())
    if widest > most:
        raise ValueError(
            f"the answers on {num_images} images at {num_levels} levels may take "
            f"{widest} bytes; a text of this length may unpack to at most {most}"
        )
    return {name: _unpacked(name, packed[name], shapes[name]) for name in packed}


def _scores_document(scores: Scores | None) -> dict[str, Any] | None:
    if scores is None:
        return None
    settings, *arrays = scores
    named = zip(Scores._fields[1:], map(_numbers, arrays))
    return {"settings": settings} | dict(named)


def _scores(document: dict[str, Any]) -> Scores | None:
    found = document["scores"]
    if found is None:
        return None
    if not isinstance(found, dict) or set(found) != set(Scores._fields):
        raise ValueError(f"scores must have the parts {Scores._fields}, or be null")
    arrays = {
        name: numbers(f"scores: {name}", found[name])
        for name in Scores._fields
        if name != "settings"
    }
    for name, array in arrays.items():
        least, shape = (0 if name == "weights" else -1), (len(document["levels"]),)
        if array.shape != shape or not ((array >= least) & (array <= 1)).all():
            raise ValueError(
                f"scores: {name} must be of the shape {shape} and lie in [{least}, 1]"
            )
    if not arrays["weights"].sum() > 0:
        raise ValueError("scores: weights must not all be 0")
    if not (
        (arrays["low"] <= arrays["values"]) & (arrays["values"] <= arrays["high"])
    ).all():
        raise ValueError("scores: values must lie between low and high")
    check_type("scores: settings", found["settings"], str, "a text")
    return Scores(found["settings"], **arrays)


def _diagnostics(document: dict[str, Any]) -> Diagnostics:
    found = document["diagnostics"]
    if not isinstance(found, dict) or set(found) != set(Diagnostics._fields):
        raise ValueError(f"diagnostics must have the parts {Diagnostics._fields}")
    values: dict[str, Any] = {}
    for name, kind in typing.get_type_hints(Diagnostics).items():
        if kind is int:
            values[name] = checked_integer(f"diagnostics: {name}", found[name])
        elif found[name] is None:
            values[name] = math.nan
        else:
            values[name] = checked_number(f"diagnostics: {name}", found[name])
        if values[name] < 0:
            raise ValueError(f"diagnostics: {name} is negative, {found[name]}")
    if not values["points"]:
        raise ValueError("diagnostics: points must be at least 1; got 0")
    return Diagnostics(**values)


def _check_diagnostics(one: Any) -> None:
    """Refuses others than those of the levels and their values.

    Raises:
      ValueError: if one is another.
    """
    task = Task(one.lower, one.upper, one.threshold, one.identity)
    history = History(one.levels, one.values, rounds=one.diagnostics.rounds)
    again = diagnose_few(task, history, one.diagnostics.points)
    for name, stated, found in zip(again._fields, one.diagnostics, again):
        if not np.isclose(stated, found, 1e-9, 1e-12, equal_nan=True):
            raise ValueError(
                f"diagnostics: {name} is stated as {stated:g}, but is {found:g} by the "
                "levels and their values"
            )


def _warnings(document: dict[str, Any]) -> tuple[str, ...]:
    found = document["warnings"]
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"warnings must be a list of texts; got {found!r}")
    return tuple(found)


def _in_unit_range(array: np.ndarray) -> bool:
    # Rounding may carry a probability beyond 1. NaN fails the comparison.
    return bool(((array >= 0) & (array <= 1 + 1e-5)).all())


def _packed(array: np.ndarray) -> dict[str, str]:
    data = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<")))
    text = base64.b64encode(zlib.compress(data.tobytes(), 6)).decode()
    return {"dtype": array.dtype.name, "base64_zlib": text}


def _unpacked(name: str, packed: Any, shape: tuple[int, ...]) -> np.ndarray:
    if not isinstance(packed, dict) or packed.keys() != {"dtype", "base64_zlib"}:
        raise ValueError(f"{name} must have a dtype and base64_zlib, no more")
    if packed["dtype"] not in _ANSWERS[name]:
        raise ValueError(
            f"{name} must be of type {' or '.join(_ANSWERS[name])}; got "
            f"{packed['dtype']!r}"
        )
    dtype = np.dtype(packed["dtype"])
    size = math.prod(shape) * dtype.itemsize
    stream = zlib.decompressobj()
    try:
        # One byte more than wanted shows a text that holds too many.
        data = stream.decompress(
            base64.b64decode(packed["base64_zlib"], validate=True), size + 1
        )
    except (ValueError, zlib.error) as error:
        raise ValueError(f"{name} is not base64 of zlib: {error}") from error
    if len(data) != size or not stream.eof:
        raise ValueError(f"{name} must hold {size} bytes for the shape {shape}")
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape)


def _checked(value: Any, field: dataclasses.Field) -> Any:
    kind: Any = dict if typing.get_origin(field.type) is dict else field.type
    # JSON may write the float 1.0 as 1, but no number as true.
    whole = type(value) is int and isinstance(0.0, kind)
    if not (whole or isinstance(value, kind)):
        raise TypeError(f"{field.name} is of type {type(value).__name__}")
    return float(value) if whole else value


def _numbers(array: np.ndarray) -> list[float | None]:
    """A list for JSON, with null for NaN."""
    return [_number(value) for value in array.tolist()]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
