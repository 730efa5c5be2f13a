"""Which excursions across the threshold several assessments may have missed."""

from collections.abc import Sequence

from jaxrob._assessment.assessment import Assessment


def excursions(assessments: Sequence[Assessment]) -> str:
    """What is seen for sure, and in half of the places at least, by every one of them.

    Args:
      assessments: of any networks and alterations.

    Returns:
      A few sentences; none where all levels are scored, which needs no crossing.
    """
    found = [one.diagnostics for one in assessments if one.scores is None]
    if not found:
        return ""
    worst = found[0]._replace(
        widest_interval=max(one.widest_interval for one in found),
        half_met=max(one.half_met for one in found),
    )
    return worst.excursions
