"""Wrong arguments of every public function, a few of each."""

import inspect

import argument_mutations
import pytest
from checks.outcomes import outcome

import jaxrob

# Results of calls, tables, and read-only names.
NO_FUNCTIONS = {
    "ALEXNET", "Adversariability", "Assessment", "Attack", "Batches", "Categorial",
    "Comparison", "CorruptionError", "Counts", "Diagnostics", "Difference",
    "ESTIMATORS",
    "ConfidenceInterval", "Evaluation", "FailingLevel", "File", "Found",
    "GlobalRobustness", "Interval", "Logged", "LoggedFile", "Losses", "Metric",
    "Move", "MovedBoxes", "NAMES",
    "OddsRatio", "Outcome", "Picture", "Plan",
    "PlannedAlteration", "Posterior", "Task", "RULES", "Ranks", "ReferenceErrors",
    "Request", "Requirement", "Results", "RiskCoverage", "RobustnessWarning",
    "RomaResult", "Run", "SampleSize", "SequentialComparison", "Step", "Strategy",
    "corruptions", "measures", "penalizations", "per_class", "presets", "tolerances",
}  # fmt: skip


@pytest.fixture(scope="module")
def cases():
    with argument_mutations.all_cases() as found:
        yield found


def public_functions(room):
    """Returns the names of a room's callables."""
    module = getattr(jaxrob, room)
    names = getattr(module, "__all__", None)
    if names is None:
        names = [
            name
            for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__
        ]
    return {f"{room}.{name}" for name in names if name[0] != "_"}


@pytest.mark.slow
def test_every_public_function_has_a_case(cases):
    rooms = jaxrob._SUBPACKAGES
    public = {name for name in jaxrob.__all__ if name not in rooms}
    public |= {name for room in rooms for name in public_functions(room)}
    public = {name for name in public if name.split(".")[-1] not in NO_FUNCTIONS}
    # The same class under two names.
    public.remove("alterations.Alteration")
    assert public <= {case.name for case in cases}


@pytest.mark.slow
def test_wrong_arguments_are_refused_by_the_package_itself(cases):
    few = argument_mutations.chosen(cases, 3 * len(cases), seed=0)
    outcomes = [outcome(*one) for one in few]
    wrong = [one for one in outcomes if one.kind == "wrong"]
    assert not wrong, wrong
    assert argument_mutations.share_of_ours(outcomes) >= 0.98
