"""Quality measures of a curve, and the robustness computed from them."""

from jaxrob.metrics._interval import (
    bands,
    confidence_interval,
    robustness_interval,
    wilson,
)
from jaxrob.metrics._quality import (
    accuracy,
    effectiveness,
    f1,
    indecision,
    measures,
    per_class,
    precision,
    recall,
)
from jaxrob.metrics._robustness import (
    RULES,
    Interval,
    accepted_intervals,
    heaviside_robustness,
)

__all__ = (
    "RULES",
    "Interval",
    "accepted_intervals",
    "accuracy",
    "bands",
    "confidence_interval",
    "effectiveness",
    "f1",
    "heaviside_robustness",
    "indecision",
    "measures",
    "per_class",
    "precision",
    "recall",
    "robustness_interval",
    "wilson",
)
