"""Curves, and the rows of the paper's tables: robustness without and with unknowns."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from common import datasets, hosts, journals, ranges

import jaxrob
from jaxrob import alterations, bayes, metrics, networks


def fit(
    train_set: jaxrob.Dataset,
    key: jax.Array,
    num_samples: int,
    epochs: int,
    progress: bool,
    prior_scale: float = 1.0,
) -> jaxrob.Classifier:
    """Fits the perceptron: 161,040 parameters on 28x28 images of ten classes."""
    return bayes.fit(
        networks.MLP(num_classes=2 * len(datasets.class_names(train_set))),
        train_set, key=key, num_samples=num_samples, head="heteroscedastic",
        epochs=epochs, prior_scale=prior_scale, mesh=hosts.mesh(), progress=progress,
    )  # fmt: skip


# The paper's abbreviations, in the order of its tables.
COLUMNS = ("GN", "B", "BV", "HT", "VT", "JC", "Z")
# The measured rows, with short names.
ROWS = {
    "MLP": "MLP",
    "BNN": "BNN",
    "BNN, unknown": "unknown",
    "against indecision": "indecision",
    "augmented": "augmented",
}

# Robustness `[alterations]`, by the row's name.
Rows = dict[str, np.ndarray]


class Measured(NamedTuple):
    """The measurements of a network, or of two, on some alterations."""

    rows: Rows
    nominal: dict[str, float]  # measures of the clean images
    unknown: Sequence[jaxrob.Curve]  # of the Bayesian network, with unknown answers


def in_order() -> tuple[jaxrob.Alteration, ...]:
    by_name = {one.name: one for one in alterations.presets.bnn_2024()}
    names = ("gaussian noise", "gaussian blur", "brightness", "horizontal translation")
    names += ("vertical translation", "jpeg compression", "zoom")
    return tuple(by_name[name] for name in names)


def evaluate(
    classifier: jaxrob.Classifier,
    test_set: jaxrob.Dataset,
    some: Sequence[jaxrob.Alteration],
    num_levels: int,
    key: jax.Array,
    name: str,
    progress: bool,
) -> list[jaxrob.Curve]:
    return [
        jaxrob.evaluate(
            classifier, test_set, alteration,
            alteration.snap(ranges.evenly_spaced_levels(alteration, num_levels)),
            key=key, journal=journals.path(name), mesh=hosts.mesh(), progress=progress,
        )
        for alteration in some
    ]  # fmt: skip


def both(
    plain: Sequence[jaxrob.Curve],
    bayesian: Sequence[jaxrob.Curve],
    some: Sequence[jaxrob.Alteration],
    alpha: float,
) -> Measured:
    found = of_bayesian(bayesian, some, alpha)
    rows = {"MLP": robustness(plain, some, "accuracy")} | found.rows
    right = at_identity(plain[0], plain[0].accuracy, some[0])
    return found._replace(rows=rows, nominal=found.nominal | {"MLP": right})


def of_bayesian(
    curves: Sequence[jaxrob.Curve], some: Sequence[jaxrob.Alteration], alpha: float
) -> Measured:
    unknown = [curve.with_unknown(alpha) for curve in curves]
    rows = {
        "BNN": robustness(curves, some, "accuracy"),
        "BNN, unknown": robustness(unknown, some, "accuracy"),
        "against indecision": robustness(unknown, some, "decided_ratio"),
        "augmented": robustness(unknown, some, "effectiveness"),
    }
    plain, curve = curves[0], unknown[0]
    nominal = {
        "BNN": at_identity(plain, plain.accuracy, some[0]),
        "unknown": at_identity(curve, curve.accuracy, some[0]),
        "decided": 1 - at_identity(curve, curve.indecision, some[0]),
    }
    return Measured(rows, nominal, unknown)


def robustness(
    curves: Sequence[jaxrob.Curve], some: Sequence[jaxrob.Alteration], measure: str
) -> np.ndarray:
    """Computes Definitions 8, 9 and 11 with linear tolerance, theta = gamma = 0."""
    found = []
    for curve, alteration in zip(curves, some):
        values = metrics.measures[measure](curve.confusion)
        given = curve.levels, values, 0.0, "linear", "linear"
        nominal = at_identity(curve, values, alteration)
        found.append(metrics.tolerance_robustness(*given, nominal=nominal))
    return np.array(found)


def at_identity(
    curve: jaxrob.Curve, values: np.ndarray, alteration: jaxrob.Alteration
) -> float:
    """Returns the nominal value; the identity is the range's middle or an end of it."""
    return float(values[np.abs(curve.levels - alteration.identity).argmin()])
