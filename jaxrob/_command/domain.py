"""`jaxrob domain`: several alterations at once, as one operating domain."""

import csv
import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import jaxrob
from jaxrob import reporting
from jaxrob._command import catalogue, user_code
from jaxrob._command.assess import Request, written_request
from jaxrob._command.define import Refused, Values, check_folders
from jaxrob._command.ending import answers_are_there, recorded_run, with_other_runs
from jaxrob._command.results import (
    Replacing,
    check_outcomes,
    check_reports,
    checked_folder,
    earlier_results,
    held,
    write_outcomes,
    write_reports,
)
from jaxrob._command.subject import (
    Subject,
    announce,
    check_measure,
    first_look,
    join_hosts,
    journal_of,
    load_subject,
    mesh_of_all,
)
from jaxrob._devices.mesh import is_first
from jaxrob._engine.preflight import preflight
from jaxrob.domains._results import DomainResults
from jaxrob.reporting import Results
from jaxrob.reporting._requirements import OF_DOMAIN, names_of
from jaxrob.strategies import Volume

QUANTITIES = names_of(OF_DOMAIN)


def run_domain(values: Values, words: Sequence[str]) -> str:
    del words
    request = written_request(values, QUANTITIES)
    check_measure(request.measure)
    volume = _volume(values, request)
    check_reports(values.report)
    check_outcomes(values)
    output = checked_folder(values)
    check_folders(values, "journal", "compilation_cache")
    join_hosts(values)
    if user_code.is_code(values.classifier or ""):
        # First, so that modules that alterations import too are noted as the network's.
        user_code.load(values.classifier, "classifier")
    found = load_subject(values)
    shape, frost = found.dataset.images.shape[1:], values.frost
    some = [catalogue.made(one, shape, frost) for one in request.alterations]
    domain = jaxrob.Domain(some)
    profile = _profile(values.profile, domain)
    replacing = Replacing(QUANTITIES, request.requirements)
    earlier_results(output, found, replacing)
    image, key = found.dataset.images[0], jax.random.key(values.seed)
    preflight(found.classifier, found.dataset, [domain], image, key)
    first_look(found, values.seed)
    announce(found)
    for one in domain.alterations:
        print(f"  {one.name} [{one.lower:g}, {one.upper:g}] {one.unit}".rstrip())
    if values.dry_run:
        print(f"{volume!r}; how many passes that takes depends on the answers")
        return ""
    with held(output):
        kept = earlier_results(output, found, replacing)
        done = _measured(found, domain, profile, request, volume, values)
        others = (one for one in kept.requirements if one.quantity not in QUANTITIES)
        results = dataclasses.replace(
            kept,
            domain=done,
            requirements=(*others, *request.requirements),
            plan=request.plan or kept.plan,
            runs=with_other_runs(kept.runs, recorded_run(values)),
        )
        if is_first():
            reporting.write_results(output, results)
    _print_summary(done)
    print(f"wrote {output}/")
    if values.report and is_first():
        write_reports(values.report, [reporting.read_results(output)])
    own = Results(found.name, None, (), domain=done, requirements=request.requirements)
    write_outcomes(values, own)
    return reporting.verdict(request.requirements, {done.name: done})


def _print_summary(results: DomainResults) -> None:
    one, (low, high) = results.volume, results.volume.dataset_interval
    print(
        f"{results.name}: {one.measure} >= {one.threshold:g} at "
        f"{one.accepted_volume:.2%} of the combinations, for these images between "
        f"{low:.2%} and {high:.2%} ({one.status}, {one.evaluations:,} forward passes)"
    )
    if results.failure is not None:
        print(results.failure)


def _volume(values: Values, request: Request) -> Volume:
    if values.levels is not None:
        raise Refused("--levels: levels of a domain are drawn; leave it out")
    asked = {"half_width": values.half_width, "budget": values.budget}
    for name in asked:
        if (planned := getattr(request.plan, name, None)) is not None:
            if values[name].present:
                raise Refused(f"--{name}: the plan says it; leave it out, or the plan")
            asked[name] = planned
    if request.plan is not None and request.plan.curtail:
        raise Refused(f"--plan={values.plan}: curtail is of `jaxrob assess` alone")
    try:
        return Volume(**asked, guarantee=values.guarantee)
    except ValueError as error:
        raise Refused(f"--{error}") from error


def _measured(
    found: Subject,
    domain: jaxrob.Domain,
    profile: np.ndarray | None,
    request: Request,
    volume: Volume,
    values: Values,
) -> DomainResults:
    def how(kind: str) -> dict[str, Any]:
        return {
            "confidence_level": values.confidence_level,
            "key": jax.random.key(values.seed),
            "batch_size": values.batch_size,
            "mesh": mesh_of_all(),
            "journal": journal_of(values, kind, found),
            "progress": values.progress,
        }

    one = jaxrob.assess_domain(
        *found,
        domain,
        request.threshold,
        request.measure,
        alpha=values.alpha,
        strategy=volume,
        **how("volume"),
    )
    answers_are_there()
    failure = None
    if profile is not None:
        failure = jaxrob.failure_probability(*found, domain, profile, **how("failure"))
    return DomainResults(one, failure)


def _profile(path: str | None, domain: jaxrob.Domain) -> np.ndarray | None:
    if path is None:
        return None
    with open(path, newline="", encoding="utf-8-sig") as file:
        head, *rows = csv.reader(file)
    names = [one.strip().replace("_", " ") for one in head]
    wanted = [one.name for one in domain.alterations]
    if lacking := [one for one in wanted if one not in names]:
        raise Refused(
            f"--profile={path}: it has no column {', '.join(lacking)}; its first line "
            f"must name {', '.join(wanted)}"
        )
    try:
        return np.array([[float(row[names.index(n)]) for n in wanted] for row in rows])
    except (IndexError, ValueError) as error:
        raise Refused(f"--profile={path}: {error}") from error
