"""Quality measures of a curve, and the robustness computed from them."""

from jaxrob.metrics._bands import bands, wilson
from jaxrob.metrics._bounded_mean import bounded_mean
from jaxrob.metrics._confidence_interval import ConfidenceInterval
from jaxrob.metrics._corruption_error import (
    ALEXNET,
    CorruptionError,
    ReferenceErrors,
    corruption_error,
    mean_corruption_error,
    relative_corruption_error,
)
from jaxrob.metrics._counts import Counts
from jaxrob.metrics._failing_level import FailingLevel, failing_level
from jaxrob.metrics._odds import OddsRatio, odds_ratio, unknown_counts
from jaxrob.metrics._quality import (
    accuracy,
    decided_ratio,
    effective_inputs,
    effectiveness,
    f1,
    indecision,
    measures,
    per_class,
    precision,
    recall,
    top_k_accuracy,
)
from jaxrob.metrics._robustness import (
    RULES,
    Interval,
    accepted_intervals,
    heaviside_robustness,
)
from jaxrob.metrics._robustness_interval import confidence_interval, robustness_interval
from jaxrob.metrics._selective import (
    RiskCoverage,
    aurc,
    expected_calibration_error,
    risk_coverage,
)
from jaxrob.metrics._tolerance import (
    beta,
    linear_penalization,
    linear_tolerance,
    penalizations,
    step_penalization,
    step_tolerance,
    tolerance_robustness,
    tolerances,
)

__all__ = (
    "ALEXNET",
    "RULES",
    "ConfidenceInterval",
    "CorruptionError",
    "Counts",
    "FailingLevel",
    "Interval",
    "OddsRatio",
    "ReferenceErrors",
    "RiskCoverage",
    "accepted_intervals",
    "accuracy",
    "aurc",
    "bands",
    "beta",
    "bounded_mean",
    "confidence_interval",
    "corruption_error",
    "decided_ratio",
    "effective_inputs",
    "effectiveness",
    "expected_calibration_error",
    "f1",
    "failing_level",
    "heaviside_robustness",
    "indecision",
    "linear_penalization",
    "linear_tolerance",
    "mean_corruption_error",
    "measures",
    "odds_ratio",
    "penalizations",
    "per_class",
    "precision",
    "recall",
    "relative_corruption_error",
    "risk_coverage",
    "robustness_interval",
    "step_penalization",
    "step_tolerance",
    "tolerance_robustness",
    "tolerances",
    "top_k_accuracy",
    "unknown_counts",
    "wilson",
)
