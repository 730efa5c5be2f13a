"""The outcomes of a network's stored results."""

from jaxrob._arguments.checks import check_type
from jaxrob.reporting._gate import Found, Outcome, outcomes
from jaxrob.reporting._results import Results


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
    return outcomes(
        results.requirements, found_in(results), results.differences, number
    )


def found_in(results: Results) -> Found:
    """Returns what requirements may be of, by name."""
    found: Found = {one.alteration: one for one in results.assessments}
    return found if results.roma is None else {**found, "RoMA": results.roma}
