"""`jaxrob roma`: estimates the probability of a misclassification near each picture."""

import dataclasses
import math
import pathlib
from collections.abc import Sequence

import jax

import jaxrob
from jaxrob import reporting
from jaxrob._arguments.checks import check_choice
from jaxrob._arguments.texts import counted
from jaxrob._command.define import Values, check_folders
from jaxrob._command.ending import answers_are_there, recorded_run, with_other_runs
from jaxrob._command.results import (
    Replacing,
    check_outcomes,
    check_reports,
    checked_folder,
    earlier_results,
    held,
    required,
    write_outcomes,
    write_reports,
)
from jaxrob._command.subject import (
    Subject,
    announce,
    first_look,
    join_hosts,
    journal_of,
    load_subject,
    mesh_of_all,
)
from jaxrob._devices.mesh import is_first
from jaxrob.reporting import Requirement, Results, Run
from jaxrob.reporting._requirements import OF_ROMA, names_of
from jaxrob.reporting._words import percent_of
from jaxrob.roma import RomaResult
from jaxrob.roma._assess import checked_budget, fewest_and_most

QUANTITIES = names_of(OF_ROMA)


def run_roma(values: Values, words: Sequence[str]) -> str:
    del words
    check_choice("estimator", values.estimator, jaxrob.roma.ESTIMATORS)
    requirements = required(values.require, QUANTITIES)
    check_reports(values.report)
    check_outcomes(values)
    output = checked_folder(values)
    check_folders(values, "journal", "compilation_cache")
    join_hosts(values)
    found = load_subject(values)
    replacing = Replacing(QUANTITIES, requirements)
    earlier_results(output, found, replacing)
    first_look(found, values.seed)
    announce(found)
    if values.dry_run:
        budget = checked_budget(_budget(values), values.estimator, values.num_samples)
        low, high = fewest_and_most(
            values.estimator,
            len(found.dataset),
            values.num_samples,
            budget,
            values.half_width is None,
        )
        passes = f"{high:,}" if low == high else f"{low:,} to {high:,}"
        print(f"{len(found.dataset)} images: {passes} forward passes")
        return ""
    journal = journal_of(values, "roma", found)
    with held(output):
        earlier = earlier_results(output, found, replacing)
        result = _estimated(found, values, journal)
        answers_are_there()
        _write(output, earlier, result, requirements, recorded_run(values))
    _print_summary(result)
    print(f"wrote {output}/")
    if values.report and is_first():
        write_reports(values.report, [reporting.read_results(output)])
    asked = tuple(requirements)
    write_outcomes(
        values, Results(found.name, None, (), roma=result, requirements=asked)
    )
    return reporting.verdict(requirements, {"RoMA": result})


def _estimated(found: Subject, values: Values, journal: str | None) -> RomaResult:
    return jaxrob.roma.assess(
        found.classifier,
        found.dataset,
        epsilon=values.epsilon,
        delta=values.delta,
        num_samples=values.num_samples,
        norm=values.norm,
        clip=values.clip,
        estimator=values.estimator,
        half_width=values.half_width,
        confidence_level=values.confidence_level,
        budget=_budget(values),
        key=jax.random.key(values.seed),
        mesh=mesh_of_all(),
        journal=journal,
        progress=values.progress,
    )


def _budget(values: Values) -> float | None:
    # Flags have no infinite values.
    return math.inf if values.budget == 0 else values.budget


def _write(
    output: pathlib.Path,
    earlier: Results,
    result: RomaResult,
    requirements: Sequence[Requirement],
    run_record: Run,
) -> None:
    """Writes the result, and keeps the folder's other results of the same network."""
    others = (one for one in earlier.requirements if one.quantity not in QUANTITIES)
    asked = (*others, *requirements)
    if is_first():
        results = dataclasses.replace(
            earlier,
            roma=result,
            requirements=asked,
            runs=with_other_runs(earlier.runs, run_record),
        )
        reporting.write_results(output, results)


def _print_summary(result: RomaResult) -> None:
    answered = int(result.answered.sum())
    print(f"{result.perturbation}, delta {result.delta:g}")
    print(
        f"mean plr {result.mean_plr:.6f}, lower ends {result.mean_low:.6f}; "
        f"{answered} of {counted(len(result.status), 'image')} answered, "
        f"{counted(int(result.evaluations.sum()), 'forward pass', 'forward passes')}"
    )
    low, high = result.mean_plr_interval
    over_all = f"the mean over all lies between {low:.6f} and {high:.6f} "
    over_all += f"({percent_of(result.confidence_level)})"
    if result.half_width is not None:
        print(f"looked at {counted(int(result.seen.sum()), 'image')}; {over_all}")
    elif low < high:
        print(over_all)
    for text in (*result.warnings, *result.caveats):
        print(text)
