"""jaxrob measures how robust a classifier is, and makes it more robust.

Its modules are imported on first use, and JAX with them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxrob import (
        adversarial,
        alterations,
        bayes,
        data,
        maite,
        metrics,
        networks,
        reporting,
        retraining,
        roma,
        steps,
        strategies,
        training,
        uncertainty,
    )
    from jaxrob._arguments.texts import RobustnessWarning
    from jaxrob._assessment.assess import assess
    from jaxrob._assessment.assessment import Assessment
    from jaxrob._assessment.compare import Comparison, compare
    from jaxrob._assessment.compare_sequentially import (
        SequentialComparison,
        compare_sequentially,
    )
    from jaxrob._assessment.criterion import Tolerance
    from jaxrob._assessment.diagnostics import Diagnostics
    from jaxrob._assessment.slices import Slice, Slices
    from jaxrob._classifiers.classifier import Classifier
    from jaxrob._classifiers.network import Preprocessing, Score
    from jaxrob._curve import Curve, ReducedCurve, ScoreCurve
    from jaxrob._dataset import Dataset
    from jaxrob._domain import Domain
    from jaxrob._engine.evaluate import evaluate
    from jaxrob._engine.provenance import provenance
    from jaxrob.alterations import Alteration
    from jaxrob.domains._assess import assess_domain, operating_box
    from jaxrob.domains._failure import failure_probability
    from jaxrob.domains._results import (
        DomainAssessment,
        FailureProbability,
        OperatingBox,
    )

__version__ = "0.1.0"

# The modules of the names that are no modules.
_NAMES = {
    "Alteration": "alterations",
    "Assessment": "_assessment.assessment",
    "Classifier": "_classifiers.classifier",
    "Comparison": "_assessment.compare",
    "Curve": "_curve",
    "Dataset": "_dataset",
    "Diagnostics": "_assessment.diagnostics",
    "Domain": "_domain",
    "DomainAssessment": "domains._results",
    "FailureProbability": "domains._results",
    "OperatingBox": "domains._results",
    "Preprocessing": "_classifiers.network",
    "SequentialComparison": "_assessment.compare_sequentially",
    "ReducedCurve": "_curve",
    "RobustnessWarning": "_arguments.texts",
    "Score": "_classifiers.network",
    "ScoreCurve": "_curve",
    "Slice": "_assessment.slices",
    "Slices": "_assessment.slices",
    "Tolerance": "_assessment.criterion",
    "assess": "_assessment.assess",
    "assess_domain": "domains._assess",
    "failure_probability": "domains._failure",
    "compare": "_assessment.compare",
    "compare_sequentially": "_assessment.compare_sequentially",
    "evaluate": "_engine.evaluate",
    "operating_box": "domains._assess",
    "provenance": "_engine.provenance",
}

__all__ = (
    "Alteration",
    "Assessment",
    "Classifier",
    "Comparison",
    "Curve",
    "Dataset",
    "Diagnostics",
    "Domain",
    "DomainAssessment",
    "FailureProbability",
    "OperatingBox",
    "Preprocessing",
    "SequentialComparison",
    "ReducedCurve",
    "RobustnessWarning",
    "Score",
    "ScoreCurve",
    "Slice",
    "Slices",
    "Tolerance",
    "adversarial",
    "alterations",
    "assess",
    "assess_domain",
    "bayes",
    "compare",
    "compare_sequentially",
    "data",
    "evaluate",
    "failure_probability",
    "maite",
    "metrics",
    "networks",
    "operating_box",
    "provenance",
    "reporting",
    "retraining",
    "roma",
    "steps",
    "strategies",
    "training",
    "uncertainty",
)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'jaxrob' has no attribute {name!r}")
    if name not in _NAMES:
        return importlib.import_module(f"jaxrob.{name}")
    found = getattr(importlib.import_module(f"jaxrob.{_NAMES[name]}"), name)
    # From now on the name is found without this function.
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted((*__all__, "__version__"))
