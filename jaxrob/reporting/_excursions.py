"""Excursions across the threshold that several assessments may have missed."""

from collections.abc import Sequence

from jaxrob._assessment.assessment import Assessment


def excursions(assessments: Sequence[Assessment]) -> str:
    """Says how wide an excursion every assessment detects, surely or half the time."""
    found = [one.diagnostics for one in assessments if one.scores is None]
    if not found:
        return ""
    worst = found[0]._replace(
        widest_interval=max(one.widest_interval for one in found),
        half_met=max(one.half_met for one in found),
    )
    return worst.excursions
