"""Metrics, strategies and uncertainty: valid calls of every public function."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from checks.of_numbers import of_numbers

import jaxrob
from jaxrob import metrics, uncertainty
from pinned import world


def every_function() -> Any:
    """A call of each public function of these packages."""
    found = {}
    for number, one in enumerate(of_numbers()):
        given = {name: each.value for name, each in one.arguments.items()}
        found[f"{number} {one.name}"] = one.function(**given)
    return found


def of_counts() -> Any:
    """Measures, bands and robustness of random counts, empty classes among them."""
    rng = np.random.default_rng(0)
    confusion = rng.integers(0, 30, (6, 3, 4))
    confusion[2, 1] = confusion[4] = 0
    confusion[5, :, :3] = 0
    confusion[:, np.arange(3), np.arange(3)] += (np.arange(6)[::-1] * 20)[:, None]
    levels = np.array([-1.0, -0.4, 0.0, 0.1, 0.7, 2.0])
    found: dict[str, Any] = {}
    for measure in metrics.measures:
        found[measure] = {
            "values": metrics.measures[measure](confusion),
            "of classes": metrics.per_class[measure](confusion),
            "bands": metrics.bands(confusion, measure, 0.9),
            "inputs": metrics.effective_inputs(confusion, measure),
        }
        values = metrics.measures[measure](confusion[:4])
        found[measure]["robustness"] = {
            f"{rule} {threshold}": metrics.heaviside_robustness(
                levels[:4], np.nan_to_num(values), threshold, rule
            )
            for rule in ("right", "count", "linear")
            for threshold in (0.2, 0.6, 0.9)
        }
    rest = levels[:4], confusion[:4], "accuracy", 0.6
    found["interval"] = [
        metrics.confidence_interval(*rest, level, bounds=(-1.0, 1.0))
        for level in (0.8, 0.99)
    ]
    found["failing"] = metrics.failing_level(*rest)
    bumpy = np.sort(rng.normal(size=60)), rng.random(60), 0.5
    found["bumpy"] = {
        "accepted": metrics.accepted_intervals(*bumpy),
        **{
            rule: metrics.heaviside_robustness(*bumpy, rule)
            for rule in ("right", "count", "linear")
        },
    }
    return found


def corruption_errors() -> Any:
    """Corruption errors beside AlexNet, beside another network, and beside nothing."""
    rng = np.random.default_rng(1)
    labels = np.arange(90, dtype=np.int32) % 3

    def curves(shift: float) -> dict[str, Any]:
        found = {}
        for number, name in enumerate(sorted(metrics.ALEXNET)):
            wrong = rng.random((6, 90)) < (np.arange(6)[:, None] + shift) / 9
            found[name] = jaxrob.Curve(
                np.arange(6.0),
                np.where(wrong, (labels + 1 + number % 2) % 3, labels).astype(np.int16),
                None,
                None,
                labels,
                3,
                None,
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


def uncertain() -> Any:
    """Samples that agree, that disagree, and that are certain."""
    logits = 3 * np.random.default_rng(2).normal(size=(4, 6, 3))
    logits[:, 0] = 0
    logits[:, 1] = [200.0, 0.0, -200.0]
    given = jax.nn.log_softmax(jnp.float32(logits), axis=-1)
    names = (
        "aleatoric", "epistemic", "total", "mutual_information", "predictive_entropy",
    )  # fmt: skip
    return {name: getattr(uncertainty, name)(given) for name in names}


def calibration() -> Any:
    """Selective measures of a curve's confidences."""
    curve = jaxrob.evaluate(
        world.classifier(), world.dataset(), world.blur(), [0.0, 1.0, 3.0]
    )
    assert isinstance(curve, jaxrob.Curve) and curve.confidence is not None
    right = curve.predicted == curve.labels
    return {
        "risk": metrics.risk_coverage(curve.confidence, right),
        "area": metrics.aurc(curve.confidence, right),
        "error": metrics.expected_calibration_error(curve.confidence, right, 10),
        "unknown": metrics.unknown_counts(
            curve.predicted, curve.labels, curve.uncertainty, 0.5
        ),
    }
