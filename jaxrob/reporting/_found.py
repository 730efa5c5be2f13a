"""The outcomes of a network's stored results."""

from jaxrob._arguments.checks import check_type
from jaxrob._assessment.assessment import Assessment
from jaxrob.reporting._gate import Outcome, placed
from jaxrob.reporting._results import Results
from jaxrob.roma import RomaResult


def outcomes_of(results: Results, number: int | None = None) -> list[Outcome]:
    """Returns whether a network's results meet their requirements.

    Args:
      results: the results.
      number: the number of assessments of which something is stated at once; by
        default those of the results.

    Raises:
      TypeError: if an argument has a wrong type.
    """
    check_type("results", results, Results, "a jaxrob.reporting.Results")
    return [one for _, one in placed_of(results, number)]


def placed_of(
    results: Results, number: int | None = None
) -> list[tuple[int | None, Outcome]]:
    """Returns the outcomes with the places of the assessments; see `outcomes_of`."""
    # Two may share a name: one alteration with two measures, or one called RoMA.
    found: list[tuple[str, Assessment | RomaResult]] = [
        (one.alteration, one) for one in results.assessments
    ]
    if results.roma is not None:
        found.append(("RoMA", results.roma))
    return placed(results.requirements, found, results.differences, number)
