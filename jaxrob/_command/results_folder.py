"""The results folder of a command: checked for its network, and locked."""

import contextlib
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jaxrob
from jaxrob import reporting
from jaxrob._command.define import Values
from jaxrob._command.refused import Refused, check_folders
from jaxrob._command.subject import Subject
from jaxrob._devices.hosts import is_first
from jaxrob._files.writing import lock
from jaxrob.reporting import Requirement, Results


class Replacing(NamedTuple):
    """What a run replaces in the folder."""

    quantities: Sequence[str]  # Those whose requirements it replaces
    requirements: Sequence[Requirement]  # The new ones
    # The names of the new assessments; None if it replaces none
    alterations: Sequence[str] | None = None
    regressions: bool = False  # Whether it looks for regressions


def checked_folder(values: Values) -> pathlib.Path:
    """Returns the folder that `--output` names."""
    output = pathlib.Path(values.output)
    if output.exists() and not output.is_dir():
        raise Refused(f"--output={output}: there is a file of that name")
    check_folders(values, "output")
    return output


def earlier(output: pathlib.Path, found: Subject, replacing: Replacing) -> Results:
    """Returns the folder's results of the same network, or empty results."""
    nothing = Results(found.name, found.class_names, ())
    if not os.path.lexists(output / "results.json"):
        return nothing
    there = reporting.read_results(output)
    few = found.dataset[:1]
    source = jaxrob.provenance(found.classifier, few)
    own, network = source["classifier"], source["network"]
    others = {one.provenance["classifier"] for one in there.assessments}
    if own is not None and others == {own}:
        _check_none_dropped(output, there, replacing)
        return there
    # Results of an unidentifiable network are replaced by those of one with the same
    # name, unless they include parts that are not measured again.
    alone = there.roma is None and there.attack is None
    if alone and others <= {None} and own is None and there.network == found.name:
        _check_none_dropped(output, there, replacing)
        return nothing
    which = there.network or "without a name"
    networks = [one.provenance.get("network") for one in there.assessments]
    if network.get("version") and network in networks:
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
    dropped, found = [], {}
    if alterations is not None:
        found |= {one.alteration: one for one in there.assessments}
        lost = [one for one in found if one not in alterations]
        dropped += [f"the results of {', '.join(lost)}"] if lost else []
        if there.regressions and not regressions:
            dropped.append("the regressions that were found")
    elif there.roma is not None:
        found["RoMA"] = there.roma
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
    """Locks the folder for this process, and creates it if necessary."""
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
