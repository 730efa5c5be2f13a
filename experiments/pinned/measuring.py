"""Metrics and uncertainty, valid calls of functions, and errors of wrong ones."""

import collections
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxrob
from jaxrob import metrics, uncertainty
from pinned import calls, world

_RULES = ("right", "count", "linear")


def _every_function() -> Any:
    """A call of each public function of these packages."""
    found = {}
    for number, one in enumerate(calls.of_numbers()):
        given = {name: each.value for name, each in one.arguments.items()}
        found[f"{number} {one.name}"] = one.function(**given)
    return found


def _of_counts() -> Any:
    """Measures, bands and robustness of random counts, empty classes among them."""
    rng = np.random.default_rng(0)
    confusion = rng.integers(0, 30, (6, 3, 4))
    confusion[2, 1] = confusion[4] = 0
    confusion[5, :, :3] = 0
    confusion[:, np.arange(3), np.arange(3)] += (np.arange(6)[::-1] * 20)[:, None]
    levels = np.array([-1.0, -0.4, 0.0, 0.1])
    found: dict[str, Any] = {}
    for measure, function in metrics.measures.items():
        values = np.nan_to_num(function(confusion[:4]))
        found[measure] = {
            "values": function(confusion),
            "of classes": metrics.per_class[measure](confusion),
            "bands": metrics.bands(confusion, measure, 0.9),
            "inputs": metrics.effective_inputs(confusion, measure),
            "robustness": {
                f"{rule} {at}": metrics.heaviside_robustness(levels, values, at, rule)
                for rule in _RULES
                for at in (0.2, 0.6, 0.9)
            },
        }
    rest = levels, confusion[:4], "accuracy", 0.6
    found["interval"] = [
        metrics.confidence_interval(*rest, level, bounds=(-1.0, 1.0))
        for level in (0.8, 0.99)
    ]
    found["failing"] = metrics.failing_level(*rest)
    bumpy = np.sort(rng.normal(size=60)), rng.random(60), 0.5
    found["bumpy"] = {
        "accepted": metrics.accepted_intervals(*bumpy),
        **{rule: metrics.heaviside_robustness(*bumpy, rule) for rule in _RULES},
    }
    return found


def _corruption_errors() -> Any:
    """Corruption errors beside AlexNet, beside another network, and beside nothing."""
    rng = np.random.default_rng(1)
    labels = np.arange(90, dtype=np.int32) % 3

    def curves(shift: float) -> dict[str, Any]:
        found = {}
        for number, name in enumerate(sorted(metrics.ALEXNET)):
            wrong = rng.random((6, 90)) < (np.arange(6)[:, None] + shift) / 9
            answers = np.where(wrong, (labels + 1 + number % 2) % 3, labels)
            predicted = answers.astype(np.int16)
            found[name] = jaxrob.Curve(
                np.arange(6.0), predicted, None, None, labels, 3, None
            )
            # On clean images all curves have the same answers.
            found[name].predicted[0] = labels
            found[name].predicted[0, : int(5 * shift) + 1] += 1
            found[name].predicted[0] %= 3
        return found

    mine, other = curves(0.2), curves(1.0)
    return {
        "nothing": metrics.mean_corruption_error(mine, None),
        "other": metrics.mean_corruption_error(mine, other),
        "relative": metrics.mean_corruption_error(mine, other, relative=True),
        "at 80 %": metrics.mean_corruption_error(mine, other, confidence_level=0.8),
        "one": metrics.corruption_error(mine["fog"], other["fog"]),
        "one, relative": metrics.relative_corruption_error(mine["fog"], other["fog"]),
        "AlexNet": dict(metrics.ALEXNET),
    }


def _uncertain() -> Any:
    """Samples that agree, that disagree, and that are certain."""
    logits = 3 * np.random.default_rng(2).normal(size=(4, 6, 3))
    logits[:, 0] = 0
    logits[:, 1] = [200.0, 0.0, -200.0]
    given = jax.nn.log_softmax(jnp.float32(logits), axis=-1)
    names = (
        "aleatoric", "epistemic", "total", "mutual_information", "predictive_entropy",
    )  # fmt: skip
    return {name: getattr(uncertainty, name)(given) for name in names}


def _calibration() -> Any:
    """Selective measures of a curve's confidences."""
    curve = world.evaluated(world.BLUR, [0.0, 1.0, 3.0])
    answers = curve.confidence, curve.predicted == curve.labels
    return {
        "risk": metrics.risk_coverage(*answers),
        "area": metrics.aurc(*answers),
        "error": metrics.expected_calibration_error(*answers, 10),
        "unknown": metrics.unknown_counts(
            curve.predicted, curve.labels, curve.uncertainty, 0.5
        ),
    }


_ENTRY_POINTS = (
    "evaluate", "assess", "compare", "compare_sequentially", "roma.assess",
    "provenance", "adversarial.fgsm", "adversarial.lbfgs",
    "adversarial.adversariability",
)  # fmt: skip
_PARTS = (
    "Alteration", "alterations.compose", "alterations.rescale",
    "alterations.followed_by", "alterations.rotation", "alterations.gaussian_blur",
    "Dataset", "Dataset.from_batches", "Classifier", "Classifier.from_host",
    "Curve", "reporting.table", "reporting.to_html", "reporting.unmet",
)  # fmt: skip


def _refused(cases: list[calls.Case], names: tuple[str, ...] | None = None) -> Any:
    """Errors for wrong arguments, of the cases of these names."""
    found: dict[str, Any] = {}
    times: collections.Counter[str] = collections.Counter()
    for one in cases:
        if names is not None and one.name not in names:
            continue
        # Not its place among all, which a new case would move.
        times[one.name] += 1
        found.setdefault(f"{one.name} {times[one.name]}", {}).update(
            {
                f"{argument}={value}": _answer(one, argument, value)
                for argument, given in one.arguments.items()
                for value in calls.VALUES
                if value not in given.allowed
            }
        )
    return found


def _answer(case: calls.Case, argument: str, value: str) -> str:
    """The error for one wrong argument, or the type of what is returned."""
    arguments = {name: each.value for name, each in case.arguments.items()}
    try:
        result = case.function(**arguments | {argument: calls.VALUES[value]})
    # Whatever is raised is kept.
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return type(result).__name__


CASES = {
    "measuring.every_function": _every_function,
    "measuring.of_counts": _of_counts,
    "measuring.corruption_errors": _corruption_errors,
    "measuring.uncertain": _uncertain,
    "measuring.calibration": _calibration,
    "refusing.entry_points": lambda: _refused(calls.of_images(), _ENTRY_POINTS),
    "refusing.parts": lambda: _refused(calls.of_images(), _PARTS),
    "refusing.numbers": lambda: _refused(calls.of_numbers()),
}
