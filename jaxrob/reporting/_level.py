"""The confidence level of results as text."""

from collections.abc import Sequence

from jaxrob._assessment.assessment import Assessment
from jaxrob.roma import RomaResult


def percent_of(confidence_level: float) -> str:
    """Returns a level in as many digits as it has: 95 %, 99.9 %."""
    return f"{100 * confidence_level:.8g} %"


def level_of(results: Sequence[Assessment | RomaResult]) -> str:
    """Returns the confidence levels of results' intervals: "95 % or 99 %"."""
    levels = sorted({one.confidence_level for one in results} or {0.95})
    return " or ".join(map(percent_of, levels))
