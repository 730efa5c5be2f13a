"""jaxrob measures how robust a classifier is, and makes it more robust."""

from jaxrob import (
    adversarial,
    alterations,
    metrics,
    retraining,
    roma,
    strategies,
    uncertainty,
)
from jaxrob._assess import Assessment, assess
from jaxrob._classifier import Classifier
from jaxrob._compare import Comparison, compare
from jaxrob._curve import Curve, ReducedCurve
from jaxrob._dataset import Dataset
from jaxrob._diagnostics import Diagnostics
from jaxrob._evaluate import evaluate
from jaxrob.alterations import Alteration

__version__ = "0.1.0"

__all__ = (
    "Alteration",
    "Assessment",
    "Classifier",
    "Comparison",
    "Curve",
    "Dataset",
    "Diagnostics",
    "ReducedCurve",
    "adversarial",
    "alterations",
    "assess",
    "compare",
    "evaluate",
    "metrics",
    "retraining",
    "roma",
    "strategies",
    "uncertainty",
)
