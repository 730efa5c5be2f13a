"""`jaxrob domain`: several alterations at once, as one operating domain."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import jaxrob
from jaxrob._command import catalogue
from jaxrob._command.assess import Request, written_request
from jaxrob._command.define import Refused, Values, check_unplanned
from jaxrob._command.ending import answers_are_there
from jaxrob._command.flow import Replacing, run_beside
from jaxrob._command.subject import (
    Subject,
    check_measure,
    journal_of,
    mesh_of_all,
    ranges,
)
from jaxrob._engine.preflight import preflight
from jaxrob.data._classes import Row, csv_rows
from jaxrob.domains._results import DomainResults
from jaxrob.reporting._pictures import corners
from jaxrob.reporting._requirements import OF_DOMAIN, names_of
from jaxrob.strategies import Volume

QUANTITIES = names_of(OF_DOMAIN)


def run_domain(values: Values, words: Sequence[str]) -> str:
    del words
    request = written_request(values, QUANTITIES)
    check_measure(request.measure)
    _check_known(request, values)
    volume = _volume(values, request)

    def prepare(found: Subject) -> tuple[str, Callable[[], dict[str, Any]]]:
        shape, frost = found.dataset.images.shape[1:], values.frost
        some = [catalogue.made(one, shape, frost) for one in request.alterations]
        domain = jaxrob.Domain(some)
        profile = _profile(values.profile, domain)
        image, key = found.dataset.images[0], jax.random.key(values.seed)
        preflight(found.classifier, found.dataset, [domain], image, key)
        said = ranges(domain.alterations)

        def measure() -> dict[str, Any]:
            print(said)
            done = _measured(found, domain, profile, request, volume, values)
            _print_summary(done)
            plan = {} if request.plan is None else {"plan": request.plan}
            return {"domain": done} | plan

        passes = "how many passes that takes depends on the answers"
        return f"{said}\n{volume!r}; {passes}", measure

    return run_beside(values, Replacing(QUANTITIES, request.requirements), prepare)


def _check_known(request: Request, values: Values) -> None:
    lacking = {
        "accepted_volume.low": "of --groups it is not known" * bool(values.groups),
        "box.volume": "--nobox looks for none" * (not values.box),
        "failure_probability": "it needs --profile" * (values.profile is None),
    }
    for one in request.requirements:
        if why := lacking.get(one.quantity.removesuffix(".high")):
            raise Refused(f"{one.said}: {why}")


def _print_summary(results: DomainResults) -> None:
    one, (low, high) = results.volume, results.volume.dataset_interval
    print(
        f"{results.name}: {one.measure} >= {one.threshold:g} at "
        f"{one.accepted_volume:.2%} of the combinations, for these images between "
        f"{low:.2%} and {high:.2%} ({one.status}, {one.evaluations:,} forward passes)"
    )
    for found in (results.box, results.failure):
        if found is not None:
            print(found)


def _volume(values: Values, request: Request) -> Volume:
    if values.levels is not None:
        raise Refused("--levels: levels of a domain are drawn; leave it out")
    asked = {"half_width": values.half_width, "budget": values.budget}
    for name in asked:
        if (planned := getattr(request.plan, name, None)) is not None:
            check_unplanned(values, name)
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
    strategy: Volume,
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

    good: dict[str, Any] = {"threshold": request.threshold}
    good |= {"measure": request.measure, "alpha": values.alpha}
    # First, so that an error of theirs loses nothing.
    shown = corners(domain, found.dataset, jax.random.key(values.seed))
    one = jaxrob.assess_domain(
        *found, domain, strategy=strategy, **good, **how("volume")
    )
    answers_are_there()
    box = failure = None
    if values.box:
        box = jaxrob.operating_box(*found, domain, **good, **how("box"))
    if profile is not None:
        failure = jaxrob.failure_probability(*found, domain, profile, **how("failure"))
    return DomainResults(one, box, failure, shown)


def _profile(path: str | None, domain: jaxrob.Domain) -> np.ndarray | None:
    if path is None:
        return None
    head, *rows = [*csv_rows(pathlib.Path(path))] or [Row(1, [], ",")]
    names = [one.strip().replace("_", " ") for one in head.cells]
    wanted = [one.name for one in domain.alterations]
    if lacking := [one for one in wanted if one not in names]:
        raise Refused(
            f"--profile={path}: it has no column {', '.join(lacking)}; its first line "
            f"must name {', '.join(wanted)}"
        )
    try:
        places = [names.index(one) for one in wanted]
        return np.array([[float(row.value(k)) for k in places] for row in rows])
    except (IndexError, ValueError) as error:
        raise Refused(f"--profile={path}: {error}") from error
