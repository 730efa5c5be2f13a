"""What all runs that measure do alike: where they write, what they keep and report."""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jaxrob
from jaxrob import reporting
from jaxrob._command import user_code
from jaxrob._command.define import Refused, Values, check_folders
from jaxrob._command.ending import answers_are_there, recorded_run, with_other_runs
from jaxrob._command.results import (
    check_outcomes,
    check_reports,
    write_outcomes,
    write_reports,
)
from jaxrob._command.subject import (
    Subject,
    announce,
    first_look,
    join_hosts,
    load_subject,
)
from jaxrob._devices.mesh import is_first
from jaxrob._files import lock
from jaxrob.reporting import Requirement, Results
from jaxrob.reporting._gate import beside_assessments
from jaxrob.reporting._requirements import OF_ALTERATION, about_quantity


def begun(values: Values, *folders: str) -> pathlib.Path:
    """Refuses what can be refused before pictures are read; returns the folder."""
    check_reports(values.report)
    check_outcomes(values)
    output = pathlib.Path(values.output)
    if output.exists() and not output.is_dir():
        raise Refused(f"--output={output}: there is a file of that name")
    check_folders(values, "output", "journal", "compilation_cache", *folders)
    join_hosts(values)
    if user_code.is_code(values.classifier or ""):
        # First, so that modules that alterations import too are noted as the network's.
        user_code.load(values.classifier, "classifier")
    return output


# Writes fields of `Results` in place of the folder's.
Write = Callable[[dict[str, Any]], None]


def finished(
    values: Values,
    output: pathlib.Path,
    found: Subject,
    replacing: "Replacing",
    measure: Callable[[Write], dict[str, Any]],
    shown: Sequence[Results] = (),
) -> Results:
    """Measures, writes that beside the folder's other results, and returns it alone."""
    with held(output):
        kept = earlier_results(output, found, replacing)
        of_others = (
            one for one in kept.requirements if one.quantity not in replacing.quantities
        )
        requirements = (*of_others, *replacing.requirements)

        def write(new: dict[str, Any]) -> None:
            runs = with_other_runs(kept.runs, recorded_run(values))
            done = [one.alteration for one in new.get("assessments", ())]
            missing = [one for one in replacing.alterations or () if one not in done]
            asked = [
                one._replace(alteration=name)
                for one in replacing.requirements
                if about_quantity(one.quantity).of == OF_ALTERATION
                for name in missing * (one.alteration is None)
            ]
            if is_first():
                asked = (*requirements, *asked)
                whole = dataclasses.replace(kept, requirements=asked, runs=runs, **new)
                reporting.write_results(output, whole)

        new = measure(write)
        answers_are_there()
        write(new)
    print(f"wrote {output}/")
    if values.report and is_first():
        write_reports(values.report, [reporting.read_results(output)], shown)
    alone = Results(found.name, found.class_names, ())
    own = dataclasses.replace(alone, requirements=replacing.requirements, **new)
    write_outcomes(values, own)
    return own


# Of a subject: what `--dry_run` prints, and what measures.
Prepare = Callable[[Subject], tuple[str, Callable[[], dict[str, Any]]]]


def run_beside(values: Values, replacing: "Replacing", prepare: Prepare) -> str:
    """Measures what stands beside the assessments."""
    output = begun(values)
    found = load_subject(values)
    dry, measure = prepare(found)
    earlier_results(output, found, replacing)
    first_look(found, values.seed)
    announce(found)
    if values.dry_run:
        print(dry)
        return ""
    return verdict(finished(values, output, found, replacing, lambda write: measure()))


def verdict(own: Results) -> str:
    return reporting.verdict(own.requirements, own, own.regressions, own.differences)


class Replacing(NamedTuple):
    quantities: Sequence[str]  # Those whose requirements it replaces
    requirements: Sequence[Requirement]  # The new ones
    alterations: Sequence[str] | None = None
    regressions: bool = False  # Whether it looks for regressions


def earlier_results(
    output: pathlib.Path, found: Subject, replacing: Replacing
) -> Results:
    nothing = Results(found.name, found.class_names, ())
    if not os.path.lexists(output / "results.json"):
        return nothing
    there = reporting.read_results(output)
    source = jaxrob.provenance(found.classifier, found.dataset[:1])
    own, network = source["classifier"], source["network"]
    others = {one["classifier"] for one in there.sources}
    if own is not None and others == {own}:
        _check_none_dropped(output, there, replacing)
        return there
    # An unidentifiable network's give way to the same name's, if all is measured again.
    alone = there.roma is None and there.attack is None and there.domain is None
    if alone and others <= {None} and own is None and there.network == found.name:
        _check_none_dropped(output, there, replacing)
        return nothing
    which = there.network or "without a name"
    anyway = [one.get("network", {}) | {"preprocessing": None} for one in there.sources]
    if network.get("version") and network | {"preprocessing": None} in anyway:
        raise Refused(
            f"--output={output}: it holds results of {which}, from the same file or "
            "weights, but with other --outputs, another preprocessing or another image "
            "size; choose another folder"
        )
    raise Refused(
        f"--output={output}: it holds results of another network, of the same one with "
        "other --outputs, another preprocessing or image size, or of one that nothing "
        f"tells from others ({which}); choose another folder"
    )


def _check_none_dropped(
    output: pathlib.Path, there: Results, replacing: Replacing
) -> None:
    """Rejects a run that would lose results, or the failure of a gate."""
    quantities, requirements, alterations, regressions = replacing
    dropped, found = [], beside_assessments(there)
    if alterations is not None:
        found = there.assessments
        lost = sorted({one.alteration for one in found} - {*alterations})
        dropped += [f"the results of {', '.join(lost)}"] if lost else []
        if there.regressions and not regressions:
            dropped.append("the regressions that were found")
    dropped += [
        f"the requirement {one.said}, which is not met"
        for one in there.requirements
        if one.quantity in quantities
        and not any(_replaces(each, one) for each in requirements)
        and reporting.unmet([one], found, there.differences)
    ]
    if dropped:
        raise Refused(
            f"--output={output}: it holds results of this network, of which this run "
            f"would drop {' and '.join(dropped)}; choose another folder, or ask for "
            "these too"
        )


def _replaces(new: Requirement, old: Requirement) -> bool:
    """Whether a requirement asks for the same quantity of at least the same results."""
    return (new.quantity, new.sign) == (old.quantity, old.sign) and (
        new.alteration in (None, old.alteration)
    )


@contextlib.contextmanager
def held(output: pathlib.Path) -> Iterator[None]:
    if not is_first():
        yield
        return
    output.mkdir(parents=True, exist_ok=True)
    folder = os.open(output, os.O_RDONLY)
    try:
        if lock(folder) is False:
            raise Refused(
                f"--output={output}: another run writes there; choose another folder"
            )
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                output.rmdir()  # If nothing was written.
    finally:
        os.close(folder)
