"""`jaxrob assess`: writes results and a report, and checks requirements."""

import pathlib
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

import jaxrob
from jaxrob import alterations, reporting, strategies
from jaxrob._arguments.texts import warn
from jaxrob._command import catalogue
from jaxrob._command.catalogue import Written, read_call
from jaxrob._command.define import Refused, Values, check_unplanned
from jaxrob._command.ending import answers_are_there
from jaxrob._command.flow import (
    Replacing,
    Write,
    begun,
    earlier_results,
    finished,
    verdict,
)
from jaxrob._command.results import (
    check_failing,
    check_required,
    read_results_at,
    required,
    write_failing_pictures,
)
from jaxrob._command.subject import (
    Subject,
    announce,
    check_measure,
    few_images_of,
    first_look,
    journal_of,
    load_subject,
    mesh_of_all,
    print_passes,
    with_requirements,
)
from jaxrob._devices.mesh import is_first
from jaxrob._engine.execution import progress_bar
from jaxrob._engine.preflight import preflight
from jaxrob.alterations import presets
from jaxrob.alterations._recorded import Recorded
from jaxrob.reporting import Picture, Plan, Requirement
from jaxrob.reporting._requirements import (
    OF_ALTERATION,
    OF_DOMAIN,
    OF_ROMA,
    OF_SET,
    about_quantity,
    names_of,
    planned_requirements,
)
from jaxrob.strategies import ASAP, FewImages, Strategy

_ANY_SHAPE = (224, 224, 3)
QUANTITIES = names_of(OF_ALTERATION, OF_SET)


class Request(NamedTuple):
    alterations: list[Written]  # the alterations as written
    threshold: float  # the lowest accepted value
    measure: str  # the name of the measure
    requirements: tuple[Requirement, ...]  # the requirements
    plan: Plan | None  # the plan that says all this, or None
    few: FewImages | None  # the search by few images; None for all images


def run_assess(values: Values, words: Sequence[str]) -> str:
    del words
    request = _requested(values)
    if values.pictures in (1, 2):
        raise Refused(f"--pictures must be 0, or 3 to 16; got {values.pictures}")
    check_failing(values)
    output = begun(values, "failing")
    # Errors whatever the picture size are raised before any picture is read.
    with warnings.catch_warnings():
        # The same warnings come again with the pictures' own size.
        warnings.simplefilter("ignore", jaxrob.RobustnessWarning)
        pairs = catalogue.all_made(request.alterations, _ANY_SHAPE, values.frost)
    recorded = alterations.recorded_in(values.recorded) if values.recorded else ()
    names = [one.name for one in (*(one for one, _ in pairs), *recorded)]
    if twice := [name for name in names if names.count(name) > 1]:
        raise Refused(
            f"--recorded={values.recorded}: {twice[0]} is the name of two, and results "
            "have one of a name; assess them into two folders"
        )
    request = _with_names(request, names, values)
    found = load_subject(values)
    shape = found.dataset.images.shape[1:]
    pairs = catalogue.all_made(request.alterations, shape, values.frost)
    altered = [*(one for one, _ in pairs), *recorded]
    if len(altered) < len(names):  # Of grey pictures.
        names = [one.name for one in altered]
        request = _with_names(request, names, values)
    reasons = [*(written.reason for _, written in pairs), *[None] * len(recorded)]
    others = {pathlib.Path(one).resolve() for one in values.regressions}
    others -= {output.resolve()}  # Beside itself its own failure would be gone.
    replacing = Replacing(QUANTITIES, request.requirements, names, bool(others))
    earlier_results(output, found, replacing)
    earlier = reporting.earlier_assessments(values.regressions, names)
    before = _earlier(request, names, values)
    for flag, some in (("regressions", earlier), ("earlier", before)):
        reporting.differences((), some)  # Refuses two of one alteration.
        _check_comparable(flag, some, found, altered, request)
    shown = [read_results_at(path) for path in values.regressions if values.report]
    key = jax.random.key(values.seed)
    preflight(found.classifier, found.dataset, altered, found.dataset.images[0], key)
    strategy = None if request.few else _strategy(values)
    first_look(found, values.seed, strategy, values.batch_size)
    _warn_of_no_means(altered, request, values.levels)
    announce(found)
    if values.dry_run:
        print_passes(found, altered, request.few or _strategy(values) or ASAP())
        return ""

    def measure(write: Write) -> dict[str, Any]:
        new = _assessed(found, altered, reasons, request, values, write)
        print(reporting.table(new["assessments"]))
        return new | {
            "regressions": tuple(reporting.regressions(new["assessments"], earlier)),
            "differences": reporting.differences(new["assessments"], before),
        }

    results = finished(values, output, found, replacing, measure, shown)
    if values.failing is not None and is_first():
        write_failing_pictures(values, found, altered, results)
    return verdict(results)


def written_request(values: Values, quantities: Sequence[str] = QUANTITIES) -> Request:
    of = _of_flags if values.plan is None else _of_plan
    return of(values, quantities)


def _requested(values: Values) -> Request:
    request = written_request(values)
    if (few := few_images_of(values, request.plan)) is None:
        return request
    check_measure(request.measure)
    return request._replace(few=few)


def _with_names(request: Request, names: Sequence[str], values: Values) -> Request:
    if request.plan is not None:
        has_own = any(one.requirements for one in request.plan.alterations)
        if has_own and len(names) > len(request.plan.alterations):
            raise Refused(
                f"--plan={values.plan}: beside the name of several corruptions, each "
                "with requirements of its own has to be named"
            )
        requirements = planned_requirements(request.plan, names)
        request = request._replace(requirements=requirements)
    said_by = "--require" if request.plan is None else f"--plan={values.plan}"
    check_required(said_by, request.requirements, names, values)
    if request.few is None:
        return request
    few = with_requirements(
        request.few, request.requirements, values.regressions or values.earlier
    )
    return request._replace(few=few)


def _earlier(
    request: Request, names: Sequence[str], values: Values
) -> list[jaxrob.Assessment]:
    asked = [one for one in request.requirements if one.quantity == "difference"]
    wanted = [name for name in names if any(one.is_of(name) for one in asked)]
    if not wanted:
        if values.earlier:
            raise Refused(
                "--earlier: no difference is required; add, for instance, "
                '--require="difference>=-0.02"'
            )
        return []
    found = reporting.earlier_assessments(values.earlier, wanted)
    there = {one.alteration for one in found}
    if lacking := set(wanted) - there:
        raise Refused(f"--earlier: no result of {', '.join(sorted(lacking))} is there")
    gone = [one for one in sorted(there - {*names}) if any(a.is_of(one) for a in asked)]
    if gone:
        raise Refused(
            f"--earlier: {', '.join(gone)} is not assessed any more; assess it too, or "
            f'say of what: --require="{wanted[0]}: difference>=-0.02"'
        )
    return [one for one in found if one.alteration in wanted]


def _of_flags(values: Values, quantities: Sequence[str]) -> Request:
    texts = values.alterations or catalogue.DEFAULT * (not values.recorded)
    return Request(
        [read_call(text) for text in texts],
        values.threshold,
        values.measure,
        tuple(required(values.require, quantities)),
        None,
        None,
    )


def _of_plan(values: Values, quantities: Sequence[str]) -> Request:
    check_unplanned(
        values, "alterations", "recorded", "threshold", "measure", "require"
    )
    plan = reporting.read_plan(values.plan)
    for one in plan.requirements:
        if one.quantity not in quantities:
            of = about_quantity(one.quantity).of
            command = {OF_ROMA: "roma", OF_DOMAIN: "domain"}.get(of, "assess")
            raise Refused(
                f"--plan={values.plan}: {one.quantity} is measured by `jaxrob "
                f"{command} --require={one.quantity}{one.sign}{one.bound:g}`, not here"
            )
    written = [
        Written(
            one.name,
            (one.lower, one.upper),
            dict(one.settings),
            f"{values.plan}: {one.name}",
            one.reason,
        )
        for one in plan.alterations
    ]
    return Request(written, plan.threshold, plan.measure, plan.requirements, plan, None)


def _check_comparable(
    flag: str,
    earlier: Sequence[jaxrob.Assessment],
    found: Subject,
    altered: Sequence[jaxrob.Alteration],
    request: Request,
) -> None:
    """Rejects earlier results that `jaxrob.compare` would, before the work."""
    if not earlier:
        return
    by_name = {one.name: one for one in altered}
    images = jaxrob.provenance(found.classifier, found.dataset)["dataset"]
    for old in earlier:
        if (new := by_name.get(old.alteration)) is None:
            continue  # A regression.
        if old.sampling is not None:
            raise Refused(
                f"--{flag}: the earlier result of {old.alteration} is from few "
                "images, and a comparison needs the answers on all; assess the earlier "
                "network again, without --half_width, --budget and --curtail"
            )
        asked_for = {
            "range": ((old.lower, old.upper), (new.lower, new.upper)),
            "threshold": (old.threshold, request.threshold),
            "measure": (old.measure, request.measure),
        }
        # Without labels the network's own answers are, which are not known yet.
        if found.dataset.labels is not None:
            fingerprint = old.provenance["dataset"]["fingerprint"]
            asked_for["images"] = (fingerprint, images["fingerprint"])
        for what, (before, now) in asked_for.items():
            if before != now:
                raise Refused(
                    f"--{flag}: the earlier result of {old.alteration} is of "
                    f"another {what}, {before} and not {now}; assess the earlier "
                    "network again, as this one"
                )


def _assessed(
    found: Subject,
    altered: Sequence[jaxrob.Alteration],
    reasons: Sequence[str | None],
    request: Request,
    values: Values,
    write: Write,
) -> dict[str, Any]:
    classifier, dataset = found
    key, done, shown = jax.random.key(values.seed), [], []
    new: dict[str, Any] = {
        "network": found.name,
        "class_names": found.class_names,
        "plan": request.plan,
        "regressions": (),
        "differences": (),
    }
    # Alterations assessed on few images share them, and a budget, and so end together.
    together = [altered] if request.few else altered
    try:
        for some in together:
            one = some if isinstance(some, jaxrob.Alteration) else None
            answer = jaxrob.assess(
                classifier,
                dataset,
                some,
                request.threshold,
                request.measure,
                strategy=request.few or _strategy(values, one),
                alpha=values.alpha,
                confidence_level=values.confidence_level,
                key=key,
                batch_size=values.batch_size,
                mesh=mesh_of_all(),
                journal=journal_of(values, "assess", found),
                progress=values.progress,
            )
            answers_are_there()
            done += answer if isinstance(answer, tuple) else (answer,)
            new |= {"assessments": done, "reasons": reasons[: len(done)]}
            try:
                pairs = zip(done[len(shown) :], altered[len(shown) :])
                shown += [_shown(*pair, dataset, values) for pair in pairs]
            finally:
                # Pictures take long enough to be interrupted, which loses no result.
                new["pictures"] = [*shown, *[()] * (len(done) - len(shown))]
                write(new)
    except KeyboardInterrupt as error:
        number = f"{len(done)} of {len(altered)} alterations are finished"
        where = f"{number}, in {pathlib.Path(values.output)}/"
        error.add_note(where if done else "no alteration is finished")
        raise
    return new


def _shown(
    assessment: jaxrob.Assessment,
    one: jaxrob.Alteration,
    dataset: jaxrob.Dataset,
    values: Values,
) -> tuple[Picture, ...]:
    shape = dataset.images.shape
    if not values.pictures or len(shape) != 4 or shape[3] not in (1, 3, 4):
        return ()
    key, most = jax.random.key(values.seed), values.pictures
    # Their program takes as long to compile as that which alters all images.
    with progress_bar(f"{one.name}: pictures", values.progress) as bar:
        bar.leave = False
        return reporting.pictures(assessment, one, dataset, key, most=most)


def _strategy(values: Values, one: jaxrob.Alteration | None = None) -> Strategy | None:
    if isinstance(one, Recorded):
        return None  # All of its levels.
    if values.levels is not None:
        return strategies.Uniform(values.levels)
    if one is not None and one.unit == "severity":
        # Benchmarks publish the mean over the severities.
        return strategies.Including(strategies.ASAP(), presets.SEVERITIES)
    return strategies.ASAP()


def _warn_of_no_means(
    altered: Sequence[jaxrob.Alteration], request: Request, levels: int | None
) -> None:
    """Warns, before the work, that benchmarks' mean errors will not be known."""
    ends = [(one.lower, one.upper) for one in altered if one.unit == "severity"]
    if ends and request.few:
        flags = "--half_width, --budget and --curtail look at"
        warn(
            f"{flags} few images, and the mean errors that benchmarks of corruptions "
            "publish are of all: they will not be known. Leave these flags out for "
            "them; --levels=6 is the cheapest"
        )
    elif (0, 5) in ends and levels is not None and (levels - 1) % 5:
        warn(
            f"--levels={levels} misses severities of 1 to 5, so that the mean errors "
            "that benchmarks of corruptions publish will not be known: --levels=6 has "
            "them all, and without the flag they are added"
        )
