"""What a run writes: its results folder, reports, outcomes, failing pictures."""

import contextlib
import importlib.util
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax

import jaxrob
from jaxrob import reporting
from jaxrob._arguments.texts import counted, install
from jaxrob._command.define import Values
from jaxrob._command.refused import (
    Refused,
    check_distinct,
    check_file,
    check_folders,
    did_you_mean,
)
from jaxrob._command.subject import Subject
from jaxrob._devices.mesh import is_first
from jaxrob._files import lock, not_written, write_file
from jaxrob.metrics import ALEXNET
from jaxrob.reporting import Requirement, Results
from jaxrob.reporting._columns import log_name
from jaxrob.reporting._exports import check_empty

_REPORTS = {".html": "to_html", ".htm": "to_html", ".md": "to_markdown"}


def check_reports(paths: Sequence[str]) -> None:
    """Rejects files that are not reports, before anything is computed."""
    for path in paths:
        if pathlib.Path(path).suffix.lower() not in _REPORTS:
            raise Refused(f"--report={path}: it must end with .html or .md")
        if pathlib.Path(path).is_dir():
            raise Refused(f"--report={path}: there is a folder of that name")
        check_file("report", path)
    if paths and importlib.util.find_spec("PIL") is None:
        raise Refused(
            f"--report needs Pillow, which is not installed: {install('command')}"
        )


def write_reports(
    paths: Sequence[str], results: Sequence[Results], earlier: Sequence[Results] = ()
) -> None:
    """Writes the report of results to each of the files."""
    for path in map(pathlib.Path, paths):
        make = getattr(reporting, _REPORTS[path.suffix.lower()])
        text = make(results, earlier)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text.encode())
        print(f"wrote {path}")


def required(texts: Sequence[str], quantities: Sequence[str]) -> list[Requirement]:
    """Parses the requirements of `--require`."""
    try:
        return [reporting.requirement(text, quantities) for text in texts]
    except ValueError as error:
        raise Refused(f"--require: {str(error).removeprefix('text: ')}") from error


def check_required(
    said_by: str,
    requirements: Sequence[Requirement],
    names: Sequence[str],
    has_earlier: bool,
) -> None:
    """Rejects requirements that nothing assessed could meet."""
    for one in requirements:
        if not any(map(one.is_of, names)):
            raise Refused(
                f"{said_by}: {one.alteration!r} is not assessed."
                f"{did_you_mean(one.alteration or '', names)} There are: "
                f"{', '.join(names)}"
            )
        if one.quantity == "difference" and not has_earlier:
            raise Refused(
                f"{said_by}: difference is to an earlier result; name its folder with "
                "--earlier"
            )
        if one.quantity == "mce" and (lacking := sorted(ALEXNET.keys() - set(names))):
            raise Refused(
                f"{said_by}: mce is of all corruptions of imagenet_c; not assessed: "
                f"{', '.join(lacking)}"
            )


def check_outcomes(values: Values) -> None:
    """Rejects files of the outcomes that cannot be written, before the work."""
    named = [("report", path) for path in dict.fromkeys(values.report)]
    named += [(one, values[one].value) for one in ("junit", "summary")]
    check_distinct([(flag, path) for flag, path in named if path is not None])
    for flag in ("junit", "summary"):
        path = values[flag].value
        if path is None:
            continue
        if pathlib.Path(path).is_dir():
            raise Refused(f"--{flag}={path}: there is a folder of that name")
        check_file(flag, path)


def write_outcomes(values: Values, results: Results) -> None:
    """Writes the outcomes to the files that `--junit` and `--summary` name."""
    if not is_first():
        return
    if values.junit is not None:
        path = pathlib.Path(values.junit)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, reporting.to_junit(results).encode())
        print(f"wrote {path}")
    if values.summary is not None:
        path = pathlib.Path(values.summary)
        path.parent.mkdir(parents=True, exist_ok=True)
        where = values.report[0] if values.report else None
        _append(path, reporting.to_summary(results, where).encode())
        print(f"wrote {path}")


def _append(path: pathlib.Path, content: bytes) -> None:
    """Appends to a file, completely or not at all: other steps write there too."""
    with open(path, "ab", buffering=0) as file:
        # A pipe has no end.
        before = file.seek(0, os.SEEK_END) if file.seekable() else 0
        # A heading begins after an empty line.
        left = memoryview(b"\n" * bool(before) + content)
        try:
            while left:
                left = left[file.write(left) :]
        except BaseException as error:
            with contextlib.suppress(OSError):
                file.truncate(before)
            if isinstance(error, OSError):
                raise not_written(path, error) from error
            raise


def check_failing(values: Values) -> None:
    """Rejects a folder that cannot be written, before anything is computed."""
    if values.failing is None:
        return
    if values.half_width is not None or values.budget is not None or values.curtail:
        raise Refused(
            "--failing needs the answer on every picture; leave out --half_width, "
            "--budget and --curtail"
        )
    if importlib.util.find_spec("PIL") is None:
        raise Refused(
            f"--failing needs Pillow, which is not installed: {install('command')}"
        )
    try:
        check_empty(pathlib.Path(values.failing))
    except FileExistsError as error:
        raise Refused(
            f"--failing={values.failing}: it must be empty, or not there yet; choose "
            "another folder"
        ) from error


def write_failing_pictures(
    values: Values,
    found: Subject,
    altered: Sequence[jaxrob.Alteration],
    results: Results,
) -> None:
    """Writes a folder for each alteration."""
    for assessment, one in zip(results.assessments, altered):
        folder = pathlib.Path(values.failing, log_name(one.name))
        number = reporting.write_failing(
            folder,
            assessment,
            one,
            found.dataset,
            jax.random.key(values.seed),
            class_names=found.class_names,
        )
        fails = "fails" if number == 1 else "fail"
        print(f"wrote {folder}/: {counted(number, 'picture')} that {fails} first")


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
